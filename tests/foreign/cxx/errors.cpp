// Tests that wrong calls of the drop-in classes throw exceptions with a status and a text, do not
// end the process, and leave the objects usable. Prints "all caught".
#include "checks.hpp"
#include "sweep.hpp"

#include <limits>

static void builders() {
  gpuzip_config_t config = revolve();
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 10));
  refused("null config", GPUZIP_ERR_ARGUMENT, "NULL", [&] { CheckpointingBuilder(nullptr, 10); });
  refused("null config", GPUZIP_ERR_ARGUMENT, "NULL", [&] { PrefetchBuilder(nullptr, 4, 4, 1, 10, schedule.get()); });
  refused("null schedule", GPUZIP_ERR_ARGUMENT, "NULL", [&] { PrefetchBuilder(&config, 4, 4, 1, 10, nullptr); });
  refused("no steps", GPUZIP_ERR_ARGUMENT, "steps", [&] { CheckpointingBuilder(&config, -1); });
  refused("other steps", GPUZIP_ERR_ARGUMENT, "steps", [&] { PrefetchBuilder(&config, 4, 4, 1, 11, schedule.get()); });
  refused("extent 0", GPUZIP_ERR_ARGUMENT, "extent", [&] { PrefetchBuilder(&config, 4, 4, 0, 10, schedule.get()); });
  refused("odd bytes", GPUZIP_ERR_ARGUMENT, "multiple", [&] { PrefetchBuilder(&config, 6, 10, schedule.get()); });
  refused("too large", GPUZIP_ERR_ARGUMENT, "address space", [&] { PrefetchBuilder(&config, 1u << 31, 1u << 31, 64, 10, schedule.get()); });
  config.adjoint_every = 4;
  refused("adjoint_every", GPUZIP_ERR_ARGUMENT, "adjoint_every", [&] { CheckpointingBuilder(&config, 10); });
  config.adjoint_every = 1;
  const std::unique_ptr<Checkpointing> every_state(CheckpointingBuilder(&config, 10));
  config.adjoint_every = 0;
  config.float_kind = "half";
  refused("float_kind", GPUZIP_ERR_CONFIG, "half", [&] { CheckpointingBuilder(&config, 10); });
  refused("float_kind", GPUZIP_ERR_CONFIG, "half", [&] { PrefetchBuilder(&config, 4, 4, 1, 10, schedule.get()); });
  config = revolve();
  config.checkpointing_algorithm = 77;
  refused("unknown algorithm", GPUZIP_ERR_CONFIG, "77", [&] { CheckpointingBuilder(&config, 10); });
  config = revolve();
  hold("no compressor", !CompressorBuilder(&config, 4, 4, 1));
  config.compressor = 15;
  refused("auto", GPUZIP_ERR_CONFIG, "compressor = 15", [&] { CompressorBuilder(&config, 4, 4, 1); });
  config.compressor = 9;
  refused("compressor", GPUZIP_ERR_CONFIG, "compressor = 9", [&] { CompressorBuilder(&config, 4, 4, 1); });
  refused("compressor", GPUZIP_ERR_CONFIG, "compressor = 9", [&] { CheckpointingBuilder(&config, 10); });
  refused("compressor", GPUZIP_ERR_CONFIG, "compressor = 9", [&] { PrefetchBuilder(&config, 4, 4, 1, 10, schedule.get()); });
  config.compressor = 3;
  config.cuszp_err_bound = -1;
  refused("bound", GPUZIP_ERR_CONFIG, "cuszp_err_bound = -1", [&] { CompressorBuilder(&config, 4, 4, 1); });
  config.cuszp_err_bound = 1e-3;
  refused("null config", GPUZIP_ERR_ARGUMENT, "NULL", [&] { CompressorBuilder(nullptr, 4, 4, 1); });
  refused("extent 0", GPUZIP_ERR_ARGUMENT, "extent", [&] { CompressorBuilder(&config, 4, 0, 1); });
  refused("log level", GPUZIP_ERR_CONFIG, "log_level", [&] { GPUZIPLogger::SetLevel(9); });
}

static void traces() {
  char missing[] = "/nonexistent/trace.txt";
  gpuzip_config_t config = revolve();
  config.checkpointing_algorithm = 0;
  std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 10));
  refused("no trace file", GPUZIP_ERR_CONFIG, "trace_file_path", [&] { schedule->GetAction(); });
  config.trace_file_path = missing;
  schedule.reset(CheckpointingBuilder(&config, 10));
  refused("missing trace file", GPUZIP_ERR_IO, missing, [&] { schedule->GetAction(); });
  refused("missing trace file", GPUZIP_ERR_IO, missing, [&] { schedule->GetNumberOfCheckpoints(); });
}

struct FakeCompressor : Compressor<void, void> {
  std::size_t compress(void *, void *) override { return 0; }
  void decompress(void *, void *, std::size_t) override {}
  std::string name() override { return "fake"; }
  std::string description() override { return "fake"; }
  std::size_t compressedMaxSize() override { return 0; }
  std::size_t compressedBufferSize(void *) override { return 0; }
};

/// Makes wrong Save and Retrieve calls on a Prefetch, which then runs a whole shot.
static void calls() {
  const gpuzip_config_t config = revolve();
  Application<float> application(config, 10, 1, 4, 4);
  Prefetch &prefetch = application.prefetch(0);
  Checkpointing &schedule = application.schedule();
  std::vector<float> values(16, 1.f), before(16, 2.f);
  Field_t field{values.data(), 64, 4, 4, 1}, prev{before.data(), 64, 4, 4, 1};
  FakeCompressor fake;

  refused("retrieve before save", GPUZIP_ERR_STATE, "before the first action", [&] { prefetch.Retrieve(0, &field, &prev); });
  refused("save before the first action", GPUZIP_ERR_STATE, "before the first action", [&] { prefetch.Save(0, &field, &prev); });
  refused("dispatch of nothing", GPUZIP_ERR_STATE, "dispatch", [&] { prefetch.Dispatch(3); });
  hold("revolve begins with SAVE 0", schedule.GetAction().actionType == ACTION_SAVE);
  refused("dispatch ahead", GPUZIP_ERR_STATE, "dispatch", [&] { prefetch.Dispatch(1); });
  refused("retrieve while saving", GPUZIP_ERR_STATE, "SAVE 0", [&] { prefetch.Retrieve(0, &field, &prev); });
  refused("another state", GPUZIP_ERR_STATE, "SAVE 0", [&] { prefetch.Save(1, &field, &prev); });
  refused("null field", GPUZIP_ERR_ARGUMENT, "NULL", [&] { prefetch.Save(0, &field, nullptr); });
  refused("a codec of its own", GPUZIP_ERR_UNSUPPORTED, "gpuzip_codec_register", [&] { prefetch.Save(0, &field, &prev, &fake, nullptr); });
  refused("a codec of its own", GPUZIP_ERR_UNSUPPORTED, "gpuzip_codec_register", [&] { prefetch.Retrieve(0, &field, &prev, nullptr, &fake); });
  gpuzip_config_t with_codec = config;
  with_codec.compressor = 5;
  const auto dct = CompressorBuilder(&with_codec, 4, 4, 1);
  refused("a compressor, not configured", GPUZIP_ERR_CONFIG, "compressor = 5, this Prefetch with 0",
         [&] { prefetch.Save(0, &field, &prev, nullptr, dct.get()); });
  Field_t wrong = field;
  wrong.data = nullptr;
  refused("null data", GPUZIP_ERR_ARGUMENT, "NULL", [&] { prefetch.Save(0, &wrong, &prev); });
  wrong = field;
  wrong.n1 = 5;
  refused("other extents", GPUZIP_ERR_SHAPE, "field 1", [&] { prefetch.Save(0, &field, &wrong); });
  wrong = field;
  wrong.size = 128;  // doubles, where float_kind says float
  refused("other size", GPUZIP_ERR_SHAPE, "128", [&] { prefetch.Save(0, &field, &wrong); });
  prefetch.Save(0, &field, &prev, nullptr, nullptr);
  refused("twice", GPUZIP_ERR_STATE, "done already", [&] { prefetch.Save(0, &field, &prev); });
  hold("a shot after all that", application.shot(1));
  refused("after TERMINATE", GPUZIP_ERR_STATE, "terminated", [&] { schedule.GetAction(); });

  schedule.Reset();
  schedule.GetAction();
  refused("no Setup after Reset", GPUZIP_ERR_STATE, "setup", [&] { prefetch.Dispatch(0); });
  prefetch.Free();
  schedule.GetAction();
  refused("save after Free", GPUZIP_ERR_STATE, "Setup", [&] { prefetch.Save(0, &field, &prev); });
  refused("retrieve after Free", GPUZIP_ERR_STATE, "nothing is saved", [&] { prefetch.Retrieve(0, &field, &prev); });
  hold("a shot after that", application.shot(2));
}

/// Makes wrong calls of a Compressor, which then works.
static void compressors() {
  gpuzip_config_t config = revolve();
  config.compressor = 5;
  const auto dct = CompressorBuilder(&config, 8, 8, 8);
  std::vector<float> values(512, 1.f), back(512);
  values[7] = 2.f;
  std::vector<unsigned char> buffer(dct->CompressedMaxSize());
  refused("null", GPUZIP_ERR_ARGUMENT, "NULL", [&] { dct->Compress(nullptr, buffer.data()); });
  refused("null", GPUZIP_ERR_ARGUMENT, "NULL", [&] { dct->Compress(values.data(), nullptr); });
  refused("null", GPUZIP_ERR_ARGUMENT, "NULL", [&] { dct->Decompress(buffer.data(), nullptr); });
  hold("the size of NULL is the greatest", dct->CompressedBufferSize(nullptr) == dct->CompressedMaxSize());
  refused("not compressed", GPUZIP_ERR_STREAM, "begin", [&] { dct->Decompress(values.data(), back.data()); });
  refused("not compressed", GPUZIP_ERR_STREAM, "begin", [&] { dct->CompressedBufferSize(values.data()); });
  const std::size_t bytes = dct->Compress(values.data(), buffer.data());
  std::vector<unsigned char> damaged(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
  damaged[bytes / 2] ^= 1;
  refused("a changed bit", GPUZIP_ERR_STREAM, "stream", [&] { dct->Decompress(damaged.data(), back.data()); });
  damaged[15] = 1;  // the length's highest byte
  refused("a huge length", GPUZIP_ERR_STREAM, "damaged", [&] { dct->Decompress(damaged.data(), back.data()); });
  refused("another shape", GPUZIP_ERR_STREAM, "field 0", [&] { CompressorBuilder(&config, 16, 8, 8)->Decompress(buffer.data(), back.data()); });
  gpuzip_config_t strict = config;
  strict.nonfinite = 1;
  std::vector<float> nan(512, std::numeric_limits<float>::quiet_NaN());
  refused("NaN", GPUZIP_ERR_VALUES, "field 0", [&] { CompressorBuilder(&strict, 8, 8, 8)->Compress(nan.data(), buffer.data()); });
  dct->Decompress(buffer.data(), back.data());
  hold("it works after all that", back[7] > 1.99f && back[8] < 1.01f);

  // Compressors whose configurations differ only in the bound are different compressors.
  gpuzip_config_t tighter = config;
  tighter.error_bound = 1e-6;
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 10));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, 8, 8, 8, 10, schedule.get()));
  std::vector<float> before = values;
  Field_t field{values.data(), 2048, 8, 8, 8}, prev{before.data(), 2048, 8, 8, 8};
  schedule->GetAction();
  const auto other = CompressorBuilder(&tighter, 8, 8, 8);
  refused("another bound", GPUZIP_ERR_CONFIG, "bounds differ", [&] { prefetch->Save(0, &field, &prev, dct.get(), other.get()); });
  prefetch->Save(0, &field, &prev, dct.get(), nullptr);
}

static void without_extents() {
  const gpuzip_config_t config = revolve();
  const std::unique_ptr<Checkpointing> schedule(CheckpointingBuilder(&config, 10));
  const std::unique_ptr<Prefetch> prefetch(PrefetchBuilder(&config, 10, schedule.get()));
  std::vector<float> values(16, 1.f), before(16, 2.f);
  Field_t field{values.data(), 64, 4, 4, 1}, prev{before.data(), 64, 4, 4, 1}, empty{values.data(), 64, 0, 4, 1};
  refused("save before the first action", GPUZIP_ERR_STATE, "first action", [&] { prefetch->Save(0, &field, &prev); });
  schedule->GetAction();
  refused("null field", GPUZIP_ERR_ARGUMENT, "NULL", [&] { prefetch->Save(0, nullptr, &prev); });
  refused("no extents", GPUZIP_ERR_ARGUMENT, "extent", [&] { prefetch->Save(0, &empty, &prev); });
  schedule->GetAction();
  refused("too late", GPUZIP_ERR_STATE, "has begun", [&] { prefetch->Save(0, &field, &prev); });
}

/// Checks that a Checkpointing, a Prefetch and a Compressor may be deleted in any order.
static void lifetimes() {
  const gpuzip_config_t config = revolve();
  Checkpointing *schedule = CheckpointingBuilder(&config, 10);
  std::unique_ptr<Prefetch> outlives(PrefetchBuilder(&config, 4, 4, 1, 10, schedule));
  Prefetch *dies_first = PrefetchBuilder(&config, 4, 4, 1, 10, schedule);
  outlives->Setup();
  delete dies_first;
  delete schedule;
  outlives->Setup();
}

int main() {
  builders();
  traces();
  calls();
  compressors();
  without_extents();
  lifetimes();
  std::puts(failures ? "FAILED" : "all caught");
  return failures ? 1 : 0;
}
