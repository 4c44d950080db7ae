// Tests that Save and Retrieve have finished when they return, as in GPUZIP 2.x. The fields are
// device memory, and right after each Save an unrelated stream overwrites them. The program prints
// "identical" or "DIFFERENT". With the argument "asynchronous" Save and Retrieve only enqueue their
// work, so either result may be printed. With "compressors" a Compressor codes device memory as it codes
// host memory, and the program prints how many of 4 calls with a buffer in another memory than the field
// throw; a Save that compresses device memory succeeds.
#include "checks.hpp"
#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"
#include "common/GPUZIPConfig.h"
#include "prefetch/Prefetch.cuh"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <vector>

namespace {

// Calls a function of the CUDA driver by name, as the application's own CUDA code.
template <class... Arguments> void cuda(const char *name, Arguments... arguments) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  typedef int (*Function)(Arguments...);
  Function function = library ? reinterpret_cast<Function>(dlsym(library, name)) : nullptr;
  if (!function || function(arguments...) != 0) {
    std::fprintf(stderr, "%s failed\n", name);
    std::exit(1);
  }
}

const std::size_t N = 3000;
const int STEPS = 12;

std::vector<float> state(int ts, float offset) {
  std::vector<float> values(N);
  for (std::size_t i = 0; i < N; i++) values[i] = offset + static_cast<float>(ts) + 1e-3f * static_cast<float>(i % 97);
  return values;
}

// Copies the state of time step `ts` to device memory, which no kernel may read unwritten.
void upload(std::uint64_t address, int ts, float offset) {
  cuda("cuMemcpyHtoD_v2", address, static_cast<const void *>(state(ts, offset).data()), N * sizeof(float));
}

Field_t field(std::uint64_t address) {
  Field_t f;
  f.data = reinterpret_cast<void *>(address);
  f.n1 = N;
  f.n2 = f.n3 = 1;
  f.size = N * sizeof(float);
  return f;
}

/// Codes a field in device memory and in host memory: the streams and the decoded values are the same.
void round_trip(Compressor<void, void> &codec, const std::uint64_t address[2]) {
  const std::size_t most = codec.CompressedMaxSize(), head = 16;
  std::vector<float> values = state(1, 0.f), found(N);
  std::vector<char> buffer(most), of_device(most);
  std::uint64_t coded = 0;
  cuda("cuMemAlloc_v2", &coded, most);
  void *const on_device = reinterpret_cast<void *>(coded);
  const std::size_t bytes = codec.Compress(values.data(), buffer.data());
  for (int k = 0; k < 2; k++) upload(address[k], 1 - k, 0.f);
  hold("the bytes of the host", codec.Compress(field(address[0]).data, on_device) == bytes - head);
  hold("the size of a buffer", codec.CompressedBufferSize(static_cast<void *>(on_device)) == bytes - head);
  cuda("cuMemcpyDtoH_v2", static_cast<void *>(of_device.data()), coded, bytes - head);
  hold("the stream of the host", std::memcmp(of_device.data(), buffer.data() + head, bytes - head) == 0);
  codec.Decompress(buffer.data(), values.data());
  const auto decoded = [&](std::size_t given) {
    upload(address[1], 0, 0.f);
    codec.Decompress(on_device, field(address[1]).data, given);
    cuda("cuMemcpyDtoH_v2", static_cast<void *>(found.data()), address[1], N * sizeof(float));
    return found == values;
  };
  hold("decoded", decoded(bytes - head) && decoded(most));
  refused("a buffer that is cut off", GPUZIP_ERR_STREAM, "cut off", [&] { decoded(bytes - head - 64); });
  refused("no buffer of a Compressor", GPUZIP_ERR_STREAM, "do not begin a gpuzip stream",
          [&] { codec.Decompress(field(address[0]).data, field(address[1]).data); });
  cuda("cuMemFree_v2", coded);
}

/// Returns how many of 4 calls throw: a buffer and its field are in one memory.
int refusals(gpuzip_config_t config, const std::uint64_t address[2]) {
  config.compressor = GPUZIP_COMPRESSOR_DCT;
  const auto codec = CompressorBuilder(&config, N, 1, 1);
  std::vector<float> values = state(1, 0.f);
  std::vector<char> buffer(codec->CompressedMaxSize());
  void *device = field(address[0]).data;
  round_trip(*codec, address);
  const auto host_only = [](const std::function<void()> &call) {
    refused("device memory", GPUZIP_ERR_ARGUMENT, "host memory", call);
  };
  for (int in_and_out = 0; in_and_out < 2; in_and_out++) {
    void *const in = in_and_out ? device : values.data(), *const out = in_and_out ? static_cast<void *>(buffer.data()) : device;
    host_only([&] { codec->Compress(in, out); });
  }
  codec->Compress(values.data(), buffer.data());
  host_only([&] { codec->Decompress(buffer.data(), device); });
  refused("no buffer", GPUZIP_ERR_STREAM, "do not begin", [&] { codec->Decompress(device, values.data()); });

  for (int k = 0; k < 2; k++) upload(address[k], 0, 100.f * static_cast<float>(k));
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, STEPS));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, N, 1, 1, STEPS, schedule.get()));
  schedule->GetAction();
  Field_t curr = field(address[0]), prev = field(address[1]);
  prefetch->Save(0, &curr, &prev, codec.get(), codec.get());  // a session compresses by kernels
  return 4 - failures;
}

}  // namespace

int main(int, char **argv) {
  void *context = nullptr, *other = nullptr;
  std::uint64_t address[2] = {0, 0};
  cuda("cuInit", 0u);
  cuda("cuDevicePrimaryCtxRetain", &context, 0);
  cuda("cuCtxSetCurrent", context);
  cuda("cuStreamCreate", &other, 1u);
  for (std::uint64_t &a : address) cuda("cuMemAlloc_v2", &a, N * sizeof(float));

  const gpuzip_config_t config = revolve();
  if (std::strcmp(argv[1], "compressors") == 0) return std::printf("%d\n", refusals(config, address)) < 0;
  std::unique_ptr<Checkpointing> chkpt(GPUZIPBuilders::CheckpointingBuilder(&config, STEPS));
  std::unique_ptr<Prefetch> prefetch(GPUZIPBuilders::PrefetchBuilder(&config, N, 1, 1, STEPS, chkpt.get()));
  prefetch->Asynchronous(std::strcmp(argv[1], "asynchronous") == 0);

  bool same = true;
  const auto upload_pair = [&](int ts) {
    for (int k = 0; k < 2; k++) upload(address[k], ts, 100.f * static_cast<float>(k));
  };
  prefetch->Setup();
  chkpt->Reset();
  upload_pair(0);
  for (;;) {
    const Action action = chkpt->GetAction();
    prefetch->Dispatch(chkpt->GetIt());
    Field_t curr = field(address[0]), prev = field(address[1]);
    if (action.actionType == ACTION_TERMINATE) break;
    if (action.actionType == ACTION_FORWARD) upload_pair(action.ts);
    if (action.actionType == ACTION_SAVE) {
      prefetch->Save(action.ts, &curr, &prev);
      for (std::uint64_t a : address) cuda("cuMemsetD8Async", a, static_cast<unsigned char>(0xee), N * sizeof(float), other);
      cuda("cuStreamSynchronize", other);
    }
    if (action.actionType == ACTION_RESTORE) {
      prefetch->Retrieve(action.ts, &curr, &prev);
      for (int k = 0; k < 2; k++) {
        std::vector<float> found(N);
        cuda("cuMemcpyDtoH_v2", static_cast<void *>(found.data()), address[k], N * sizeof(float));
        same = same && found == state(action.ts, 100.f * static_cast<float>(k));
      }
    }
  }
  std::puts(same ? "identical" : "DIFFERENT");
  return 0;
}
