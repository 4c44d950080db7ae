// The Compressor that CompressorBuilder makes: one field in host memory, by the codec of a configuration. Internal.
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

/// What Compress writes is a head, which tells the rest's length, and behind it a stream of gpuzip_codec_compress.
class Codec : public Compressor<void, void> {
 public:
  /// For fields of `shape`. GPUZIP_ERR_UNSUPPORTED if the codec is not to be had on this machine.
  Codec(const gpuzip_config_t &config, const Shape &shape) : config_(settings(config)), field_(shape.field(0)), room_(0) {
    check(gpuzip_codec_bound(&config_, &field_, 1, &room_));
  }

  std::size_t Compress(void *in, void *out) override {
    require(in != nullptr && out != nullptr, "Compress: a pointer is NULL");
    on_host(out);
    const gpuzip_config_t config = GPUZIPLogger::Applied(config_);  // the call sets the log level
    const gpuzip_field_t field = at(in);
    Head head = {MAGIC, 0};
    check(gpuzip_codec_compress(&config, &field, 1, static_cast<unsigned char *>(out) + sizeof head, room_, &head.bytes));
    std::memcpy(out, &head, sizeof head);
    return sizeof head + static_cast<std::size_t>(head.bytes);
  }

  void Decompress(void *in, void *out) override {
    require(in != nullptr && out != nullptr, "Decompress: a pointer is NULL");
    const std::uint64_t bytes = stream_bytes(in);
    const gpuzip_field_t field = at(out);
    check(gpuzip_codec_decompress(static_cast<const unsigned char *>(in) + sizeof(Head), bytes, &field, 1));
  }

  std::size_t CompressedMaxSize() override { return sizeof(Head) + static_cast<std::size_t>(room_); }

  std::size_t CompressedBufferSize(void *buffer) override {
    require(buffer != nullptr, "CompressedBufferSize: the buffer is NULL");
    return sizeof(Head) + static_cast<std::size_t>(stream_bytes(buffer));
  }

  const gpuzip_config_t *Configuration() const override { return &config_; }

  /// Whether two configurations ask for the same of a codec.
  static bool same(const gpuzip_config_t &a, const gpuzip_config_t &b) {
    const auto all = [](const gpuzip_config_t &c) {
      return std::tie(c.compressor, c.zfp_bit_rate, c.cuszp_err_bound, c.bitcomp_delta_config, c.bitcomp_range_fraction, c.bitcomp_num_sigma,
                      c.bitcomp_delta, c.bitcomp_algorithm, c.error_bound_mode, c.error_bound, c.nonfinite);
    };
    return all(a) == all(b);
  }

 private:
  struct Head {
    std::uint64_t magic, bytes;
  };

  static const std::uint64_t MAGIC = 0x31646c667a757067u;  // "gpuzfld1"

  /// What a codec reads of a configuration, and nothing that points into the application.
  static gpuzip_config_t settings(const gpuzip_config_t &config) {
    gpuzip_config_t own = config;
    own.checkpointing_algorithm = GPUZIP_ALGORITHM_AUTO;
    own.trace_file_path = nullptr;
    own.float_kind = nullptr;
    own.profile_path = own.trace_out = own.persist_dir = nullptr;
    own.backend = own.device = 0;
    return own;
  }

  gpuzip_field_t at(void *data) const {
    gpuzip_field_t field = field_;
    field.data = data;
    return field;
  }

  /// The library looks where fields lie, so that a buffer is shown to it as one.
  void on_host(void *buffer) const {
    std::uint64_t ignored;
    const gpuzip_field_t field = at(buffer);
    check(gpuzip_codec_bound(&config_, &field, 1, &ignored));
  }

  std::uint64_t stream_bytes(void *buffer) const {
    on_host(buffer);
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

}  // namespace gpuzip_dropin

#endif
