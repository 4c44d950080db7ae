// Compressor: GPUZIP 2.x's interface of a codec. This version of gpuzip stores raw snapshots; nothing implements it yet.
#ifndef GPUZIP_DROPIN_COMPRESSOR_HPP
#define GPUZIP_DROPIN_COMPRESSOR_HPP

#include <cstddef>

template <typename Raw, typename Compressed>
class Compressor {
 public:
  virtual ~Compressor() {}

  /// Compresses a field; returns the bytes written to `out`.
  virtual std::size_t Compress(Raw *in, Compressed *out) = 0;

  /// Restores a field.
  virtual void Decompress(Compressed *in, Raw *out) = 0;

  /// The most bytes that Compress can write.
  virtual std::size_t CompressedMaxSize() = 0;

  /// The bytes of a compressed field.
  virtual std::size_t CompressedBufferSize(Compressed *buffer) = 0;
};

#endif
