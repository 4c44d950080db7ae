// CompressorBitcomp: NVIDIA's Bitcomp with GPUZIP 2.x's constructor, without a configuration. The
// constructor needs libnvcomp.
#ifndef GPUZIP_DROPIN_COMPRESSORBITCOMP_HPP
#define GPUZIP_DROPIN_COMPRESSORBITCOMP_HPP

#include "Codec.hpp"

#include <string>

/// For fields of n1 x n2 x n3 values of `float_kind`. `config_kind`: 0 `range_fraction` times the
/// greatest absolute value, 1 `range_fraction` times the width of `num_sigma` standard deviations
/// on either side of the mean, 2 `delta`. `algo`: "default" or "sparse".
template <typename Raw, typename Compressed>
class CompressorBitcomp final : public gpuzip_dropin::CodecOf<Raw, Compressed> {
 public:
  /// Throws GPUZIP_ERR_ARGUMENT if a number that `config_kind` uses is not greater than 0, and
  /// GPUZIP_ERR_UNSUPPORTED without libnvcomp.
  CompressorBitcomp(std::size_t n1, std::size_t n2, std::size_t n3, int config_kind = 0, double range_fraction = 0.0, double num_sigma = 0.0,
                    double delta = 0.0, const std::string &float_kind = "float", const std::string &algo = "default")
      : gpuzip_dropin::CodecOf<Raw, Compressed>(settings(config_kind, range_fraction, num_sigma, delta, algo),
                                                gpuzip_dropin::Shape::of_kind(float_kind, n1, n2, n3)) {}

 private:
  static gpuzip_config_t settings(int config_kind, double range_fraction, double num_sigma, double delta, const std::string &algo) {
    gpuzip_dropin::require(config_kind >= 0 && config_kind <= 2, "CompressorBitcomp: config_kind is not 0, 1 or 2");
    gpuzip_dropin::require(config_kind == 2 || range_fraction > 0, "CompressorBitcomp: range_fraction is not greater than 0");
    gpuzip_dropin::require(config_kind != 1 || num_sigma > 0, "CompressorBitcomp: num_sigma is not greater than 0");
    gpuzip_dropin::require(config_kind != 2 || delta > 0, "CompressorBitcomp: delta is not greater than 0");
    gpuzip_dropin::require(algo == "default" || algo == "sparse", "CompressorBitcomp: algo is not \"default\" or \"sparse\"");
    gpuzip_config_t config;
    config.compressor = GPUZIP_COMPRESSOR_BITCOMP;
    config.bitcomp_delta_config = config_kind;
    config.bitcomp_range_fraction = range_fraction;
    config.bitcomp_num_sigma = num_sigma;
    config.bitcomp_delta = delta;
    config.bitcomp_algorithm = algo == "sparse" ? 1 : 0;
    config.log_level = GPUZIPLogger::GetLevel();
    return config;
  }
};

#endif
