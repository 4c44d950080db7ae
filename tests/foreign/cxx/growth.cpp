// Tests that the process does not grow over many shots, nor over many objects that are deleted
// without Free or destroyed by an exception: a leaked session would keep its snapshots. Prints
// "flat". Needs Linux: the program reads /proc/self/statm.
#include "checks.hpp"
#include "sweep.hpp"

#include <cstdio>
#include <stdexcept>
#include <unistd.h>

static double resident_mib() {
  long total = 0, resident = 0;
  std::FILE *file = std::fopen("/proc/self/statm", "r");
  const bool read = file && std::fscanf(file, "%ld %ld", &total, &resident) == 2;
  if (file) std::fclose(file);
  return read ? static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20) : -1;
}

static bool left_by_an_exception() {
  try {
    Application<float> application(revolve(3), 8, 2, 512, 256);
    application.shot(0);
    throw std::runtime_error("the application's");
  } catch (const std::runtime_error &) {
    return true;
  }
}

/// Makes and deletes 2000 schedules, which take some hundred bytes each.
static bool schedules() {
  const gpuzip_config_t config = revolve(3);
  bool good = true;
  for (int i = 0; i < 2000; i++) good = std::unique_ptr<Checkpointing>(CheckpointingBuilder(&config, 8))->GetSteps() == 8 && good;
  return good;
}

static bool round(Application<float> &application, int shot) {
  return application.shot(shot) && left_by_an_exception() && schedules();
}

int main() {
  bool good = true;
  Application<float> application(revolve(3), 8, 2, 512, 256);  // 1 MiB per state, 3 MiB per session
  for (int warm_up = 0; warm_up < 3; warm_up++) good = round(application, warm_up) && good;
  const double before = resident_mib();
  for (int shot = 0; shot < 60; shot++) good = round(application, shot) && good;
  const double grown = resident_mib() - before;
  good = good && before > 0 && grown < 16;
  std::printf("%s: %.1f MiB, then %.1f more\n", good ? "flat" : "GROWING", before, grown);
  return good ? 0 : 1;
}
