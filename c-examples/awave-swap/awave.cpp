// A reverse time migration as Awave-3D does it, on one page. The program is written for the headers
// of GPUZIP 2.x and compiles unchanged with gpuzip's; the Makefile beside it shows what changes in
// the build. Two "devices" with one source each follow one schedule.
//
//   awave [steps [algorithm [cache slots [compressor]]]]
//
// The program compares its images with those of a run that keeps every state. It exits with 1 if
// they differ (with a compressor, if they differ by more than 1 %), and with 2 and the reason if
// the migration fails.
#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"
#include "common/GPUZIPConfig.h"
#include "prefetch/Prefetch.cuh"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

static const size_t N1 = 96, N2 = 64, N = N1 * N2;  // depth, the fastest, and distance
static const int DEVICES = 2, SHOTS = 2;

// Allocates a wavefield. GPUZIP 2.x needs device memory; gpuzip takes host memory as well.
static float *wavefield() {
#ifdef __CUDACC__
  float *u = nullptr;
  const cudaError_t status = cudaMallocManaged(&u, N * sizeof(float));
  if (status != cudaSuccess) throw std::runtime_error(std::string("cudaMallocManaged: ") + cudaGetErrorString(status));
  std::memset(u, 0, N * sizeof(float));
  return u;
#else
  return static_cast<float *>(std::calloc(N, sizeof(float)));
#endif
}

static void release(float *u) {
#ifdef __CUDACC__
  cudaFree(u);
#else
  std::free(u);
#endif
}

// Returns (v dt / h)^2 at the cell i, for a model of two layers.
static float courant2(size_t i) { return i % N1 < N1 / 2 ? 0.12f : 0.3f; }

// next = 2 curr - prev + (v dt / h)^2 laplacian(curr), damped at the edges, where next is written
// to prev's memory.
static void leapfrog(const float *curr, float *prev) {
  for (size_t j = 1; j + 1 < N2; j++)
    for (size_t k = 1; k + 1 < N1; k++) {
      const size_t i = j * N1 + k;
      const float laplacian = curr[i - 1] + curr[i + 1] + curr[i - N1] + curr[i + N1] - 4.f * curr[i];
      const bool edge = j < 8 || j + 8 >= N2 || k < 8 || k + 8 >= N1;
      prev[i] = (edge ? 0.97f : 1.f) * (2.f * curr[i] - prev[i] + courant2(i) * laplacian);
    }
}

struct Device {
  float *curr = wavefield(), *prev = wavefield(), *adjoint = wavefield(), *adjoint_prev = wavefield();
  size_t source = 0;
  // For each step, the values at the receivers at the surface.
  std::vector<std::vector<float>> data;
  std::vector<float> image = std::vector<float>(N);

  Device() = default;
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;
  ~Device() {
    for (float *u : {curr, prev, adjoint, adjoint_prev}) release(u);
  }

  void begin(int shot, int device) {
    for (float *u : {curr, prev, adjoint, adjoint_prev}) std::memset(u, 0, N * sizeof(float));
    source = (N2 / 4 + N2 / 8 * static_cast<size_t>(2 * device + shot)) * N1 + 10;
    data.assign(1, std::vector<float>(N2));
  }

  // Computes u(ts) from u(ts - 1). A step that is recomputed records no data.
  void forward(int ts) {
    leapfrog(curr, prev);
    std::swap(curr, prev);
    const float a = 0.15f * static_cast<float>(ts - 20);
    curr[source] += (1.f - 2.f * a * a) * std::exp(-a * a);
    if (static_cast<size_t>(ts) < data.size()) return;
    data.emplace_back(N2);
    for (size_t j = 0; j < N2; j++) data.back()[j] = curr[j * N1 + 10];
  }

  void backward(int ts) {
    leapfrog(adjoint, adjoint_prev);
    std::swap(adjoint, adjoint_prev);
    for (size_t j = 0; j < N2; j++) adjoint[j * N1 + 10] += data[static_cast<size_t>(ts)][j];
    for (size_t i = 0; i < N; i++) image[i] += curr[i] * adjoint[i];
  }
};

static Field_t field(float *data) {
  Field_t f;
  f.data = data;
  f.size = N * sizeof(float);
  f.n1 = N1;
  f.n2 = N2;
  f.n3 = 1;
  return f;
}

static void migrate(gpuzip_config_t *config, int steps, Device *device) {
  std::unique_ptr<Checkpointing> chkpt(GPUZIPBuilders::CheckpointingBuilder(config, steps));
  std::vector<std::unique_ptr<Prefetch>> prefetch;
  for (int d = 0; d < DEVICES; d++) prefetch.emplace_back(GPUZIPBuilders::PrefetchBuilder(config, N1, N2, 1, steps, chkpt.get()));
  auto comp = GPUZIPBuilders::CompressorBuilder(config, N1, N2, 1), comp_prev = GPUZIPBuilders::CompressorBuilder(config, N1, N2, 1);

  for (int shot = 0; shot < SHOTS; shot++) {
    for (int d = 0; d < DEVICES; d++) {
      prefetch[static_cast<size_t>(d)]->Setup();
      device[d].begin(shot, d);
    }
    chkpt->Reset();
    Action action;
    do {
      action = chkpt->GetAction();
      for (int d = 0; d < DEVICES; d++) {
        Prefetch &snapshots = *prefetch[static_cast<size_t>(d)];
        Field_t curr = field(device[d].curr), prev = field(device[d].prev);
        snapshots.Dispatch(chkpt->GetIt());
        switch (action.actionType) {
          case ACTION_FORWARD: device[d].forward(action.ts); break;
          case ACTION_SAVE: snapshots.Save(action.ts, &curr, &prev, comp.get(), comp_prev.get()); break;
          case ACTION_RESTORE: snapshots.Retrieve(action.ts, &curr, &prev, comp.get(), comp_prev.get()); break;
          case ACTION_BACKWARD: device[d].backward(action.ts); break;
          default: break;
        }
      }
    } while (action.actionType != ACTION_TERMINATE && action.actionType != ACTION_ERROR);
  }
  for (auto &p : prefetch) {
    p->Report();
    p->Free();
  }
}

// The migration with every state in memory.
static void migrate_with_every_state(int steps, Device *device) {
  std::vector<std::vector<float>> states;
  for (int shot = 0; shot < SHOTS; shot++)
    for (int d = 0; d < DEVICES; d++) {
      Device &dev = device[d];
      dev.begin(shot, d);
      states.clear();
      for (int ts = 0; ts < steps; ts++) {
        if (ts > 0) dev.forward(ts);
        states.emplace_back(dev.curr, dev.curr + N);
      }
      for (int ts = steps - 1; ts >= 0; ts--) {
        std::memcpy(dev.curr, states[static_cast<size_t>(ts)].data(), N * sizeof(float));
        dev.backward(ts);
      }
    }
}

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 300;
  gpuzip_config_t *config = new gpuzip_config_t();
  config->checkpointing_algorithm = argc > 2 ? std::atoi(argv[2]) : 1;
  config->checkpointing_snaps = 10;
  config->cache_capacity = argc > 3 ? std::atoi(argv[3]) : 3;
  config->compressor = argc > 4 ? std::atoi(argv[4]) : 0;
  config->compression_factor = 2;
  config->log_level = 2;
  config->zfp_bit_rate = 16;
  config->cuszp_err_bound = 1e-4;
  config->float_kind = "float";
  GPUZIPLogger::SetLevel(config->log_level);

  double error = 0, norm = 0;
  try {
    Device with[DEVICES], without[DEVICES];
    migrate(config, steps, with);
    migrate_with_every_state(steps, without);
    for (int d = 0; d < DEVICES; d++)
      for (size_t i = 0; i < N; i++) {
        error += std::pow(with[d].image[i] - without[d].image[i], 2.0);
        norm += std::pow(without[d].image[i], 2.0);
      }
  } catch (const std::exception &e) {
    std::fprintf(stderr, "awave: %s\n", e.what());
    delete config;
    return 2;
  }
  const double relative = std::sqrt(error / norm);
  const bool good = norm > 0 && (config->compressor ? relative <= 1e-2 : !(relative > 0));
  if (relative > 0) std::printf("%s: the image is off by %.1e\n", good ? "close" : "WRONG", relative);
  else std::puts(good ? "identical" : "WRONG: the image is empty");
  delete config;
  return good ? 0 : 1;
}
