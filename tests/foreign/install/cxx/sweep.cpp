// A C++ program outside the repository: reverses 50 steps of u(ts) = 3 ts + 1 with 6 snapshots,
// with gpuzip.h and, where it is installed, with gpuzip.hpp.
#include <gpuzip.h>

#include <cstdio>
#include <stdexcept>
#include <vector>

static const int steps = 50;

static void check(gpuzip_status_t status) {
  if (status < 0) throw std::runtime_error(gpuzip_last_error());
}

static gpuzip_config_t configured(gpuzip_config_t config) {
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = 6;
  config.cache_capacity = 2;
  config.log_level = 3;
  return config;
}

static int reversed_in_c() {
  std::vector<double> u(7, 1.0);
  int reversed = 0;
  gpuzip_field_t field = gpuzip_field_t();
  field.data = u.data();
  field.n1 = u.size();
  field.n2 = field.n3 = 1;
  field.type = GPUZIP_TYPE_F64;
  const gpuzip_config_t config = configured(gpuzip_config_t());
  gpuzip_t *session = nullptr;
  gpuzip_action_t action;
  check(gpuzip_init(&config, steps, &field, 1, &session));
  do {
    check(gpuzip_get_action(session, &action));
    if (action.type == GPUZIP_ACTION_FORWARD)
      for (double &x : u) x += 3.0;
    if (action.type == GPUZIP_ACTION_SAVE) check(gpuzip_save(session, action.ts, &field, 1, nullptr));
    if (action.type == GPUZIP_ACTION_RESTORE) check(gpuzip_retrieve(session, action.ts, &field, 1, nullptr));
    if (action.type == GPUZIP_ACTION_BACKWARD) reversed += u == std::vector<double>(u.size(), 3.0 * action.ts + 1.0);
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  check(gpuzip_finalize(session));
  return reversed;
}

#if __has_include(<gpuzip.hpp>)
#include <gpuzip.hpp>

static int reversed_in_cxx() {
  std::vector<double> u(7, 1.0);
  int reversed = 0;
  gpuzip::config config;
  static_cast<gpuzip_config_t &>(config) = configured(config);
  gpuzip::session session(config, steps, {gpuzip::field(u)});
  for (const gpuzip_action_t &action : session.actions()) {
    if (action.type == GPUZIP_ACTION_FORWARD)
      for (double &x : u) x += 3.0;
    if (action.type == GPUZIP_ACTION_SAVE) session.save(action.ts, {gpuzip::field(u)});
    if (action.type == GPUZIP_ACTION_RESTORE) session.retrieve(action.ts, {gpuzip::field(u)});
    if (action.type == GPUZIP_ACTION_BACKWARD) reversed += u == std::vector<double>(u.size(), 3.0 * action.ts + 1.0);
  }
  return reversed;
}
#else
static int reversed_in_cxx() { return steps; }
#endif

int main() {
  const bool ok = reversed_in_c() == steps && reversed_in_cxx() == steps;
  std::puts(ok ? "ok" : "wrong state");
  return !ok;
}
