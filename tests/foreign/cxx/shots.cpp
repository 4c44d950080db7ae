// Runs whole shots through the drop-in headers:
//
//   shots <steps> <algorithm> <cache> [snapshots] [float|double] [extents|bytes|first_save] [trace]
//
// prints "identical" if the adjoint of every device and shot equals that of a run that keeps every
// state. `trace` is the path of a trace file.
#include "sweep.hpp"

#include <cstdio>
#include <cstdlib>

template <typename Real>
static bool run(const gpuzip_config_t &config, int steps, Build build) {
  Application<Real> application(config, steps, 3, 13, 7, build);
  bool good = application.schedule().GetSteps() == steps;
  const Order orders[] = {Order::setup_reset, Order::reset_setup, Order::setup, Order::setup_reset, Order::setup};
  for (int shot = 0; shot < 5; shot++) {
    if (shot == 3) application.prefetch(0).Free();  // Setup takes the memory again
    good = application.shot(shot, orders[shot]) && good;
  }
  for (std::size_t d = 0; d < 3; d++) application.prefetch(d).Report();
  application.prefetch(1).Free();
  application.prefetch(1).Free();
  application.prefetch(1).Report();
  return good && application.schedule().GetNumberOfCheckpoints() >= 0;
}

int main(int argc, char **argv) {
  const auto argument = [&](int i, const char *otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  const std::string kind = argument(5, "float"), build_name = argument(6, "extents"), trace = argument(7, "");
  const int steps = std::atoi(argument(1, "100").c_str());
  const Build build = build_name == "bytes" ? Build::bytes : build_name == "first_save" ? Build::first_save : Build::extents;

  std::vector<char> path(trace.begin(), trace.end());
  path.push_back('\0');
  gpuzip_config_t config;
  config.checkpointing_algorithm = std::atoi(argument(2, "1").c_str());
  config.cache_capacity = std::atoi(argument(3, "3").c_str());
  config.checkpointing_snaps = std::atoi(argument(4, "6").c_str());
  config.float_kind = kind.c_str();
  config.trace_file_path = trace.empty() ? nullptr : path.data();
  config.range_actions = 1;  // an Action of GPUZIP 2.x is always one time step
  GPUZIPLogger::SetLevel(2);

  try {
    const bool good = kind == "double" ? run<double>(config, steps, build) : run<float>(config, steps, build);
    std::puts(good ? "identical" : "DIFFERENT");
    return good ? 0 : 1;
  } catch (const std::exception &error) {
    std::printf("error: %s\n", error.what());
    return 2;
  }
}
