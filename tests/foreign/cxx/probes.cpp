// Uses, one by one, the names that GPUZIP 2.x's headers declare, and compares each with the value
// or behaviour that GPUZIP 2.x's documents give. Prints "all hold". The test puts a stand-in for
// the CUDA runtime on the include path.
#include "common/GPUZIPBuilders.cpp"

real_t type_of_wavefields = 1;  // the builders' header must declare real_t

#include "CompressorBitcomp.hpp"
#include "CompressorCuSZp.hpp"
#include "CompressorZFP.hpp"
#include "checkpointing/revolve/RevolveCheckpointing.cpp"
#include "checkpointing/trace/TraceCheckpointing.cpp"
#include "checkpointing/uniform/UniformCheckpointing.cpp"
#include "common/cudaUtils.cuh"
#include "prefetch/CheckpointOnly.cuh"

#include "checks.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

static const std::size_t N = 8 * 8 * 8;

/// Returns the values of one field at the time step `ts`, smooth enough to be compressed.
static std::vector<float> state(int ts) {
  std::vector<float> values(N);
  for (std::size_t i = 0; i < N; i++) values[i] = static_cast<float>(ts) + std::sin(0.05f * static_cast<float>(i));
  return values;
}

static Field_t field(std::vector<float> &values) {
  Field_t f;
  f.data = values.data();
  f.size = N * sizeof(float);
  f.n1 = f.n2 = f.n3 = 8;
  return f;
}

/// Runs a shot. Returns whether Dispatch, Save and Retrieve returned true and every restored value
/// was within `bound` (previous time level: 2 * `bound`).
static bool shot(Prefetch *prefetch, Checkpointing *schedule, float bound, Compressor<void, void> *codec) {
  prefetch->Setup();
  bool ok = true;
  for (;;) {
    const Action action = schedule->GetAction();
    ok = prefetch->Dispatch(schedule->GetIt()) && ok;
    std::vector<float> curr = state(action.ts), prev = state(action.ts - 1);
    Field_t f = field(curr), g = field(prev);
    if (action.actionType == ACTION_SAVE && !(codec ? prefetch->Save(action.ts, &f, &g, codec, codec) : prefetch->Save(action.ts, &f, &g))) return false;
    if (action.actionType == ACTION_RESTORE) {
      std::fill(curr.begin(), curr.end(), -1e9f);
      std::fill(prev.begin(), prev.end(), -1e9f);
      const bool restored = codec ? prefetch->Retrieve(action.ts, &f, &g, codec, codec) : prefetch->Retrieve(action.ts, &f, &g);
      ok = ok && restored;
      for (std::size_t i = 0; i < N; i++)
        ok = ok && std::fabs(curr[i] - state(action.ts)[i]) <= bound && std::fabs(prev[i] - state(action.ts - 1)[i]) <= 2 * bound;
    }
    if (action.actionType == ACTION_TERMINATE) return ok;
  }
}

/// Checks that Revolve chooses its number of snapshots itself, as in GPUZIP 2.x:
/// checkpointing_snaps counts only where a budget is set.
static void snapshots() {
  gpuzip_config_t config;
  config.checkpointing_algorithm = REVOLVE;
  config.checkpointing_snaps = 50;
  config.cache_capacity = 4;
  const auto number = [&](int steps) {
    const std::unique_ptr<Checkpointing> schedule(GPUZIPBuilders::CheckpointingBuilder(&config, steps));
    const std::unique_ptr<Prefetch> prefetch(GPUZIPBuilders::PrefetchBuilder(&config, 8, 8, 8, steps, schedule.get()));
    const int alone = RevolveCheckpointing(steps, 0).GetNumberOfCheckpoints();
    hold("the class and the builder agree", schedule->GetNumberOfCheckpoints() == alone);
    if (steps <= 100) hold("a shot with that number", shot(prefetch.get(), schedule.get(), 0.f, nullptr));
    return alone;
  };
  hold("1000 steps, the shipped configuration: 7", number(1000) == 7);
  hold("3001 steps: 7", number(3001) == 7);
  hold("3751 steps: 8", number(3751) == 8);
  hold("100 steps: 5", number(100) == 5);
  // GPUZIP 2.x has no budgets: with a budget the members have gpuzip's meaning.
  config.host_budget = 51 * 2 * N * sizeof(float);
  const std::unique_ptr<Checkpointing> schedule(GPUZIPBuilders::CheckpointingBuilder(&config, 1000));
  const std::unique_ptr<Prefetch> prefetch(GPUZIPBuilders::PrefetchBuilder(&config, 8, 8, 8, 1000, schedule.get()));
  hold("with a budget: checkpointing_snaps", schedule->GetNumberOfCheckpoints() == 50);
  config = gpuzip_config_t();
  config.checkpointing_algorithm = UNIFORM;
  config.checkpointing_snaps = 9;
  const std::unique_ptr<Checkpointing> uniform(GPUZIPBuilders::CheckpointingBuilder(&config, 1000));
  hold("Uniform: checkpointing_snaps", uniform->GetNumberOfCheckpoints() <= 9 && uniform->GetNumberOfCheckpoints() > 5);
}

static void schedules(char *trace_file) {
  const std::unique_ptr<Checkpointing> revolve(new RevolveCheckpointing(100, 0)), uniform(new UniformCheckpointing(100, 5)),
      trace(new TraceCheckpointing(4, trace_file));
  hold("RevolveCheckpointing", revolve->GetSteps() == 100 && revolve->GetAction().actionType == ACTION_SAVE && revolve->GetIt() == 0);
  hold("UniformCheckpointing", uniform->GetSteps() == 100 && uniform->GetNumberOfCheckpoints() <= 5);
  int actions = 0, last = -1;
  for (Action next(0, ACTION_ERROR); next.actionType != ACTION_TERMINATE; actions++) {
    next = trace->GetAction();
    last = next.ts;
  }
  hold("TraceCheckpointing", actions > 8 && last >= 0 && trace->GetNumberOfCheckpoints() == 2);
  const Action action(3, ACTION_SAVE), braces{4, ACTION_RESTORE};
  hold("Action", action.ts == 3 && action.actionType == ACTION_SAVE && braces.ts == 4 && braces.actionType == ACTION_RESTORE);
  hold("the enumerators", TRACE == 0 && REVOLVE == 1 && UNIFORM == 2);
}

/// Checks the constructors that GPUZIP 2.x's builders call.
static void constructors() {
  const std::unique_ptr<Checkpointing> schedule(new RevolveCheckpointing(100, 0));
  const std::unique_ptr<Prefetch> cached(new Prefetch(5, 100, N * sizeof(float), schedule.get(), 4)),
      uncached(new CheckpointOnly(5, 100, N * sizeof(float), schedule.get()));
  hold("Prefetch without a configuration", shot(cached.get(), schedule.get(), 0.f, nullptr) && shot(cached.get(), schedule.get(), 0.f, nullptr));
  const std::unique_ptr<Checkpointing> other(new UniformCheckpointing(100, 5));
  const std::unique_ptr<Prefetch> plain(new CheckpointOnly(5, 100, N * sizeof(float), other.get()));
  hold("CheckpointOnly", shot(plain.get(), other.get(), 0.f, nullptr));
  CompressorZFP<void, void> zfp(8, 8, 8, "float", 20);
  const std::unique_ptr<Checkpointing> third(new RevolveCheckpointing(100, 0));
  const std::unique_ptr<Prefetch> compressed(new CheckpointOnly(5, 100, N * sizeof(float), third.get(), true));
  hold("CheckpointOnly, compressed", shot(compressed.get(), third.get(), 0.1f, &zfp) && shot(compressed.get(), third.get(), 0.1f, &zfp));

  // The sizes given to the constructor must suffice: where GPUZIP 2.x would write beyond its
  // memory, the first Save throws.
  std::vector<float> values = state(0), before = state(0);
  Field_t f = field(values), g = field(before);
  const auto first_save = [&](int snapshots, std::size_t bytes) {
    const std::unique_ptr<Checkpointing> chkpt(new RevolveCheckpointing(100, 0));
    Prefetch prefetch(snapshots, 100, bytes, chkpt.get(), 4);
    chkpt->GetAction();
    return prefetch.Save(0, &f, &g);
  };
  hold("as much as needed", first_save(5, N * sizeof(float)));
  refused("too few snapshots", GPUZIP_ERR_SHAPE, "5 snapshots", [&] { first_save(4, N * sizeof(float)); });
  refused("too short", GPUZIP_ERR_SHAPE, "2048 bytes", [&] { first_save(5, 100); });
  refused("no Checkpointing", GPUZIP_ERR_ARGUMENT, "NULL", [&] { Prefetch(5, 100, 4096, nullptr, 4); });
}

/// A Compressor of the application, derived from GPUZIP 2.x's class.
struct Mine : Compressor<void, void> {
  std::size_t compress(void *, void *) override { return 7; }
  void decompress(void *, void *, std::size_t bytes) override { seen = bytes; }
  std::string name() override { return "mine"; }
  std::string description() override { return "nothing"; }
  std::size_t compressedBufferSize(void *buffer) override { return buffer ? 7 : 9; }
  std::size_t compressedMaxSize() override { return 9; }
  std::size_t seen = 0;
};

static bool round_trip(Compressor<void, void> &codec, float bound) {
  std::vector<float> values = state(3), back(N);
  std::vector<unsigned char> buffer(codec.CompressedMaxSize());
  const std::size_t bytes = codec.Compress(values.data(), buffer.data());
  codec.Decompress(buffer.data(), back.data(), bytes);
  float most = 0;
  for (std::size_t i = 0; i < N; i++) most = std::max(most, std::fabs(values[i] - back[i]));
  refused("a cut buffer", GPUZIP_ERR_STREAM, "cut off", [&] { codec.Decompress(buffer.data(), back.data(), bytes - 1); });
  refused("almost no buffer", GPUZIP_ERR_STREAM, "cut off", [&] { codec.Decompress(buffer.data(), back.data(), 3); });
  codec.Decompress(buffer.data(), back.data(), buffer.size());  // the size may exceed the stream's
  return most <= bound && codec.CompressedBufferSize() == codec.CompressedMaxSize() && codec.CompressedBufferSize(buffer.data()) == bytes;
}

static void compressors() {
  Mine mine;
  hold("an own Compressor", mine.Compress(nullptr, nullptr) == 7 && mine.Name() == "mine" && mine.Description() == "nothing");
  hold("its sizes", mine.CompressedBufferSize() == 9 && mine.CompressedMaxSize() == 9);
  mine.Decompress(nullptr, nullptr);
  hold("the size that nobody tells", mine.seen == static_cast<std::size_t>(-1));
  mine.Decompress(nullptr, nullptr, 100);
  hold("the size that is told", mine.seen == 100);

  gpuzip_config_t config;
  config.compressor = 1;
  auto zfp = GPUZIPBuilders::CompressorBuilder(&config, 8, 8, 8);
  hold("Name", zfp->Name() == "zfp" && zfp->Description().find("8 x 8 x 8 floats, 8 bits") != std::string::npos);
  zfp->EnableProfile();
  hold("with a profile", round_trip(*zfp, 0.5f));
  zfp->DisableProfile();
  hold("without", round_trip(*zfp, 0.5f));

  CompressorZFP<void, void> by_rate(8, 8, 8, "float", 16);
  hold("CompressorZFP", by_rate.Name() == "zfp" && round_trip(by_rate, 0.01f));
  CompressorCuSZp<void, void> by_range(8, 8, 8, 1e-3);
  hold("CompressorCuSZp", by_range.Name() == "cuszp" && round_trip(by_range, 2.1e-3f));
  CompressorCuSZp<float, unsigned char> typed(8, 8, 8, 1e-3);
  std::vector<float> values = state(1), back(N);
  std::vector<unsigned char> buffer(typed.CompressedMaxSize());
  typed.Decompress(buffer.data(), back.data(), typed.Compress(values.data(), buffer.data()) + 0);
  hold("typed pointers", std::fabs(back[5] - values[5]) <= 2.1e-3f);
  refused("a rate of 8.5", GPUZIP_ERR_ARGUMENT, "whole number", [] { CompressorZFP<void, void>(8, 8, 8, "float", 8.5); });
  refused("half", GPUZIP_ERR_CONFIG, "half", [] { CompressorZFP<void, void>(8, 8, 8, "half", 8); });
  refused("no fraction", GPUZIP_ERR_ARGUMENT, "range_fraction", [] { CompressorBitcomp<void, void>(8, 8, 8); });
  refused("unknown algo", GPUZIP_ERR_ARGUMENT, "algo", [] { CompressorBitcomp<void, void>(8, 8, 8, 2, 0., 0., 1e-3, "float", "best"); });
  try {
    CompressorBitcomp<void, void> bitcomp(8, 8, 8, 2, 0., 0., 1e-3, "float", "default");
    hold("CompressorBitcomp", bitcomp.Name() == "bitcomp" && round_trip(bitcomp, 1.1e-3f));
  } catch (const GPUZIPError &error) {
    hold("CompressorBitcomp without libnvcomp", error.status() == GPUZIP_ERR_UNSUPPORTED);
  }
}

static void configurations() {
  gpuzip_config_t positional = {1, 0, 4, 0, 1, false, false, 2.6f, nullptr, 0, 8, 1e-4, "float", 2, 0., 0., 1e-8, 0};
  hold("a positional initialiser", positional.cache_capacity == 4 && positional.zfp_bit_rate == 8 && positional.bitcomp_algorithm == 0);
#if __cplusplus >= 202002L
  gpuzip_config_t designated{.checkpointing_algorithm = 1, .cache_capacity = 4};
  hold("a designated initialiser", designated.checkpointing_algorithm == 1 && designated.cache_capacity == 4 && designated.compressor == 0);
#endif
  positional.enable_performance_log = true;
  hold("a flag", positional.enable_performance_log);
  int bytes = 400, steps = 10, extent = 8;
  const std::unique_ptr<Checkpointing> schedule(GPUZIPBuilders::CheckpointingBuilder(&positional, steps));
  const Checkpointing *constant = schedule.get();
  const std::size_t size = 400;
  for (Prefetch *made : {GPUZIPBuilders::PrefetchBuilder(&positional, size, 10, constant), GPUZIPBuilders::PrefetchBuilder(&positional, 8, 8, 8, 10, constant),
                         GPUZIPBuilders::PrefetchBuilder(&positional, static_cast<std::size_t>(bytes), steps, constant),
                         GPUZIPBuilders::PrefetchBuilder(&positional, static_cast<std::size_t>(extent), 8, 8, steps, schedule.get())}) {
    made->Setup();
    made->Report();
    made->Free();
    delete made;
  }
}

/// Checks the logger's state; the Rust test compares its lines on stderr.
static void logger() {
  hold("the level before SetLevel", GPUZIPLogger::GetLevel() == GPUZIPLogger::DEBUG && GPUZIPLogger::IsDebug());
  GPUZIPLogger::Debug("debug %d\n", 1);
  GPUZIPLogger::SetLevel(GPUZIPLogger::WARN);
  hold("the level after it", GPUZIPLogger::GetLevel() == 2 && !GPUZIPLogger::IsDebug() && !GPUZIPLogger::IsInfo() && GPUZIPLogger::IsWarn());
  GPUZIPLogger::Info("hidden %d\n", 2);
  GPUZIPLogger::Warn("warn %s\n", "three");
  GPUZIPLogger::Error("error %.1f\n", 4.5);
  GPUZIPLogger::PerfTrace("hidden %d\n", 5);
  hold("no performance trace", !GPUZIPLogger::ShouldLogPerfTrace());
  GPUZIPLogger::PerfTraceSwitch(true);
  GPUZIPLogger::PerfTrace("perf\n");
  GPUZIPLogger::PerfTraceSwitch(false);
  gpuzip_config_t config;
  hold("no ratios", GPUZIPLogger::Applied(config).enable_compression_rate_log == 0);
  GPUZIPLogger::LogCompressionMetricsSwitch(true);
  hold("ratios", GPUZIPLogger::Applied(config).enable_compression_rate_log == 1 && GPUZIPLogger::Applied(config).log_level == 2);
  GPUZIPLogger::LogCompressionMetricsSwitch(false);
  config.cache_capacity = 4;
  config.bitcomp_delta = 1e-8;
  GPUZIPLogger::LogConfig(&config);
}

static void cuda() {
  GPUZIP_CUDA_CHECK(cudaSetDevice(0));
  refused("a failing call", GPUZIP_ERR_DEVICE, "cudaSetDevice(99): no such device", [] { GPUZIP_CUDA_CHECK(cudaSetDevice(99)); });
  if (true)
    GPUZIP_CUDA_CHECK(cudaSetDevice(0));
  else
    hold("the macro is one statement", false);
  NvtxPush("a range");
  NvtxPop();
}

int main(int, char **argv) {
  logger();
  snapshots();
  schedules(argv[1]);
  constructors();
  compressors();
  configurations();
  cuda();
  hold("real_t", type_of_wavefields > 0 && sizeof(real_t) == sizeof(float));
  std::puts(failures ? "FAILED" : "all hold");
  return failures ? 1 : 0;
}
