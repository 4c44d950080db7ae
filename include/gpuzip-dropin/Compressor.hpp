// Compressor: GPUZIP 2.x's interface of a codec. CompressorBuilder makes them; CompressorZFP.hpp, CompressorBitcomp.hpp and
// CompressorCuSZp.hpp have GPUZIP 2.x's classes; an application may derive its own.
#ifndef GPUZIP_DROPIN_COMPRESSOR_HPP
#define GPUZIP_DROPIN_COMPRESSOR_HPP

#include "common/GPUZIPConfig.h"
#include "common/cudaUtils.cuh"

#include <cstddef>
#include <memory>
#include <string>

/// Codes one field of the extents and type that it was built for. Every call is done when it returns, and throws GPUZIPError when it fails.
/// The memory is the application's and on the host: codecs on device memory are not in gpuzip's C interface yet, so that device memory is
/// GPUZIP_ERR_ARGUMENT. Copy the field to host memory first, or give the device memory to Prefetch, which compresses it on the device.
template <typename Raw, typename Compressed>
class Compressor {
 public:
  virtual ~Compressor() {}

  /// Compresses the field at `in`, which is only read, and returns the bytes written to `out`, which has room for CompressedMaxSize().
  std::size_t Compress(Raw *in, Compressed *out) {
    const Range range(profile_, "Compressor-", *this);
    return compress(in, out);
  }

  /// Restores the field that Compress made `in` of. `bytes` is the size of `in`, where the caller knows it. A damaged or shortened buffer is
  /// GPUZIP_ERR_STREAM.
  void Decompress(Compressed *in, Raw *out, std::size_t bytes = UNKNOWN) {
    const Range range(profile_, "Decompressor-", *this);
    decompress(in, out, bytes);
  }

  /// The name of the codec.
  std::string Name() { return name(); }

  /// The name with the settings.
  std::string Description() { return description(); }

  /// The bytes that Compress wrote to `buffer`; of NULL CompressedMaxSize().
  std::size_t CompressedBufferSize(Compressed *buffer = nullptr) { return compressedBufferSize(buffer); }

  /// The most bytes that Compress can write, whatever the field has.
  std::size_t CompressedMaxSize() { return compressedMaxSize(); }

  /// Compress and Decompress become ranges in the profiler's timeline, where USE_NVTX is defined; without it this does nothing.
  void EnableProfile() { profile_ = true; }
  void DisableProfile() { profile_ = false; }

  /// What it was built with; NULL if it is the application's own. Not in GPUZIP 2.x.
  virtual const gpuzip_config_t *Configuration() const { return nullptr; }

 protected:
  /// The size that a caller did not tell.
  static constexpr std::size_t UNKNOWN = static_cast<std::size_t>(-1);

  virtual std::size_t compress(Raw *in, Compressed *out) = 0;
  virtual void decompress(Compressed *in, Raw *out, std::size_t bytes) = 0;
  virtual std::string name() = 0;
  virtual std::string description() = 0;
  virtual std::size_t compressedBufferSize(Compressed *buffer) = 0;
  virtual std::size_t compressedMaxSize() = 0;

 private:
  /// A profiler's range from here to the end of the scope.
  class Range {
   public:
    Range(bool on, const char *call, Compressor &compressor) : on_(on) {
      if (on_) NvtxPush((call + compressor.Name()).c_str());
    }
    ~Range() {
      if (on_) NvtxPop();
    }
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

   private:
    bool on_;
  };

  bool profile_ = false;
};

#endif
