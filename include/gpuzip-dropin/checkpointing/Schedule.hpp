// The schedule that a Checkpointing and its Prefetch objects share. Internal: applications use
// Checkpointing.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_SCHEDULE_HPP
#define GPUZIP_DROPIN_CHECKPOINTING_SCHEDULE_HPP

#include "../common/GPUZIPError.h"

#include <atomic>
#include <cstdint>

namespace gpuzip_dropin {

/// Returns the configuration with GPUZIP 2.x's number of snapshots: Revolve takes the number of
/// `adjust` whatever checkpointing_snaps says; checkpointing_snaps counts for Uniform only. If a
/// budget is set, which GPUZIP 2.x does not have, checkpointing_snaps and the budget decide.
inline gpuzip_config_t published(const gpuzip_config_t &config) {
  gpuzip_config_t result = config;
  const bool budget = config.device_budget > 0 || config.host_budget > 0;
  if (config.checkpointing_algorithm == GPUZIP_ALGORITHM_REVOLVE && !budget) result.snapshot_rule = 1;
  return result;
}

/// Owns a gpuzip_schedule_t and remembers the number of its last action. Checkpointing and Prefetch
/// objects share it, so they may be deleted in any order.
class Schedule {
 public:
  Schedule(gpuzip_config_t config, int steps) : handle_(nullptr), it_(-1), steps_(steps), snapshots_(-1) {
    config.range_actions = 0;  // an Action is one time step
    require(config.adjoint_every <= 1, "adjoint_every is set, and an Action of GPUZIP 2.x is one time step: remove the key");
    check(gpuzip_schedule_create(&config, steps, &handle_));
  }

  ~Schedule() { gpuzip_schedule_release(handle_); }

  Schedule(const Schedule &) = delete;
  Schedule &operator=(const Schedule &) = delete;

  gpuzip_action_t next() {
    gpuzip_action_t action;
    check(gpuzip_schedule_get_action(handle_, &action));
    it_ = action.it;
    return action;
  }

  void rewind() {
    check(gpuzip_schedule_rewind(handle_));
    it_ = -1;
  }

  /// Counts the snapshots once, since it takes a pass over the whole schedule.
  int snapshots() {
    if (snapshots_ < 0) {
      gpuzip_summary_t summary;
      summary.struct_size = sizeof summary;
      check(gpuzip_schedule_summary(handle_, &summary));
      snapshots_ = summary.snapshots;
    }
    return snapshots_;
  }

  gpuzip_schedule_t *handle() const { return handle_; }
  std::int64_t it() const { return it_; }
  int steps() const { return steps_; }

 private:
  gpuzip_schedule_t *handle_;
  // Number of the last action, -1 before the first. Atomic: several threads may drive devices.
  std::atomic<std::int64_t> it_;
  int steps_;
  int snapshots_;  // -1 until the first call of snapshots()
};

}  // namespace gpuzip_dropin

#endif
