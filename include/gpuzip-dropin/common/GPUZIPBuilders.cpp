// GPUZIPBuilders: the functions that make the objects. The application owns the objects and deletes
// them. Applications include this file, as in GPUZIP 2.x.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPBUILDERS_CPP
#define GPUZIP_DROPIN_COMMON_GPUZIPBUILDERS_CPP

#include "../Codec.hpp"
#include "../Compressor.hpp"
#include "../checkpointing/Checkpointing.hpp"
#include "../prefetch/Prefetch.cuh"
#include "GPUZIPError.h"
#include "real_t.h"

#include <memory>

/// Makes the objects. Every function throws GPUZIPError with GPUZIP_ERR_ARGUMENT if a pointer is
/// NULL, and where the configuration is wrong.
class GPUZIPBuilders {
 public:
  /// Makes the schedule for `steps` time steps. `config` is copied.
  static Checkpointing *CheckpointingBuilder(const gpuzip_config_t *config, int steps) {
    gpuzip_dropin::require(config != nullptr, "CheckpointingBuilder: the configuration is NULL");
    return new Checkpointing(*config, steps);
  }

  /// Makes the Prefetch of one device for two fields, curr and prev, of n1 x n2 x n3 values of
  /// float_kind each.
  static Prefetch *PrefetchBuilder(const gpuzip_config_t *config, std::size_t n1, std::size_t n2, std::size_t n3, int steps,
                                   const Checkpointing *checkpointing) {
    check(config, checkpointing);
    return new Prefetch(*config, gpuzip_dropin::Shape::of_extents(type(config), n1, n2, n3), steps, *checkpointing);
  }

  /// Makes a Prefetch for fields of `bytes` bytes each; the extents in Field_t are then not read.
  static Prefetch *PrefetchBuilder(const gpuzip_config_t *config, std::size_t bytes, int steps, const Checkpointing *checkpointing) {
    check(config, checkpointing);
    return new Prefetch(*config, gpuzip_dropin::Shape::of_bytes(type(config), bytes), steps, *checkpointing);
  }

  /// Makes a Prefetch that takes the extents of its fields from the first Save. The schedule must
  /// begin with that Save (a trace might not), and budgets cannot decide the number of snapshots.
  static Prefetch *PrefetchBuilder(const gpuzip_config_t *config, int steps, const Checkpointing *checkpointing) {
    check(config, checkpointing);
    return new Prefetch(*config, gpuzip_dropin::Shape(type(config)), steps, *checkpointing);
  }

  /// Makes a codec for fields of n1 x n2 x n3 values of float_kind. Returns an empty pointer if the
  /// configuration names no compressor.
  static std::unique_ptr<Compressor<void, void>> CompressorBuilder(const gpuzip_config_t *config, std::size_t n1, std::size_t n2,
                                                                   std::size_t n3) {
    gpuzip_dropin::require(config != nullptr, "CompressorBuilder: the configuration is NULL");
    if (config->compressor == GPUZIP_COMPRESSOR_NONE) return std::unique_ptr<Compressor<void, void>>();
    const gpuzip_dropin::Shape shape = gpuzip_dropin::Shape::of_extents(type(config), n1, n2, n3);
    return std::unique_ptr<Compressor<void, void>>(new gpuzip_dropin::Codec(*config, shape));
  }

 private:
  static void check(const gpuzip_config_t *config, const Checkpointing *checkpointing) {
    gpuzip_dropin::require(config != nullptr, "PrefetchBuilder: the configuration is NULL");
    gpuzip_dropin::require(checkpointing != nullptr, "PrefetchBuilder: the Checkpointing is NULL");
  }

  static int32_t type(const gpuzip_config_t *config) { return gpuzip_dropin::Shape::type_of(*config); }
};

/// As GPUZIPBuilders::CheckpointingBuilder: GPUZIP's documents also call the builders without the name of the class.
inline Checkpointing *CheckpointingBuilder(const gpuzip_config_t *config, int steps) {
  return GPUZIPBuilders::CheckpointingBuilder(config, steps);
}

/// As GPUZIPBuilders::PrefetchBuilder.
inline Prefetch *PrefetchBuilder(const gpuzip_config_t *config, std::size_t n1, std::size_t n2, std::size_t n3, int steps,
                                 const Checkpointing *checkpointing) {
  return GPUZIPBuilders::PrefetchBuilder(config, n1, n2, n3, steps, checkpointing);
}

/// The same with bytes.
inline Prefetch *PrefetchBuilder(const gpuzip_config_t *config, std::size_t bytes, int steps, const Checkpointing *checkpointing) {
  return GPUZIPBuilders::PrefetchBuilder(config, bytes, steps, checkpointing);
}

/// The same for extents that the first Save gives.
inline Prefetch *PrefetchBuilder(const gpuzip_config_t *config, int steps, const Checkpointing *checkpointing) {
  return GPUZIPBuilders::PrefetchBuilder(config, steps, checkpointing);
}

/// As GPUZIPBuilders::CompressorBuilder.
inline std::unique_ptr<Compressor<void, void>> CompressorBuilder(const gpuzip_config_t *config, std::size_t n1, std::size_t n2,
                                                                 std::size_t n3) {
  return GPUZIPBuilders::CompressorBuilder(config, n1, n2, n3);
}

#endif
