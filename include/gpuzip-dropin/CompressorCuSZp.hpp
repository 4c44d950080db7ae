// CompressorCuSZp: cuSZp with a bound relative to the range of a field's values, with GPUZIP 2.x's
// constructor, without a configuration.
#ifndef GPUZIP_DROPIN_COMPRESSORCUSZP_HPP
#define GPUZIP_DROPIN_COMPRESSORCUSZP_HPP

#include "Codec.hpp"

/// For fields of n1 x n2 x n3 floats. The bound is `error_bound` times (greatest - least value).
template <typename Raw, typename Compressed>
class CompressorCuSZp final : public gpuzip_dropin::CodecOf<Raw, Compressed> {
 public:
  /// Throws GPUZIPError if an extent is 0 or `error_bound` is not valid.
  CompressorCuSZp(std::size_t n1, std::size_t n2, std::size_t n3, double error_bound)
      : gpuzip_dropin::CodecOf<Raw, Compressed>(settings(error_bound), gpuzip_dropin::Shape::of_kind("float", n1, n2, n3)) {}

 private:
  static gpuzip_config_t settings(double error_bound) {
    gpuzip_config_t config;
    config.compressor = GPUZIP_COMPRESSOR_CUSZP;
    config.cuszp_err_bound = error_bound;
    config.log_level = GPUZIPLogger::GetLevel();
    return config;
  }
};

#endif
