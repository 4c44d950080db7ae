// The shape of a Prefetch's fields, and how it reads the application's Field_t. Internal.
#ifndef GPUZIP_DROPIN_PREFETCH_SHAPE_HPP
#define GPUZIP_DROPIN_PREFETCH_SHAPE_HPP

#include "../common/GPUZIPError.h"
#include "../common/real_t.h"
#include "../common/structs.h"

#include <string>

namespace gpuzip_dropin {

/// The extents and the type of a field; curr and prev have the same shape.
class Shape {
 public:
  /// A shape whose extents are not known before the first field.
  explicit Shape(int32_t type) : Shape(type, 0, 0, 0) {}

  static Shape of_extents(int32_t type, std::size_t n1, std::size_t n2, std::size_t n3) {
    require(n1 > 0 && n2 > 0 && n3 > 0, "an extent is 0; a dimension that is not used is 1");
    return Shape(type, n1, n2, n3);
  }

  /// A field of `bytes` bytes that is not divided into dimensions.
  static Shape of_bytes(int32_t type, std::size_t bytes) {
    Shape shape(type, 0, 1, 1);
    require(bytes > 0 && bytes % shape.value_bytes() == 0, "PrefetchBuilder: bytes is not a multiple of the size of float_kind's type");
    shape.n1_ = bytes / shape.value_bytes();
    shape.flat_ = true;
    return shape;
  }

  /// A shape of these extents whose type is given by name.
  static Shape of_kind(const std::string &kind, std::size_t n1, std::size_t n2, std::size_t n3) { return of_extents(type_of(kind), n1, n2, n3); }

  /// GPUZIP_TYPE_* of the configuration's float_kind; without float_kind that of real_t.
  static int32_t type_of(const gpuzip_config_t &config) {
    const char *const of_real_t = sizeof(real_t) == sizeof(double) ? "double" : "float";
    return type_of(std::string(config.float_kind && *config.float_kind ? config.float_kind : of_real_t));
  }

  static int32_t type_of(const std::string &kind) {
    if (kind == "double") return GPUZIP_TYPE_F64;
    if (kind == "float") return GPUZIP_TYPE_F32;
    throw GPUZIPError(GPUZIP_ERR_CONFIG, "float_kind = \"" + kind + "\": use \"float\" or \"double\"");
  }

  bool known() const { return n1_ > 0; }

  /// Takes the extents of a field.
  void learn(const Field_t &field) { *this = of_extents(type_, field.n1, field.n2, field.n3); }

  /// The type of a field by its size: double if it has 8 bytes per value, otherwise real_t.
  static int32_t type_of(const Field_t &field) {
    const bool doubles = field.size > 0 && field.size / sizeof(double) == field.n1 * field.n2 * field.n3 && field.size % sizeof(double) == 0;
    return doubles ? GPUZIP_TYPE_F64 : type_of(gpuzip_config_t());
  }

  /// Bytes of one field.
  std::size_t bytes() const { return n1_ * n2_ * n3_ * value_bytes(); }

  /// The field for the C interface, which checks the extents; `role` as in gpuzip_field_t.
  /// Field_t.size is checked, so that a buffer of another type or length is an error; 0 is not
  /// checked, unless the shape has bytes only.
  gpuzip_field_t field(const Field_t *given, int32_t role) const {
    require(given != nullptr, "a Field_t pointer is NULL: a state has the fields curr and prev");
    gpuzip_field_t result = flat_ ? make(n1_, 1, 1, role) : make(given->n1, given->n2, given->n3, role);
    const std::size_t expected = bytes();
    if (given->size != expected && (given->size != 0 || flat_))
      throw GPUZIPError(GPUZIP_ERR_SHAPE, "Field_t.size = " + std::to_string(given->size) + ": a field of this Prefetch has " +
                                              std::to_string(expected) + " bytes (extents and float_kind)");
    result.data = given->data;
    return result;
  }

  /// The field without memory.
  gpuzip_field_t field(int32_t role) const { return make(n1_, n2_, n3_, role); }

 private:
  Shape(int32_t type, std::size_t n1, std::size_t n2, std::size_t n3) : n1_(n1), n2_(n2), n3_(n3), type_(type), flat_(false) {}

  std::size_t value_bytes() const { return type_ == GPUZIP_TYPE_F64 ? sizeof(double) : sizeof(float); }

  gpuzip_field_t make(std::size_t n1, std::size_t n2, std::size_t n3, int32_t role) const {
    gpuzip_field_t field = gpuzip_field_t();
    field.n1 = n1;
    field.n2 = n2;
    field.n3 = n3;
    field.type = type_;
    field.role = role;
    return field;
  }

  std::size_t n1_, n2_, n3_;
  int32_t type_;
  bool flat_;  // only bytes are known; the application's extents are not read
};

}  // namespace gpuzip_dropin

#endif
