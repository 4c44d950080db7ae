// CompressorZFP: zfp at a fixed rate, with GPUZIP 2.x's constructor, without a configuration.
#ifndef GPUZIP_DROPIN_COMPRESSORZFP_HPP
#define GPUZIP_DROPIN_COMPRESSORZFP_HPP

#include "Codec.hpp"

#include <string>

/// For fields of n1 x n2 x n3 values of `float_kind`, "float" or "double". `rate`: bits per value,
/// a whole number.
template <typename Raw, typename Compressed>
class CompressorZFP final : public gpuzip_dropin::CodecOf<Raw, Compressed> {
 public:
  /// Throws GPUZIP_ERR_ARGUMENT if `rate` is not a whole number from 1 to 64 or an extent is 0.
  CompressorZFP(std::size_t n1, std::size_t n2, std::size_t n3, const std::string &float_kind, double rate)
      : gpuzip_dropin::CodecOf<Raw, Compressed>(settings(rate), gpuzip_dropin::Shape::of_kind(float_kind, n1, n2, n3)) {}

 private:
  static gpuzip_config_t settings(double rate) {
    gpuzip_dropin::require(rate >= 1 && rate <= 64, "CompressorZFP: rate is not between 1 and 64 bits per value");
    gpuzip_config_t config;
    config.compressor = GPUZIP_COMPRESSOR_ZFP;
    config.zfp_bit_rate = static_cast<int>(rate);
    gpuzip_dropin::require(!(rate > config.zfp_bit_rate), "CompressorZFP: rate is no whole number of bits per value");
    config.log_level = GPUZIPLogger::GetLevel();
    return config;
  }
};

#endif
