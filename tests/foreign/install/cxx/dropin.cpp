// A program outside the repository, written for GPUZIP 2.x: reverses 50 steps of a field and its
// previous time level.
#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"
#include "common/GPUZIPConfig.h"
#include "prefetch/Prefetch.cuh"

#include <cstdio>
#include <memory>
#include <vector>

int main() {
  const int steps = 50;
  const std::size_t n = 16;
  gpuzip_config_t config;
  config.checkpointing_algorithm = 1;
  config.checkpointing_snaps = 6;
  config.cache_capacity = 3;
  config.log_level = 3;
  const std::unique_ptr<Checkpointing> schedule(GPUZIPBuilders::CheckpointingBuilder(&config, steps));
  const std::unique_ptr<Prefetch> prefetch(GPUZIPBuilders::PrefetchBuilder(&config, n, 1, 1, steps, schedule.get()));
  std::vector<float> curr(n, 0.0f), prev(n, -1.0f);
  Field_t u = {curr.data(), n * sizeof(float), n, 1, 1}, v = {prev.data(), n * sizeof(float), n, 1, 1};
  prefetch->Setup();
  int reversed = 0;
  for (;;) {
    const Action action = schedule->GetAction();
    prefetch->Dispatch(schedule->GetIt());
    if (action.actionType == ACTION_TERMINATE) break;
    if (action.actionType == ACTION_SAVE) prefetch->Save(action.ts, &u, &v);
    if (action.actionType == ACTION_RESTORE) prefetch->Retrieve(action.ts, &u, &v);
    if (action.actionType == ACTION_FORWARD) {
      prev = curr;
      for (float &x : curr) x += 1.0f;
      u.data = curr.data();
      v.data = prev.data();
    }
    const float now = static_cast<float>(action.ts);
    if (action.actionType == ACTION_BACKWARD) reversed += curr == std::vector<float>(n, now) && prev == std::vector<float>(n, now - 1.0f);
  }
  std::puts(reversed == steps ? "ok" : "wrong state");
  return reversed != steps;
}
