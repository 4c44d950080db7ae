// Checkpointing: the schedule of a shot, one action at a time. Several Prefetch objects, one per
// device, may follow it.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_CHECKPOINTING_HPP
#define GPUZIP_DROPIN_CHECKPOINTING_CHECKPOINTING_HPP

#include "../common/GPUZIPLogger.cpp"
#include "../common/structs.h"
#include "Schedule.hpp"

#include <limits>
#include <memory>

/// The schedule of a shot. Every call throws GPUZIPError when it fails.
class Checkpointing {
 public:
  /// Makes the schedule for `steps` time steps. `config` is copied.
  Checkpointing(const gpuzip_config_t &config, int steps)
      : schedule_(std::make_shared<gpuzip_dropin::Schedule>(GPUZIPLogger::Applied(gpuzip_dropin::published(config)), steps)) {}

  virtual ~Checkpointing() {}

  Checkpointing(const Checkpointing &) = delete;
  Checkpointing &operator=(const Checkpointing &) = delete;

  /// Moves to the next action and returns it. After ACTION_TERMINATE only Reset is valid. The first
  /// call decides the schedule (and reads the trace file).
  Action GetAction() {
    const gpuzip_action_t next = schedule_->next();
    return Action(next.ts, static_cast<ActionType>(next.type));
  }

  /// Moves back to before the first action. Every Prefetch needs its Setup for the new shot, before
  /// or after this call.
  void Reset() { schedule_->rewind(); }

  /// The number of the last action since Reset; the first action is 0; -1 before the first action.
  int GetIt() const {
    if (schedule_->it() > std::numeric_limits<int>::max())
      throw GPUZIPError(GPUZIP_ERR_UNSUPPORTED, "GetIt: the action's number does not fit an int");
    return static_cast<int>(schedule_->it());
  }

  /// Time steps of the schedule.
  int GetSteps() const { return schedule_->steps(); }

  /// Most snapshots stored at a time. The call decides the schedule: if budgets decide the number,
  /// call it after every Prefetch is built.
  int GetNumberOfCheckpoints() const { return schedule_->snapshots(); }

 private:
  friend class Prefetch;
  std::shared_ptr<gpuzip_dropin::Schedule> schedule_;
};

namespace gpuzip_dropin {

/// Makes the configuration of the three classes below.
inline gpuzip_config_t scheduled(int algorithm, int snapshots, char *trace_file) {
  gpuzip_config_t config;
  config.checkpointing_algorithm = algorithm;
  config.checkpointing_snaps = snapshots;
  config.trace_file_path = trace_file;
  config.log_level = GPUZIPLogger::GetLevel();
  return config;
}

}  // namespace gpuzip_dropin

/// Revolve with the number of snapshots that GPUZIP 2.x uses for `steps` time steps. `log_level`
/// has no effect: SetLevel decides.
class RevolveCheckpointing : public Checkpointing {
 public:
  /// A schedule for `steps` time steps.
  explicit RevolveCheckpointing(int steps, int log_level = 0)
      : Checkpointing(gpuzip_dropin::scheduled(GPUZIP_ALGORITHM_REVOLVE, 0, nullptr), steps) {
    static_cast<void>(log_level);
  }
};

/// Snapshots at a fixed interval, at most `snapshots` at a time. Algorithm `uniform`.
class UniformCheckpointing : public Checkpointing {
 public:
  /// A schedule for `steps` time steps.
  UniformCheckpointing(int steps, int snapshots)
      : Checkpointing(gpuzip_dropin::scheduled(GPUZIP_ALGORITHM_UNIFORM, snapshots, nullptr), steps) {}
};

/// The actions of a trace file, which the first GetAction reads.
class TraceCheckpointing : public Checkpointing {
 public:
  /// A schedule for `steps` time steps. `trace_file` is the path of the file, and is copied.
  TraceCheckpointing(int steps, char *trace_file) : Checkpointing(gpuzip_dropin::scheduled(GPUZIP_ALGORITHM_TRACE, 0, trace_file), steps) {}
};

#endif
