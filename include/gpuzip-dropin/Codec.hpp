// The Compressors that CompressorBuilder makes: each codes one field in host or device memory with the
// codec of a configuration. Internal.
#ifndef GPUZIP_DROPIN_CODEC_HPP
#define GPUZIP_DROPIN_CODEC_HPP

#include "Compressor.hpp"
#include "common/GPUZIPError.h"
#include "common/GPUZIPLogger.cpp"
#include "prefetch/Shape.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>

namespace gpuzip_dropin {

/// The bits per value of codec zfp.
inline int rate(const gpuzip_config_t &config) { return config.zfp_bit_rate == 0 ? 8 : config.zfp_bit_rate; }

inline std::string codec_name(int compressor) {
  static const char *const names[] = {"none", "zfp", "bitcomp", "cuszp", "lorenzo", "dct", "fp16", "bfp", "lossless"};
  if (compressor >= 0 && compressor <= GPUZIP_COMPRESSOR_LOSSLESS) return names[compressor];
  return "codec " + std::to_string(compressor);
}

/// Whether two configurations name the same codec with the same settings; settings that the codec
/// does not use are not compared.
inline bool same_codec(const gpuzip_config_t &a, const gpuzip_config_t &b) {
  if (a.compressor != b.compressor || a.nonfinite != b.nonfinite) return false;
  if (a.compressor == GPUZIP_COMPRESSOR_ZFP) return rate(a) == rate(b);
  if (std::tie(a.error_bound_mode, a.error_bound) != std::tie(b.error_bound_mode, b.error_bound)) return false;
  if (a.compressor == GPUZIP_COMPRESSOR_CUSZP) return !(a.cuszp_err_bound < b.cuszp_err_bound || a.cuszp_err_bound > b.cuszp_err_bound);
  if (a.compressor != GPUZIP_COMPRESSOR_BITCOMP) return true;
  const auto all = [](const gpuzip_config_t &c) {
    return std::tie(c.bitcomp_delta_config, c.bitcomp_range_fraction, c.bitcomp_num_sigma, c.bitcomp_delta, c.bitcomp_algorithm);
  };
  return all(a) == all(b);
}

/// A Compressor whose buffer is a stream of gpuzip_codec_compress. In host memory a head is before it,
/// which holds the length of the stream in bytes.
template <typename Raw, typename Compressed>
class CodecOf : public Compressor<Raw, Compressed> {
 public:
  /// Makes a Compressor for fields of `shape`. Throws GPUZIP_ERR_UNSUPPORTED if this machine lacks
  /// the codec.
  CodecOf(const gpuzip_config_t &config, const Shape &shape) : config_(settings(config)), field_(shape.field(0)), room_(0) {
    check(gpuzip_codec_bound(&config_, &field_, 1, &room_));
  }

  const gpuzip_config_t *Configuration() const override { return &config_; }

 protected:
  std::size_t compress(Raw *in, Compressed *out) override {
    require(in != nullptr && out != nullptr, "Compress: a pointer is NULL");
    // Sets the log level of the call.
    const gpuzip_config_t config = GPUZIPLogger::Applied(config_);
    const gpuzip_field_t field = at(in);
    Head head = {MAGIC, 0};
    if (on_device(in) || on_device(out)) {
      check(gpuzip_codec_compress(&config, &field, 1, out, room_, &head.bytes));
      return static_cast<std::size_t>(head.bytes);
    }
    unsigned char *const bytes = static_cast<unsigned char *>(static_cast<void *>(out));
    check(gpuzip_codec_compress(&config, &field, 1, bytes + sizeof head, room_, &head.bytes));
    std::memcpy(bytes, &head, sizeof head);
    return sizeof head + static_cast<std::size_t>(head.bytes);
  }

  void decompress(Compressed *in, Raw *out, std::size_t given) override {
    require(in != nullptr && out != nullptr, "Decompress: a pointer is NULL");
    const gpuzip_field_t field = at(out);
    if (on_device(in) || on_device(out)) return check(gpuzip_codec_decompress(in, given < room_ ? given : room_, &field, 1));
    if (given < sizeof(Head)) too_short(given, sizeof(Head));
    const std::uint64_t bytes = stream_bytes(in);
    if (given - sizeof(Head) < bytes) too_short(given, sizeof(Head) + bytes);
    check(gpuzip_codec_decompress(static_cast<const unsigned char *>(static_cast<void *>(in)) + sizeof(Head), bytes, &field, 1));
  }

  std::string name() override { return codec_name(config_.compressor); }

  std::string description() override {
    const auto &n = field_;
    std::string text = name() + " of " + std::to_string(n.n1) + " x " + std::to_string(n.n2) + " x " + std::to_string(n.n3);
    text += n.type == GPUZIP_TYPE_F64 ? " doubles" : " floats";
    if (config_.compressor == GPUZIP_COMPRESSOR_ZFP) text += ", " + std::to_string(rate(config_)) + " bits per value";
    return text;
  }

  std::size_t compressedBufferSize(Compressed *buffer) override {
    if (buffer == nullptr) return compressedMaxSize();
    if (on_device(buffer)) {
      gpuzip_codec_info_t info;
      info.struct_size = sizeof info;
      check(gpuzip_codec_info(buffer, room_, 0, &info));
      return static_cast<std::size_t>(info.stored_bytes);
    }
    return sizeof(Head) + static_cast<std::size_t>(stream_bytes(buffer));
  }

  std::size_t compressedMaxSize() override { return sizeof(Head) + static_cast<std::size_t>(room_); }

 private:
  struct Head {
    std::uint64_t magic, bytes;
  };

  static const std::uint64_t MAGIC = 0x31646c667a757067u;  // "gpuzfld1"

  /// Copies the settings of the codec from a configuration, without pointers into the application.
  static gpuzip_config_t settings(const gpuzip_config_t &config) {
    gpuzip_config_t own = config;
    own.checkpointing_algorithm = GPUZIP_ALGORITHM_AUTO;
    own.trace_file_path = nullptr;
    own.float_kind = nullptr;
    own.profile_path = own.trace_out = own.persist_dir = own.disk_path = own.quality = nullptr;
    own.backend = own.device = 0;
    return own;
  }

  gpuzip_field_t at(void *data) const {
    gpuzip_field_t field = field_;
    field.data = data;
    return field;
  }

  /// Whether the host cannot use `memory`. The library checks the memory of fields, so a buffer is
  /// passed to it as a field. Throws if the library cannot tell.
  bool on_device(void *memory) const {
    std::uint64_t ignored;
    const gpuzip_field_t field = at(memory);
    gpuzip_config_t host = config_;
    host.backend = 1;  // host
    const gpuzip_status_t status = gpuzip_codec_bound(&host, &field, 1, &ignored);
    if (status != GPUZIP_ERR_ARGUMENT) check(status);
    return status == GPUZIP_ERR_ARGUMENT;
  }

  [[noreturn]] static void too_short(std::size_t given, std::uint64_t needed) {
    throw GPUZIPError(GPUZIP_ERR_STREAM, "Decompress: the buffer has " + std::to_string(given) + " bytes, and what Compress wrote has " +
                                             std::to_string(needed) + " or more: it was cut off");
  }

  std::uint64_t stream_bytes(void *buffer) const {
    Head head;
    std::memcpy(&head, buffer, sizeof head);
    if (head.magic != MAGIC) throw GPUZIPError(GPUZIP_ERR_STREAM, "the buffer does not begin with what Compress writes");
    if (head.bytes > room_)
      throw GPUZIPError(GPUZIP_ERR_STREAM, "the buffer claims " + std::to_string(head.bytes) + " bytes where a field of this Compressor has " +
                                               std::to_string(room_) + " at most: it is damaged, or of another shape");
    return head.bytes;
  }

  gpuzip_config_t config_;
  gpuzip_field_t field_;
  std::uint64_t room_;  // most bytes of a stream
};

typedef CodecOf<void, void> Codec;

}  // namespace gpuzip_dropin

#endif
