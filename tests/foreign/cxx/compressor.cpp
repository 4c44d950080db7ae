// Tests a Compressor of the drop-in headers, alone and in a Prefetch: compressor <number>
// <float|double> prints "within the bound", or "not here" and the reason where the codec needs a
// library that is not installed.
#include "common/GPUZIPBuilders.cpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

const std::size_t N1 = 24, N2 = 20, N3 = 16, N = N1 * N2 * N3;
const int STEPS = 12;

template <typename Real>
std::vector<Real> wave(int ts) {
  std::vector<Real> u(N);
  for (std::size_t i = 0; i < N; i++) {
    const double x = 0.3 * static_cast<double>(i % N1), y = 0.2 * static_cast<double>(i / N1 % N2), z = 0.25 * static_cast<double>(i / (N1 * N2));
    u[i] = static_cast<Real>(std::sin(x + 0.1 * ts) * std::cos(y) * std::sin(z - 0.1 * ts));
  }
  return u;
}

/// Returns the largest |a - b|.
template <typename Real>
double off(const std::vector<Real> &a, const std::vector<Real> &b) {
  double most = 0.0;
  for (std::size_t i = 0; i < N; i++) most = std::max(most, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

/// Returns the largest allowed error: the error bound, or for the codecs with a fixed rate an error
/// that they do not reach on these values.
double bound(const gpuzip_config_t &config) {
  switch (config.compressor) {
    case GPUZIP_COMPRESSOR_ZFP: return 1e-3;   // 16 bits per value
    case GPUZIP_COMPRESSOR_FP16: return 5e-4;  // 11 bits of mantissa
    case GPUZIP_COMPRESSOR_BFP: return 1e-2;   // 8 bits
    default: return config.error_bound;
  }
}

template <typename Real>
bool alone(const gpuzip_config_t &config) {
  const auto codec = GPUZIPBuilders::CompressorBuilder(&config, N1, N2, N3);
  const std::vector<Real> u = wave<Real>(3);
  std::vector<Real> kept = u, back(N);
  std::vector<unsigned char> buffer(codec->CompressedMaxSize());
  const std::size_t bytes = codec->Compress(kept.data(), buffer.data());
  if (kept != u || bytes > buffer.size() || bytes >= N * sizeof(Real) || codec->CompressedBufferSize(buffer.data()) != bytes) return false;
  // Decompress must not read beyond the stream: this copy has no bytes behind it.
  std::vector<unsigned char> exact(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
  codec->Decompress(exact.data(), back.data());
  return off(u, back) <= bound(config) && off(u, back) > 0;
}

template <typename Real>
Field_t field(std::vector<Real> &u) {
  return Field_t{u.data(), N * sizeof(Real), N1, N2, N3};
}

/// Runs shots that keep every state, so each restored state was compressed once. The error of curr
/// is within the bound; the error of prev is within the bounds of curr and of the difference
/// together.
template <typename Real>
bool stored(gpuzip_config_t config, bool give_compressors) {
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_STORE_ALL;
  const std::unique_ptr<Checkpointing> schedule(GPUZIPBuilders::CheckpointingBuilder(&config, STEPS));
  const std::unique_ptr<Prefetch> prefetch(GPUZIPBuilders::PrefetchBuilder(&config, N1, N2, N3, STEPS, schedule.get()));
  const auto comp = give_compressors ? GPUZIPBuilders::CompressorBuilder(&config, N1, N2, N3) : nullptr;
  bool good = true;
  for (int shot = 0, restores = 0; shot < 2; shot++, restores = 0) {
    prefetch->Setup();
    for (;;) {
      const Action action = schedule->GetAction();
      prefetch->Dispatch(schedule->GetIt());
      if (action.actionType == ACTION_TERMINATE) break;
      std::vector<Real> curr = wave<Real>(action.ts), prev = wave<Real>(action.ts - 1);
      Field_t fields[2] = {field(curr), field(prev)};
      if (action.actionType == ACTION_SAVE) prefetch->Save(action.ts, &fields[0], &fields[1], comp.get(), comp.get());
      if (action.actionType != ACTION_RESTORE) continue;
      std::fill(curr.begin(), curr.end(), Real(9));
      std::fill(prev.begin(), prev.end(), Real(9));
      prefetch->Retrieve(action.ts, &fields[0], &fields[1], comp.get(), comp.get());
      restores++;
      const double ulp = 1e-7;
      good = good && off(curr, wave<Real>(action.ts)) <= bound(config) + ulp && off(prev, wave<Real>(action.ts - 1)) <= 2 * bound(config) + ulp;
    }
    good = good && restores >= STEPS - 1;
  }
  return good;
}

/// Checks the bounds of GPUZIP 2.x's own configuration members on values up to 100: the error is at
/// most the bound in the member's unit, and above a tenth of it.
template <typename Real>
bool published(const gpuzip_config_t &given) {
  gpuzip_config_t config = given;
  config.error_bound_mode = 0;
  config.error_bound = 0;
  config.cuszp_err_bound = 1e-3;  // relative to the range of the values
  config.bitcomp_range_fraction = config.bitcomp_delta = 1e-3;
  std::vector<Real> u = wave<Real>(3), back(N);
  for (Real &x : u) x *= Real(100);
  const double range = static_cast<double>(*std::max_element(u.begin(), u.end()) - *std::min_element(u.begin(), u.end()));
  const double most = off(u, back);  // the largest |u|: `back` is still zero
  const auto error = [&](int mode) {
    config.bitcomp_delta_config = mode;
    const auto codec = GPUZIPBuilders::CompressorBuilder(&config, N1, N2, N3);
    std::vector<unsigned char> buffer(codec->CompressedMaxSize());
    codec->Compress(u.data(), buffer.data());
    codec->Decompress(buffer.data(), back.data());
    return off(u, back);
  };
  const auto within = [](double e, double bound) { return e <= bound && e > bound / 10; };
  if (config.compressor == GPUZIP_COMPRESSOR_CUSZP) return within(error(0), 1e-3 * range);
  if (config.compressor == GPUZIP_COMPRESSOR_BITCOMP) return within(error(0), 1e-3 * most) && within(error(2), 1e-3);
  return true;
}

template <typename Real>
bool all(const gpuzip_config_t &config) {
  return alone<Real>(config) && published<Real>(config) && stored<Real>(config, true) && stored<Real>(config, false);
}

}  // namespace

int main(int, char **argv) {
  GPUZIPLogger::SetLevel(2);
  gpuzip_config_t config;
  config.compressor = std::atoi(argv[1]);
  config.cache_capacity = 3;
  config.zfp_bit_rate = 16;
  config.float_kind = argv[2];
  config.error_bound_mode = 1;
  config.error_bound = 1e-3;
  try {
    const bool good = std::string(argv[2]) == "double" ? all<double>(config) : all<float>(config);
    std::puts(good ? "within the bound" : "OUTSIDE");
    return good ? 0 : 1;
  } catch (const GPUZIPError &error) {
    if (error.status() != GPUZIP_ERR_UNSUPPORTED) throw;
    std::printf("not here: %s\n", error.what());
    return 0;
  }
}
