// Writes a schedule as a GPUZIP 2.x trace: trace <steps> <algorithm> <snapshots>.
#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  gpuzip_config_t config;
  config.checkpointing_algorithm = std::atoi(argv[2]);
  config.checkpointing_snaps = std::atoi(argv[3]);
  config.log_level = 2;
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, std::atoi(argv[1])));
  const char *names[] = {"FORWARD", "SAVE_INTERMEDIARY", "RESTORE", "BACKWARD", "TERMINATE"};
  Action action;
  bool turned = false;
  do {
    action = schedule->GetAction();
    const bool first_turn = action.actionType == ACTION_BACKWARD && !turned;
    turned = turned || first_turn;
    std::printf("%d %s\n", action.ts, first_turn ? "FIRSTURN" : names[action.actionType]);
  } while (action.actionType != ACTION_TERMINATE);
}
