// GPUZIPLogger: controls what is logged. Applications include this file, as in GPUZIP 2.x.
#ifndef GPUZIP_DROPIN_COMMON_GPUZIPLOGGER_CPP
#define GPUZIP_DROPIN_COMMON_GPUZIPLOGGER_CPP

#include "GPUZIPError.h"
#include "structs.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>

/// What is logged, for the whole process. All functions are static and may be called from several
/// threads.
class GPUZIPLogger {
 public:
  /// The log levels that SetLevel takes and GetLevel returns.
  static constexpr int DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3;

  /// Sets the log level DEBUG, INFO, WARN or ERROR for the whole process. From now on this level
  /// replaces log_level of the configurations.
  static void SetLevel(int level) {
    gpuzip_dropin::check(gpuzip_set_log_level(level));
    chosen().level = level;
  }

  /// The level of the last SetLevel; DEBUG before the first SetLevel, as in GPUZIP 2.x.
  static int GetLevel() {
    const int level = chosen().level;
    return level == NOT_CHOSEN ? DEBUG : level;
  }

  /// IsDebug, IsInfo, IsWarn and IsError: whether messages of the level DEBUG, INFO, WARN or ERROR
  /// are written.
  static bool IsDebug() { return GetLevel() <= DEBUG; }
  static bool IsInfo() { return GetLevel() <= INFO; }
  static bool IsWarn() { return GetLevel() <= WARN; }
  static bool IsError() { return GetLevel() <= ERROR; }

  /// Turns the performance log on or off, for the application's own PerfTrace messages and for the
  /// Prefetch objects built from now on, whatever their enable_performance_log is.
  static void PerfTraceSwitch(bool on) { chosen().performance_log = on ? 1 : 0; }

  /// Whether PerfTrace writes: the value of the last PerfTraceSwitch; false before the first.
  static bool ShouldLogPerfTrace() { return chosen().performance_log == 1; }

  /// Turns the log of compression ratios, at level INFO, on or off for the Prefetch objects built
  /// from now on, whatever their enable_compression_rate_log is.
  static void LogCompressionMetricsSwitch(bool on) { chosen().ratio_log = on ? 1 : 0; }

  /// Debug, Info, Warn and Error write a message of the application to stderr, formatted as by
  /// printf, if messages of this level are written. No line end is added to `message`.
  static void Debug(const char *message, ...) {
    std::va_list values;
    va_start(values, message);
    write(IsDebug(), "[DEBUG] ", message, values);
    va_end(values);
  }

  /// Writes as Debug does, at level INFO.
  static void Info(const char *message, ...) {
    std::va_list values;
    va_start(values, message);
    write(IsInfo(), "[INFO] ", message, values);
    va_end(values);
  }

  /// Writes as Debug does, at level WARN.
  static void Warn(const char *message, ...) {
    std::va_list values;
    va_start(values, message);
    write(IsWarn(), "[WARN] ", message, values);
    va_end(values);
  }

  /// Writes as Debug does, at level ERROR.
  static void Error(const char *message, ...) {
    std::va_list values;
    va_start(values, message);
    write(IsError(), "[ERROR] ", message, values);
    va_end(values);
  }

  /// Writes a message of the application to stderr if ShouldLogPerfTrace, whatever the log level
  /// is.
  static void PerfTrace(const char *message, ...) {
    std::va_list values;
    va_start(values, message);
    write(ShouldLogPerfTrace(), "[PERF] ", message, values);
    va_end(values);
  }

  /// Writes GPUZIP 2.x's fields of a configuration to stderr, one line `name = value` for each,
  /// whatever the log level is.
  static void LogConfig(const gpuzip_config_t *config) {
    gpuzip_dropin::require(config != nullptr, "LogConfig: the configuration is NULL");
    const gpuzip_config_t &c = *config;
    const auto number = [](const char *name, int value) { std::fprintf(stderr, "  %s = %d\n", name, value); };
    const auto real = [](const char *name, double value) { std::fprintf(stderr, "  %s = %g\n", name, value); };
    const auto text = [](const char *name, const char *value) { std::fprintf(stderr, "  %s = %s\n", name, value ? value : ""); };
    std::fputs("GPUZIP configuration:\n", stderr);
    number("checkpointing_algorithm", c.checkpointing_algorithm);
    number("checkpointing_snaps", c.checkpointing_snaps);
    number("cache_capacity", c.cache_capacity);
    number("compressor", c.compressor);
    number("log_level", c.log_level);
    number("enable_performance_log", c.enable_performance_log);
    number("enable_compression_rate_log", c.enable_compression_rate_log);
    real("compression_factor", static_cast<double>(c.compression_factor));
    text("trace_file_path", c.trace_file_path);
    number("revolve_log_level", c.revolve_log_level);
    number("zfp_bit_rate", c.zfp_bit_rate);
    real("cuszp_err_bound", c.cuszp_err_bound);
    text("float_kind", c.float_kind);
    number("bitcomp_delta_config", c.bitcomp_delta_config);
    real("bitcomp_range_fraction", c.bitcomp_range_fraction);
    real("bitcomp_num_sigma", c.bitcomp_num_sigma);
    real("bitcomp_delta", c.bitcomp_delta);
    number("bitcomp_algorithm", c.bitcomp_algorithm);
  }

  /// Internal: returns the configuration with the changes of SetLevel and of the two switches.
  static gpuzip_config_t Applied(const gpuzip_config_t &config) {
    gpuzip_config_t applied = config;
    const int level = chosen().level, performance_log = chosen().performance_log, ratio_log = chosen().ratio_log;
    if (level != NOT_CHOSEN) applied.log_level = level;
    if (performance_log != NOT_CHOSEN) applied.enable_performance_log = performance_log;
    if (ratio_log != NOT_CHOSEN) applied.enable_compression_rate_log = ratio_log;
    return applied;
  }

 private:
  static constexpr int NOT_CHOSEN = -1;

  struct Chosen {
    std::atomic<int> level{NOT_CHOSEN}, performance_log{NOT_CHOSEN}, ratio_log{NOT_CHOSEN};
  };

  static Chosen &chosen() {
    static Chosen instance;
    return instance;
  }

  static void write(bool wanted, const char *prefix, const char *message, std::va_list values) {
    if (!wanted || !message) return;
    std::fputs(prefix, stderr);
    std::vfprintf(stderr, message, values);
  }
};

#endif
