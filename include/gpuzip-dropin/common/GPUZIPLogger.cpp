// GPUZIPLogger: what is logged. Applications include this file, as they did in GPUZIP 2.x.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPLOGGER_CPP
#define GPUZIP_DROPIN_COMMON_GPUZIPLOGGER_CPP

#include "GPUZIPError.h"

#include <atomic>

class GPUZIPLogger {
 public:
  /// 0 DEBUG, 1 INFO, 2 WARN, 3 ERROR, for the whole process. From now on it stands above the configurations' log_level.
  static void SetLevel(int level) {
    gpuzip_dropin::check(gpuzip_set_log_level(level));
    chosen().level = level;
  }

  /// Turns the performance log on or off for the Prefetch objects that are built from now on, above their enable_performance_log.
  static void PerfTraceSwitch(bool on) { chosen().performance_log = on ? 1 : 0; }

  /// A configuration as SetLevel and PerfTraceSwitch changed it.
  static gpuzip_config_t Applied(const gpuzip_config_t &config) {
    gpuzip_config_t applied = config;
    const int level = chosen().level, performance_log = chosen().performance_log;
    if (level != NOT_CHOSEN) applied.log_level = level;
    if (performance_log != NOT_CHOSEN) applied.enable_performance_log = performance_log;
    return applied;
  }

 private:
  enum { NOT_CHOSEN = -1 };

  struct Chosen {
    std::atomic<int> level{NOT_CHOSEN}, performance_log{NOT_CHOSEN};
  };

  static Chosen &chosen() {
    static Chosen instance;
    return instance;
  }
};

#endif
