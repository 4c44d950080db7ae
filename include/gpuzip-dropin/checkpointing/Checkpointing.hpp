// Checkpointing: the schedule of a sweep, one action at a time. Several Prefetch objects, one per device, may follow it.
#ifndef GPUZIP_DROPIN_CHECKPOINTING_CHECKPOINTING_HPP
#define GPUZIP_DROPIN_CHECKPOINTING_CHECKPOINTING_HPP

#include "../common/GPUZIPLogger.cpp"
#include "../common/structs.h"
#include "Schedule.hpp"

#include <limits>
#include <memory>

class Checkpointing {
 public:
  Checkpointing(const gpuzip_config_t &config, int steps)
      : schedule_(std::make_shared<gpuzip_dropin::Schedule>(GPUZIPLogger::Applied(config), steps)) {}

  Checkpointing(const Checkpointing &) = delete;
  Checkpointing &operator=(const Checkpointing &) = delete;

  /// The next action. After ACTION_TERMINATE only Reset is valid. The first call settles the schedule (and reads the trace file).
  Action GetAction() {
    const gpuzip_action_t next = schedule_->next();
    return Action{next.ts, static_cast<ActionType>(next.type)};
  }

  /// Goes back to before the first action. Every Prefetch needs its Setup for the new shot, before or after this call.
  void Reset() { schedule_->rewind(); }

  /// The number of the last action since Reset: the first is 0; -1 before it.
  int GetIt() const {
    if (schedule_->it() > std::numeric_limits<int>::max())
      throw GPUZIPError(GPUZIP_ERR_UNSUPPORTED, "GetIt: the action's number does not fit an int");
    return static_cast<int>(schedule_->it());
  }

  /// Time steps of the sweep.
  int GetSteps() const { return schedule_->steps(); }

  /// Snapshots stored at a time, at most. Settles the schedule: where budgets decide it, ask after every Prefetch is built.
  int GetNumberOfCheckpoints() const { return schedule_->snapshots(); }

 private:
  friend class Prefetch;
  std::shared_ptr<gpuzip_dropin::Schedule> schedule_;
};

#endif
