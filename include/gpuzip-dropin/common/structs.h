// The structs that applications fill in and read.
#ifndef GPUZIP_DROPIN_COMMON_STRUCTS_H
#define GPUZIP_DROPIN_COMMON_STRUCTS_H

#include "GPUZIPConfig.h"

#include <cstddef>

/// One wavefield: `data` is the application's memory, `size` its length in bytes, n1 the extent of
/// the fastest dimension. gpuzip reads this struct and never writes it.
struct Field_t {
  void *data;
  std::size_t size, n1, n2, n3;
};

/// What the application must do next; see GPUZIP_ACTION_* in gpuzip.h.
enum ActionType {
  ACTION_FORWARD = GPUZIP_ACTION_FORWARD,
  ACTION_SAVE = GPUZIP_ACTION_SAVE,
  ACTION_RESTORE = GPUZIP_ACTION_RESTORE,
  ACTION_BACKWARD = GPUZIP_ACTION_BACKWARD,
  ACTION_TERMINATE = GPUZIP_ACTION_TERMINATE,
  ACTION_ERROR = GPUZIP_ACTION_ERROR
};

/// GPUZIP 2.x's names for checkpointing_algorithm.
enum CheckpointingImplementation { TRACE = GPUZIP_ALGORITHM_TRACE, REVOLVE = GPUZIP_ALGORITHM_REVOLVE, UNIFORM = GPUZIP_ALGORITHM_UNIFORM };

/// An action and the time step of the state that it produces or needs.
struct Action {
  /// Time step of the state.
  int ts;

  /// What to do.
  ActionType actionType;

  /// Without arguments: ACTION_ERROR.
  Action() : ts(0), actionType(ACTION_ERROR) {}

  /// An action of a type, and the time step of its state.
  Action(int time_step, ActionType type) : ts(time_step), actionType(type) {}
};

#endif
