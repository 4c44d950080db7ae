// How these headers report errors: an exception with the status and the text of the C interface. No
// call ends the process.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPERROR_H
#define GPUZIP_DROPIN_COMMON_GPUZIPERROR_H

#include "GPUZIPConfig.h"

#include <stdexcept>
#include <string>

/// The exception that every call of the drop-in headers throws when it fails.
class GPUZIPError : public std::runtime_error {
 public:
  /// Makes an error of a status GPUZIP_ERR_* and its text, which `what()` returns.
  GPUZIPError(gpuzip_status_t status, const std::string &text) : std::runtime_error(text), status_(status) {}

  /// GPUZIP_ERR_*.
  gpuzip_status_t status() const noexcept { return status_; }

 private:
  gpuzip_status_t status_;
};

namespace gpuzip_dropin {

/// Throws if a call of the C interface failed; positive statuses are successes with a warning.
inline void check(gpuzip_status_t status) {
  if (status >= GPUZIP_OK) return;
  const std::string text = gpuzip_last_error();
  throw GPUZIPError(status, text.empty() ? gpuzip_status_string(status) : text);
}

/// Throws GPUZIP_ERR_ARGUMENT unless `good`.
inline void require(bool good, const char *text) {
  if (!good) throw GPUZIPError(GPUZIP_ERR_ARGUMENT, text);
}

}  // namespace gpuzip_dropin

#endif
