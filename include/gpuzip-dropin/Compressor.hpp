// Compressor: GPUZIP 2.x's interface of a codec. CompressorBuilder makes them.
#ifndef GPUZIP_DROPIN_COMPRESSOR_HPP
#define GPUZIP_DROPIN_COMPRESSOR_HPP

#include "common/GPUZIPConfig.h"

#include <cstddef>

/// Codes one field of the extents and type that CompressorBuilder was given. Every call is done when it returns, and throws GPUZIPError
/// when it fails. The memory is the application's and on the host; device memory is GPUZIP_ERR_ARGUMENT in this version.
template <typename Raw, typename Compressed>
class Compressor {
 public:
  virtual ~Compressor() {}

  /// Compresses the field at `in`, which is only read, and returns the bytes written to `out`, which has room for CompressedMaxSize().
  virtual std::size_t Compress(Raw *in, Compressed *out) = 0;

  /// Restores the field that Compress made `in` of. A damaged buffer is GPUZIP_ERR_STREAM.
  virtual void Decompress(Compressed *in, Raw *out) = 0;

  /// The most bytes that Compress can write, whatever the field has.
  virtual std::size_t CompressedMaxSize() = 0;

  /// The bytes that Compress wrote to `buffer`.
  virtual std::size_t CompressedBufferSize(Compressed *buffer) = 0;

  /// What it was built with; NULL if it is the application's own. Not in GPUZIP 2.x.
  virtual const gpuzip_config_t *Configuration() const { return nullptr; }
};

#endif
