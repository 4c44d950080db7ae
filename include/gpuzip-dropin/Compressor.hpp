// Compressor: GPUZIP 2.x's interface of a codec. CompressorBuilder makes Compressors;
// CompressorZFP.hpp, CompressorBitcomp.hpp and CompressorCuSZp.hpp have the classes of GPUZIP 2.x;
// an application may derive its own class.
#ifndef GPUZIP_DROPIN_COMPRESSOR_HPP
#define GPUZIP_DROPIN_COMPRESSOR_HPP

#include "common/GPUZIPConfig.h"
#include "common/cudaUtils.cuh"

#include <cstddef>
#include <memory>
#include <string>

/// Compresses and decompresses one field of the extents and type that the object was built for.
/// Every call is complete when it returns, and throws GPUZIPError when it fails. The application
/// owns the memory. The field and the buffer are both in host memory or both in device memory; in
/// device memory the buffer begins at a multiple of 64 bytes.
template <typename Raw, typename Compressed>
class Compressor {
 public:
  virtual ~Compressor() {}

  /// Compresses the field at `in`, which is only read, and returns the number of bytes written to
  /// `out`. `out` has room for CompressedMaxSize() bytes.
  std::size_t Compress(Raw *in, Compressed *out) {
    const Range range(profile_, "Compressor-", *this);
    return compress(in, out);
  }

  /// Decompresses the buffer `in`, which Compress wrote, into the field at `out`. `bytes` is the
  /// size of `in`, if the caller knows it. A damaged or shortened buffer is GPUZIP_ERR_STREAM.
  void Decompress(Compressed *in, Raw *out, std::size_t bytes = UNKNOWN) {
    const Range range(profile_, "Decompressor-", *this);
    decompress(in, out, bytes);
  }

  /// The name of the codec.
  std::string Name() { return name(); }

  /// The name of the codec and its settings.
  std::string Description() { return description(); }

  /// The number of bytes that Compress wrote to `buffer`; CompressedMaxSize() if `buffer` is NULL.
  std::size_t CompressedBufferSize(Compressed *buffer = nullptr) { return compressedBufferSize(buffer); }

  /// The most bytes that Compress can write, whatever the values of the field are.
  std::size_t CompressedMaxSize() { return compressedMaxSize(); }

  /// Shows Compress and Decompress as ranges in a profiler's timeline if USE_NVTX is defined;
  /// otherwise does nothing.
  void EnableProfile() { profile_ = true; }

  /// Ends what EnableProfile began.
  void DisableProfile() { profile_ = false; }

  /// The configuration of this object; NULL for a class of the application. Not in GPUZIP 2.x.
  virtual const gpuzip_config_t *Configuration() const { return nullptr; }

 protected:
  /// Stands for a size that the caller did not give.
  static constexpr std::size_t UNKNOWN = static_cast<std::size_t>(-1);

  /// What a class of the application overrides: each function does what the public function of its
  /// name is described to do. `bytes` is UNKNOWN if the caller did not give it. A failure is an
  /// exception.
  virtual std::size_t compress(Raw *in, Compressed *out) = 0;
  virtual void decompress(Compressed *in, Raw *out, std::size_t bytes) = 0;
  virtual std::string name() = 0;
  virtual std::string description() = 0;
  virtual std::size_t compressedBufferSize(Compressed *buffer) = 0;
  virtual std::size_t compressedMaxSize() = 0;

 private:
  /// A range in the profiler's timeline, from its construction to the end of the scope.
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
