// Checks of the programs that use the drop-in headers. A check that does not hold is printed, and the
// program goes on.
#ifndef GPUZIP_TESTS_CXX_CHECKS_HPP
#define GPUZIP_TESTS_CXX_CHECKS_HPP

#include "common/GPUZIPConfig.h"
#include "common/GPUZIPError.h"

#include <cstdio>
#include <cstring>

inline gpuzip_config_t revolve(int snapshots = 4, int cache = 2) {
  gpuzip_config_t config;
  config.checkpointing_algorithm = 1;
  config.checkpointing_snaps = snapshots;
  config.cache_capacity = cache;
  config.log_level = 3;
  return config;
}

static int failures = 0;

inline void hold(const char *what, bool good) {
  if (good) return;
  std::printf("%s: does not hold\n", what);
  failures++;
}

/// Checks that the call throws an exception with this status and a text that contains `part`.
template <typename Call>
void refused(const char *what, gpuzip_status_t status, const char *part, Call call) {
  try {
    call();
    hold(what, false);
  } catch (const GPUZIPError &error) {
    if (error.status() == status && std::strstr(error.what(), part)) return;
    std::printf("%s: status %d, %s\n", what, error.status(), error.what());
    failures++;
  }
}

#endif
