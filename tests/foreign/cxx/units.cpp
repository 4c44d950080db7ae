// Tests that the headers may be included in several translation units: this file is compiled as unit
// 1 and as unit 2 of one program, and both units use the headers.
#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"
#include "common/GPUZIPConfig.h"
#include "common/GPUZIPError.h"
#include "common/GPUZIPLogger.cpp"
#include "common/real_t.h"
#include "common/structs.h"
#include "Compressor.hpp"
#include "CompressorBitcomp.hpp"
#include "CompressorCuSZp.hpp"
#include "CompressorZFP.hpp"
#include "common/cudaUtils.cuh"
#include "prefetch/CheckpointOnly.cuh"
#include "prefetch/Checkpointing.hpp"
#include "prefetch/Prefetch.cuh"

#include <cstdio>

#define JOIN(a, b) a##b
#define NAME(unit) JOIN(use_, unit)

int use_1();
int use_2();

int NAME(UNIT)() {
  gpuzip_config_t config;
  config.checkpointing_algorithm = 1;
  config.log_level = 3;
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 10 * UNIT));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, 64 * sizeof(real_t), 10 * UNIT, schedule.get()));
  prefetch->Setup();
  return schedule->GetAction().ts + schedule->GetSteps();
}

#if UNIT == 1
int main() {
  const int sum = use_1() + use_2();
  std::printf("%d\n", sum);
  return sum == 30 ? 0 : 1;
}
#endif
