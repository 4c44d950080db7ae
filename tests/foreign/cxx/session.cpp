// Tests gpuzip.hpp: sweeps, runs by callbacks, moved objects, errors, exceptions that pass through
// the library, configurations, codecs. The program exits with 1 at the first failed check.
#include <gpuzip.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <type_traits>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
      std::exit(1);                                                                  \
    }                                                                                \
  } while (0)

static_assert(!std::is_copy_constructible<gpuzip::session>::value && !std::is_copy_assignable<gpuzip::session>::value, "");
static_assert(std::is_nothrow_move_constructible<gpuzip::session>::value, "");
static_assert(std::is_nothrow_move_assignable<gpuzip::schedule>::value, "");
static_assert(std::is_base_of<std::runtime_error, gpuzip::error>::value, "");

namespace {

constexpr int kSteps = 31;

// The application: a state of two fields in fixed memory. Each step depends on all values.
struct App {
  std::vector<float> u = std::vector<float>(24, 0.5f);
  std::vector<double> v = std::vector<double>(7, 0.25);
  int reversed = kSteps;

  void step(int ts) {
    for (float &x : u) x = 0.9f * x + static_cast<float>(v[0]) * 0.1f;
    for (double &x : v) x = 0.99 * x + ts;
  }
  gpuzip::field_list fields() { return {gpuzip::field(u.data(), 4, 3, 2), gpuzip::field(v)}; }
  void check(int ts) {
    App twin;
    for (int t = 1; t <= ts; t++) twin.step(t);
    CHECK(u == twin.u && v == twin.v && ts == --reversed);
  }
  gpuzip::callbacks callbacks() {
    return {[this](std::int32_t ts, std::int32_t ts_end, std::uint32_t) {
              for (int t = ts; t <= ts_end; t++) step(t);
            },
            [this](std::int32_t ts, std::uint32_t) { check(ts); }};
  }
};

gpuzip::config revolve(int snaps, int cache) {
  gpuzip::config config;
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_REVOLVE;
  config.checkpointing_snaps = snaps;
  config.cache_capacity = cache;
  return config;
}

// Returns the status of the exception that `call` must throw; its text must contain `part`.
template <class Call>
gpuzip_status_t thrown(const char *part, Call call) {
  try {
    call();
  } catch (const gpuzip::error &error) {
    CHECK(std::strstr(error.what(), part) != nullptr);
    return error.code();
  }
  return GPUZIP_OK;
}

// Returns whether `call` throws an `Exception` whose text contains `part`.
template <class Exception, class Call>
bool throws(const char *part, Call call) {
  try {
    call();
  } catch (const Exception &exception) {
    return std::strstr(exception.what(), part) != nullptr;
  }
  return false;
}

void serve(App &app, gpuzip::session &session, const gpuzip_action_t &action) {
  switch (action.type) {
    case GPUZIP_ACTION_FORWARD: app.step(action.ts); break;
    case GPUZIP_ACTION_SAVE: session.save(action.ts, app.fields()); break;
    case GPUZIP_ACTION_RESTORE: session.retrieve(action.ts, app.fields()); break;
    case GPUZIP_ACTION_BACKWARD: app.check(action.ts); break;
    default: CHECK(false);
  }
}

void unknown_steps() {
  App app;
  gpuzip::config config = revolve(4, 2);
  config.checkpointing_algorithm = GPUZIP_ALGORITHM_ONLINE;
  gpuzip::session session(config, 0, app.fields());
  for (int shot = 0; shot < 2; shot++) {
    bool open = true;
    app = App();
    session.setup();
    CHECK(session.summary().steps == 0);
    for (const gpuzip_action_t &action : session.actions()) {
      serve(app, session, action);
      if (!open || action.type != GPUZIP_ACTION_FORWARD || action.ts + 1 < kSteps) continue;
      session.end_forward();
      open = false;
    }
    CHECK(app.reversed == 0 && session.summary().steps == kSteps);
  }
  CHECK(thrown("has ended already", [&] { session.end_forward(); }) == GPUZIP_ERR_STATE);
}

/* A view of values in memory, with the members of std::mdspan. */
template <std::size_t dimensions, class T = double>
struct View {
  static constexpr std::size_t rank() { return dimensions; }
  T *data_handle() const { return data; }
  int extent(std::size_t k) const { return extents[k]; }
  int stride(std::size_t k) const { return strides[k]; }
  T *data;
  int extents[dimensions], strides[dimensions];
};

void fields() {
  std::array<float, 6> values{};
  const gpuzip_field_t whole = gpuzip::field(values);
  CHECK(whole.data == values.data() && whole.n1 == 6 && whole.type == GPUZIP_TYPE_F32);
  double memory[200] = {};
  const gpuzip_field_t right = gpuzip::field(View<3>{memory, {2, 5, 7}, {50, 8, 1}}); /* rows of 7 in 8, C order */
  CHECK(right.n1 == 7 && right.n2 == 5 && right.n3 == 2 && right.pitch2 == 8 && right.pitch3 == 50);
  const gpuzip_field_t left = gpuzip::field(View<2>{memory, {9, 3}, {1, 9}}); /* Fortran order */
  CHECK(left.n1 == 9 && left.n2 == 3 && left.n3 == 1 && left.pitch2 == 9 && left.type == GPUZIP_TYPE_F64);
  CHECK(gpuzip::field(View<1>{memory, {4}, {1}}).n1 == 4);
  bool refused = false;
  try {
    gpuzip::field(View<1>{memory, {4}, {2}});
  } catch (const std::invalid_argument &) {
    refused = true;
  }
  CHECK(refused);
  gpuzip::config config = revolve(2, 1);
  config.check = 1;
  gpuzip::session session(config, 5, {right});
  session.name_fields({"pressure"});
  session.get_action();
  session.save(0, {right});
  CHECK(session.get_action().type == GPUZIP_ACTION_FORWARD && session.get_action().type == GPUZIP_ACTION_SAVE);
  CHECK(thrown("field 0 (pressure) is", [&] { session.save(1, {left}); }) == GPUZIP_ERR_SHAPE);
}

// Fields of const values are those of the same values that are not const; a session and a codec read them.
void read_only() {
  std::vector<double> u(12, 0.5), v(4, 2.0);
  const std::vector<double> &as_read = u;
  const std::array<float, 6> table{};
  double memory[40] = {};
  const auto same = [](const gpuzip::const_field &made, const gpuzip_field_t &of) {
    static_assert(!std::is_convertible<gpuzip::const_field, gpuzip_field_t>::value, "");
    static_assert(!std::is_convertible<gpuzip::const_field_list, gpuzip::field_list>::value, "");
    const gpuzip_field_t &read = made.read;
    return read.data == of.data && read.n1 == of.n1 && read.n2 == of.n2 && read.n3 == of.n3 && read.type == of.type &&
           read.role == of.role && read.pitch2 == of.pitch2 && read.pitch3 == of.pitch3;
  };
  CHECK(same(gpuzip::field(as_read), gpuzip::field(u)));
  CHECK(same(gpuzip::field(as_read.data(), 3, 2, 2, 1), gpuzip::field(u.data(), 3, 2, 2, 1)));
  CHECK(same(gpuzip::pitched(gpuzip::field(as_read.data(), 2, 3), 4), gpuzip::pitched(gpuzip::field(u.data(), 2, 3), 4)));
  CHECK(same(gpuzip::field(View<2, const double>{memory, {3, 9}, {10, 1}}), gpuzip::field(View<2>{memory, {3, 9}, {10, 1}})));
  CHECK(same(gpuzip::field<const double>(nullptr, 7), gpuzip::field<double>(nullptr, 7)));
  static_assert(std::is_same<decltype(gpuzip::field(table)), gpuzip::const_field>::value, "");
  static_assert(std::is_same<decltype(gpuzip::field(u)), gpuzip_field_t>::value, "");
#ifdef __cpp_lib_span
  CHECK(same(gpuzip::field(std::span<const double>(u)), gpuzip::field(std::span<double>(u))));
#endif
  gpuzip::config config = revolve(1, 1);
  gpuzip::session session(config, 3, {gpuzip::field(as_read), gpuzip::field(v)});
  for (const gpuzip_action_t &action : session.actions()) {
    if (action.type == GPUZIP_ACTION_SAVE) session.save(action.ts, {gpuzip::field(as_read), gpuzip::field(v)});
    if (action.type == GPUZIP_ACTION_FORWARD) u.assign(12, 0.0);
    if (action.type == GPUZIP_ACTION_RESTORE) {
      session.retrieve(action.ts, {gpuzip::field(u), gpuzip::field(v)});
      CHECK(u == std::vector<double>(12, 0.5) && v == std::vector<double>(4, 2.0));
    }
  }
  CHECK(session.stats().saves == 1 && session.stats().restores > 0);
  CHECK(gpuzip::compress(config, {gpuzip::field(as_read)}) == gpuzip::compress(config, {gpuzip::field(u)}));
}

void sweeps() {
  App app;
  gpuzip::session session(revolve(4, 2), kSteps, app.fields());
  for (int shot = 0; shot < 2; shot++) {
    app = App();
    session.setup();
    for (const gpuzip_action_t &action : session.actions()) serve(app, session, action);
    CHECK(app.reversed == 0 && session.stats().backward_steps == kSteps);
  }
  CHECK(session.summary().snapshots == 4);
  session.setup_steps(kSteps + 5);
  CHECK(session.summary().steps == kSteps + 5);
  session.setup_steps(kSteps);
  session.profile_steps({{1.0, 1.0}, {3.0, 1.0}});
  CHECK(session.summary().predicted_s >= 3e-3 * (kSteps - 1));
  gpuzip::schedule schedule = session.get_schedule();
  CHECK(session.peek_action().it == 0 && session.peek_action().type == GPUZIP_ACTION_SAVE && schedule.peek_action().it == 0);
  int reductions = 0;
  session.agree([&](std::int64_t value) {
    reductions++;
    return value;
  });
  CHECK(reductions == 5 && session.fingerprint() == schedule.fingerprint() && session.fingerprint() != 0);
  const auto no_network = [](std::int64_t) -> std::int64_t { throw std::runtime_error("no network"); };
  CHECK(throws<std::runtime_error>("no network", [&] { session.agree(no_network); }));
  CHECK(gpuzip::memory_required(revolve(4, 2), kSteps, app.fields()).host_bytes == session.summary().host_bytes);
  session.synchronize();
}

void profiles() {
  App app;
  auto config = revolve(4, 2);
  config.compressor = GPUZIP_COMPRESSOR_FP16;
  gpuzip::session session(config, kSteps, app.fields());
  CHECK(thrown("no profile", [&] { session.profile_export(); }) == GPUZIP_ERR_STATE);
  session.autotune();
  for (const gpuzip_action_t &action : session.actions()) serve(app, session, action);
  std::vector<unsigned char> profile = session.profile_export();
  const gpuzip_profile_info_t info = gpuzip::profile_info(profile);
  CHECK(info.backend == 1 && info.codecs == 1 && info.compressor == GPUZIP_COMPRESSOR_FP16 && info.d2h_gbs > 0);
  CHECK(gpuzip::profile_info(profile, 1).compressor == 0);
  session.profile_import(profile);
  CHECK(session.profile_export() == profile && session.summary().compressor == GPUZIP_COMPRESSOR_FP16);
  profile[70] ^= 4;
  CHECK(thrown("checksum", [&] { session.profile_import(profile); }) == GPUZIP_ERR_STREAM);
}

void runs() {
  for (int ranges = 0; ranges < 2; ranges++) {
    App app;
    int saves = 0, located = 0;
    auto config = revolve(4, 2);
    config.range_actions = ranges;
    gpuzip::session session(config, kSteps, app.fields());
    auto calls = app.callbacks();
    session.run_forward(calls, app.fields());
    CHECK(app.reversed == kSteps);
    session.run_reverse(calls, app.fields());
    CHECK(app.reversed == 0);
    app = App();
    session.setup();
    calls = app.callbacks();
    calls.observe = [&](std::int32_t type, std::int32_t, std::uint32_t) { saves += type == GPUZIP_ACTION_SAVE; };
    calls.locate = [&](std::int32_t, std::int32_t, gpuzip::field_list &fields) {
      fields = app.fields();
      located++;
    };
    const gpuzip::field_list nowhere = {gpuzip::field<float>(nullptr, 4, 3, 2), gpuzip::field<double>(nullptr, 7)};
    session.run_reverse(calls, nowhere);
    const gpuzip_stats_t stats = session.stats();
    CHECK(app.reversed == 0 && saves == static_cast<int>(stats.saves) && located == static_cast<int>(stats.saves + stats.restores));
    session.setup();
    calls.locate = [&](std::int32_t, std::int32_t, gpuzip::field_list &fields) { fields.pop_back(); };
    CHECK(throws<std::length_error>("", [&] { session.run_reverse(calls, nowhere); }));
  }
}

// Tests adjoint_every: BACKWARDs are ranges of time steps, in a loop and in a run by callbacks.
void macro_steps() {
  auto config = revolve(3, 2);
  config.adjoint_every = 4;
  const auto reverse = [](App &app, int ts, int ts_end) {
    CHECK(ts % 4 == 0 && ts_end == (ts == 28 ? kSteps - 1 : ts + 3) && ts_end + 1 == app.reversed);
    app.reversed = ts + 1;
    app.check(ts);
  };
  App app;
  gpuzip::session session(config, kSteps, app.fields());
  for (const gpuzip_action_t &action : session.actions()) {
    if (action.type == GPUZIP_ACTION_BACKWARD) reverse(app, action.ts, action.ts_end);
    else serve(app, session, action);
  }
  CHECK(app.reversed == 0 && session.stats().backward_steps == kSteps);
  app = App();
  session.setup();
  auto calls = app.callbacks();
  CHECK(thrown("backward_range", [&] { session.run_reverse(calls, app.fields()); }) == GPUZIP_ERR_ARGUMENT);
  calls.backward_range = [&](std::int32_t ts, std::int32_t ts_end, std::uint32_t) { reverse(app, ts, ts_end); };
  session.run_forward(calls, app.fields());
  CHECK(app.reversed == kSteps);
  session.run_reverse(calls, app.fields());
  CHECK(app.reversed == 0);
  app = App();
  session.setup();
  calls.backward_range = [](std::int32_t, std::int32_t, std::uint32_t) { throw std::runtime_error("of a range"); };
  CHECK(throws<std::runtime_error>("of a range", [&] { session.run_reverse(calls, app.fields()); }));
}

struct Odd {
  int value;
};

// Tests that an exception thrown by a callback leaves the run unchanged, and that the session then
// runs another shot.
void exceptions() {
  App app;
  gpuzip::session session(revolve(4, 2), kSteps, app.fields());
  for (int where = 0; where < 4; where++)
    for (int with_status = 0; with_status < 2; with_status++) {
      gpuzip::status status;
      int caught = 0;
      app = App();
      session.setup();
      auto calls = app.callbacks();
      const auto forward = calls.forward;
      const auto odd = [where](std::int32_t ts) {
        if (ts == 6) throw Odd{where};
      };
      if (where == 0) calls.forward = [&](std::int32_t ts, std::int32_t ts_end, std::uint32_t flags) { odd(ts), forward(ts, ts_end, flags); };
      if (where == 1) calls.backward = [&](std::int32_t ts, std::uint32_t) { odd(ts); };
      if (where == 2) calls.locate = [&](std::int32_t, std::int32_t ts, gpuzip::field_list &) { odd(ts > 0 ? 6 : 0); };
      if (where == 3) calls.observe = [&](std::int32_t, std::int32_t ts, std::uint32_t) { odd(ts > 0 ? 6 : 0); };
      try {
        session.run_reverse(calls, app.fields(), nullptr, with_status ? &status : nullptr);
      } catch (const Odd &exception) {
        caught = 1 + exception.value;
      }
      CHECK(caught == 1 + where);
      CHECK(thrown("was stopped", [&] { session.get_action(); }) == GPUZIP_ERR_STATE);
    }
  // A run within a run, each with its own exception.
  App inner_app;
  gpuzip::session inner(revolve(3, 1), kSteps, inner_app.fields());
  std::string order;
  app = App();
  session.setup();
  auto calls = app.callbacks();
  calls.forward = [&](std::int32_t, std::int32_t, std::uint32_t) {
    auto inner_calls = inner_app.callbacks();
    inner_calls.forward = [](std::int32_t, std::int32_t, std::uint32_t) { throw std::string("inner"); };
    try {
      inner.run_forward(inner_calls, inner_app.fields());
    } catch (const std::string &text) {
      order += text + " ";
    }
    CHECK(session.stats().forward_steps == 1);
    throw std::string("outer");
  };
  try {
    session.run_forward(calls, app.fields());
  } catch (const std::string &text) {
    order += text;
  }
  CHECK(order == "inner outer");
  app = App();
  session.setup();
  session.run_reverse(app.callbacks(), app.fields());
  CHECK(app.reversed == 0);
}

void moves() {
  App app;
  gpuzip::session a(revolve(4, 2), kSteps, app.fields());
  gpuzip_t *const raw = a.get();
  CHECK(a && raw != nullptr);
  gpuzip::session b(std::move(a));
  CHECK(!a && b.get() == raw);
  CHECK(thrown("handle is NULL", [&] { a.setup(); }) == GPUZIP_ERR_ARGUMENT);
  gpuzip::session c(revolve(3, 1), kSteps, app.fields());
  gpuzip_t *const replaced = c.get();
  c = std::move(b);
  CHECK(c.get() == raw && gpuzip_setup(replaced) == GPUZIP_ERR_HANDLE);
  gpuzip::session &same = c;
  c = std::move(same);
  CHECK(c.get() == raw);
  std::vector<gpuzip::session> many;
  for (int i = 0; i < 5; i++) many.emplace_back(revolve(3, 1), kSteps, app.fields());
  many.push_back(std::move(c));
  many.erase(many.begin());
  gpuzip_t *const last = many.back().get();
  many.clear();
  CHECK(gpuzip_setup(last) == GPUZIP_ERR_HANDLE && last == raw);
  gpuzip::session d(revolve(3, 1), kSteps, app.fields());
  gpuzip::session owner(d.release());
  CHECK(!d && owner);
  gpuzip::schedule kept = owner.get_schedule();
  owner.finalize();
  CHECK(!owner && kept.summary().steps == kSteps);
  CHECK(thrown("gpuzip_t handle is NULL", [&] { owner.finalize(); }) == GPUZIP_ERR_ARGUMENT);
}

void errors() {
  App app;
  CHECK(thrown("steps = 0", [&] { gpuzip::session(revolve(3, 1), 0, app.fields()); }) == GPUZIP_ERR_ARGUMENT);
  CHECK(thrown("checkpointing_snaps = -1", [] { gpuzip::schedule(revolve(-1, 1), 10); }) == GPUZIP_ERR_CONFIG);
  gpuzip::status status;
  gpuzip::session none(revolve(3, 1), -4, app.fields(), &status);
  CHECK(!none && status.code == GPUZIP_ERR_ARGUMENT && status.text.find("steps = -4") != std::string::npos);
  gpuzip::session session(revolve(3, 1), kSteps, app.fields(), &status);
  CHECK(session && status.ok() && status.text.empty());
  session.save(0, app.fields(), nullptr, &status);
  CHECK(status.code == GPUZIP_ERR_STATE && !status.ok());
  CHECK(session.get_action(&status).type == GPUZIP_ACTION_SAVE && status.ok());
  session.get_action(&status);
  CHECK(status.code == GPUZIP_ERR_STATE && status.text.find("was not served") != std::string::npos);
  CHECK(thrown("field 1", [&] { session.save(0, {gpuzip::field(app.u.data(), 4, 3, 2), gpuzip::field(app.u)}); }) == GPUZIP_ERR_SHAPE);
  CHECK(thrown("2", [&] { session.save(0, {gpuzip::field(app.u)}); }) == GPUZIP_ERR_SHAPE);
  CHECK(thrown("callbacks->forward", [&] { session.run_forward(gpuzip::callbacks(), app.fields()); }) == GPUZIP_ERR_ARGUMENT);
  CHECK(thrown("callbacks->backward", [&] {
          session.run_reverse({[](std::int32_t, std::int32_t, std::uint32_t) {}, nullptr}, app.fields());
        }) == GPUZIP_ERR_ARGUMENT);
}

void shared_schedule() {
  App app[2];
  gpuzip::schedule schedule(revolve(4, 0), kSteps);
  gpuzip::session session[2] = {gpuzip::session(schedule, revolve(4, 1), app[0].fields()),
                                gpuzip::session(schedule, revolve(4, 3), app[1].fields())};
  for (const gpuzip_action_t &action : schedule.actions())
    for (int d = 0; d < 2; d++) {
      session[d].dispatch(action.it);
      serve(app[d], session[d], action);
    }
  CHECK(app[0].reversed == 0 && app[1].reversed == 0 && schedule.summary().steps == kSteps);
  schedule.rewind();
  CHECK(schedule.get_action().it == 0);
}

void zero_copy() {
  auto config = revolve(4, 2);
  config.zero_copy = 1;
  std::vector<float> u(8);
  gpuzip::session session(config, kSteps, {gpuzip::field(u)});
  const auto value = [](void *data) -> float & { return *static_cast<float *>(data); };
  for (const gpuzip_action_t &action : session.actions()) {
    if (action.type == GPUZIP_ACTION_SAVE) {
      value(session.save_begin(action.ts, 1).at(0)) = static_cast<float>(action.ts);
      session.save_commit(action.ts);
    }
    if (action.type == GPUZIP_ACTION_RESTORE) {
      gpuzip::status status;
      CHECK(session.retrieve_acquire(action.ts, 2, nullptr, &status).empty() && status.code == GPUZIP_ERR_SHAPE);
      CHECK(value(session.retrieve_acquire(action.ts, 1).at(0)) == static_cast<float>(action.ts));
      session.retrieve_release(action.ts);
    }
  }
}

void configurations(const std::string &folder) {
  const std::string trace = folder + "/three.trace", file = folder + "/gpuzip.cfg";
  std::ofstream(trace) << "0 SAVE\n1 FORWARD\n2 FORWARD\n2 BACKWARD\n0 RESTORE\n1 FORWARD\n1 BACKWARD\n0 RESTORE\n0 BACKWARD\n0 TERMINATE\n";
  std::ofstream(file) << "checkpointing_algorithm = trace\ncheckpointing_snaps = 7\ntrace_file_path = \"" << trace << "\"\n";
  gpuzip::config copy;
  CHECK(copy.checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO && copy.log_level == 2 && copy.trace_file_path.empty());
  {
    const gpuzip::config loaded = gpuzip::config::load(file);
    CHECK(loaded.trace_file_path == trace && loaded.checkpointing_snaps == 7 && loaded.reserved[3] == 0);
    copy = loaded;
  }
  CHECK(gpuzip::schedule(copy, 3).summary().forward_steps == 3 && copy.c_config().float_kind == nullptr);
  gpuzip::config moved(std::move(copy));
  CHECK(gpuzip::schedule(moved, 3).summary().forward_steps == 3);
  moved.trace_file_path = "/no/such/trace";
  CHECK(thrown("/no/such/trace", [&] { gpuzip::schedule(moved, 3).summary(); }) == GPUZIP_ERR_IO);
  moved.float_kind = "half";
  CHECK(thrown("half", [&] { gpuzip::schedule(moved, 3); }) == GPUZIP_ERR_CONFIG);
  gpuzip::status status;
  CHECK(gpuzip::config::load("/no/such/config", &status).checkpointing_algorithm == GPUZIP_ALGORITHM_AUTO);
  CHECK(status.code == GPUZIP_ERR_IO && status.text.find("/no/such/config") != std::string::npos);
}

// A codec that keeps each value as a char of hundredths. The function number *throws throws:
// 1 max_bytes, 2 compress, 3 decompress.
struct Hundredths : gpuzip::codec {
  const int *throws;
  explicit Hundredths(const int *where) : throws(where) {}

  void may_throw(int where) const {
    if (*throws == where) throw Odd{where};
  }
  std::uint64_t max_bytes(const gpuzip_field_t &field) override {
    may_throw(1);
    return field.n1 * field.n2 * field.n3;
  }
  std::int64_t compress(const gpuzip_field_t &field, bool, double, void *to, std::uint64_t) override {
    may_throw(2);
    if (field.type != GPUZIP_TYPE_F32) return -1;
    const std::uint64_t n = field.n1 * field.n2 * field.n3;
    for (std::uint64_t i = 0; i < n; i++)
      static_cast<signed char *>(to)[i] = static_cast<signed char>(std::lround(100 * static_cast<float *>(field.data)[i]));
    return static_cast<std::int64_t>(n);
  }
  void decompress(const void *from, std::uint64_t bytes, const gpuzip_field_t &field) override {
    may_throw(3);
    for (std::uint64_t i = 0; i < bytes; i++)
      static_cast<float *>(field.data)[i] = static_cast<float>(static_cast<const signed char *>(from)[i]) / 100;
  }
};

// The same codec with functions for device memory, which note what they get. Number 4 is compress, 5 decompress.
struct OnDevice : Hundredths, gpuzip::device_codec {
  std::string seen;
  explicit OnDevice(const int *where) : Hundredths(where) {}

  gpuzip::device_codec *on_device() override { return this; }
  std::uint64_t work(const gpuzip_field_t &field) override { return 8 * field.n1; }
  void compress(const gpuzip_field_t &field, bool rms, void *, std::uint64_t capacity, gpuzip_codec_job_t *, void *,
                void *) override {
    may_throw(4);
    seen = "compress " + std::to_string(field.n1) + (rms ? " rms " : " ") + std::to_string(capacity);
  }
  void decompress(const void *, std::uint64_t capacity, const gpuzip_field_t &field, gpuzip_codec_job_t *, void *,
                  void *) override {
    may_throw(5);
    seen = "decompress " + std::to_string(field.n1) + " " + std::to_string(capacity);
  }
  using Hundredths::compress;
  using Hundredths::decompress;
};

// The C functions that a codec with functions for device memory is registered with.
void device_codecs() {
  int throws = 0;
  OnDevice *codec = new OnDevice(&throws);
  CHECK(gpuzip::register_codec("hundredths on devices", std::unique_ptr<gpuzip::codec>(codec)) >= 64);
  void *user = static_cast<gpuzip::codec *>(codec);
  const gpuzip_field_t field = gpuzip::field<float>(nullptr, 7);
  CHECK(gpuzip::detail::codec_device_work(user, &field) == 56);
  const auto compress = [&] {
    return gpuzip::detail::codec_device_compress(user, &field, 1, nullptr, 20, nullptr, nullptr, nullptr);
  };
  const auto decompress = [&] {
    return gpuzip::detail::codec_device_decompress(user, nullptr, 20, &field, nullptr, nullptr, nullptr);
  };
  CHECK(compress() == 0 && codec->seen == "compress 7 rms 20");
  CHECK(decompress() == 0 && codec->seen == "decompress 7 20");
  throws = 4;
  CHECK(compress() == -1 && decompress() == 0);
  throws = 5;
  CHECK(compress() == 0 && decompress() == -1);
}

void codecs() {
  int throws = 0;
  gpuzip::config config;
  const std::int32_t added = gpuzip::register_codec("hundredths", std::unique_ptr<gpuzip::codec>(new Hundredths(&throws)));
  CHECK(added >= 64);
  gpuzip::status status;
  CHECK(gpuzip::register_codec("none", nullptr, &status) == 0 && status.code == GPUZIP_ERR_ARGUMENT);
  for (const std::int32_t compressor : {GPUZIP_COMPRESSOR_FP16, GPUZIP_COMPRESSOR_BFP, static_cast<int>(added)}) {
    std::vector<float> u(1000), restored(1000);
    std::vector<double> v(50), restored_v(50);
    for (std::size_t i = 0; i < u.size(); i++) u[i] = static_cast<float>(i % 100) / 100;
    for (std::size_t i = 0; i < v.size(); i++) v[i] = static_cast<double>(i * i) / 3;
    config.compressor = compressor;
    config.error_bound = 0.01;
    const std::vector<unsigned char> stream = gpuzip::compress(config, {gpuzip::field(u.data(), 10, 100), gpuzip::field(v)});
    CHECK(!stream.empty() && stream.size() < 4400);
    const gpuzip_codec_info_t info = gpuzip::codec_info(stream, 0);
    CHECK(info.arrays == 2 && info.compressor == compressor && info.n2 == 100);
    gpuzip::decompress(stream, {gpuzip::field(restored.data(), 10, 100), gpuzip::field(restored_v)});
    for (std::size_t i = 0; i < u.size(); i++) CHECK(std::fabs(u[i] - restored[i]) <= 0.0101f);
    CHECK(thrown("index = 5", [&] { gpuzip::codec_info(stream, 5); }) == GPUZIP_ERR_ARGUMENT);
    std::vector<unsigned char> damaged = stream;
    damaged[damaged.size() / 2] ^= 1;
    gpuzip::decompress(damaged, {gpuzip::field(restored.data(), 10, 100), gpuzip::field(restored_v)}, &status);
    CHECK(status.code == GPUZIP_ERR_STREAM);
  }
  config.compressor = 99;
  CHECK(gpuzip::compress(config, {gpuzip::field<float>(nullptr, 8)}, &status).empty() && status.code == GPUZIP_ERR_CONFIG);
  // An exception of a codec leaves the call that used the codec: init, save or retrieve.
  std::vector<float> u(64, 0.5f);
  config = revolve(3, 1);
  config.compressor = added;
  for (int where = 0; where < 4; where++) {
    int caught = 0, seen = 0;
    throws = where;
    try {
      gpuzip::session session(config, 9, {gpuzip::field(u)});
      u[3] = 0.25f;
      for (const gpuzip_action_t &action : session.actions()) {
        if (action.type == GPUZIP_ACTION_SAVE) session.save(action.ts, {gpuzip::field(u)});
        if (action.type == GPUZIP_ACTION_RESTORE) session.retrieve(action.ts, {gpuzip::field(u)});
        seen = action.type == GPUZIP_ACTION_RESTORE || seen;
      }
    } catch (const Odd &exception) {
      caught = exception.value;
    }
    CHECK(caught == where && seen == (where == 0));
  }
  throws = 0;
}

// Tests a state of a volume with a halo of 4 cells, complex numbers and bytes: with and without a
// codec all values come back exactly, and the halo does not change.
void halos() {
  constexpr std::uint64_t kHalo = 4, kN = 6, kPitch = kN + 2 * kHalo;
  static_assert(gpuzip::detail::type_of<std::uint16_t>::value == GPUZIP_TYPE_I16, "");
  static_assert(gpuzip::detail::type_of<long long>::value == GPUZIP_TYPE_I64, "");
  static_assert(gpuzip::detail::type_of<std::complex<double>>::value == GPUZIP_TYPE_COMPLEX_F64, "");
  for (const std::int32_t compressor : {GPUZIP_COMPRESSOR_NONE, GPUZIP_COMPRESSOR_LORENZO}) {
    std::vector<float> u(kPitch * kPitch * kPitch, -1.0f);
    std::vector<std::complex<float>> spectrum(5);
    std::vector<char> bytes(3);
    const auto inside = [&](std::size_t i) { return i >= kHalo && i < kHalo + kN; };
    const auto all = [&](const std::function<void(float &, bool)> &body) {
      for (std::size_t i = 0; i < u.size(); i++) {
        body(u[i], inside(i % kPitch) && inside(i / kPitch % kPitch) && inside(i / kPitch / kPitch));
      }
    };
    const gpuzip::field_list fields = {
        gpuzip::pitched(gpuzip::field(&u[kHalo * (1 + kPitch + kPitch * kPitch)], kN, kN, kN), kPitch, kPitch * kPitch),
        gpuzip::field(spectrum), gpuzip::field(bytes)};
    gpuzip::config config = revolve(3, 2);
    config.range_actions = 0;
    config.compressor = compressor;
    gpuzip::session session(config, 17, fields);
    for (const gpuzip_action_t &action : session.actions()) {
      const float ts = static_cast<float>(action.ts);
      if (action.type == GPUZIP_ACTION_FORWARD || action.it == 0) {
        all([&](float &x, bool in) { x = in ? ts + 1 : x; });
        spectrum.assign(5, {ts, -ts});
        bytes.assign(3, static_cast<char>(action.ts));
      }
      if (action.type == GPUZIP_ACTION_SAVE) session.save(action.ts, fields);
      if (action.type == GPUZIP_ACTION_RESTORE) {
        u.assign(u.size(), -2.0f);
        session.retrieve(action.ts, fields);
        // The volume is constant at each time step, and the codec has no error on constant fields.
        all([&](float &x, bool in) { CHECK(x == (in ? ts + 1 : -2.0f)); });
        CHECK(spectrum == std::vector<std::complex<float>>(5, {ts, -ts}) && bytes == std::vector<char>(3, static_cast<char>(action.ts)));
      }
    }
  }
  CHECK(thrown("pitch2 = 3", [] {
          float x[8];
          gpuzip::session(revolve(3, 1), 9, {gpuzip::pitched(gpuzip::field(x, 4, 2), 3)});
        }) == GPUZIP_ERR_ARGUMENT);
}

/* Restart files within a shot, and a session that goes on from them. */
void restart(const std::string &folder) {
  std::vector<double> u(4, 1.0), stack(2, 3.0);
  gpuzip::config config = revolve(3, 0);
  config.persist_dir = folder + "/restart";
  config.persist_shared_dir = folder + "/shared";
  config.persist_stages = "first, second third,compress";
  gpuzip::arrays kept;
  kept.add("stack", gpuzip::field(stack)).add("u", gpuzip::field(u), 1);
  std::string told;
  {
    gpuzip::session session(config, 9, {gpuzip::field(u)});
    CHECK(thrown("gpuzip_persist_open", [&] { session.persist_due(); }) == GPUZIP_ERR_STATE);
    // As the first of two ranks, of which the other one always agrees. The session keeps the function.
    const auto calls = std::make_shared<int>(0);
    gpuzip::persist_options options;
    options.ranks = 2;
    options.agree_min = [calls](std::int64_t value) { return ++*calls, value; };
    session.persist_open(options);
    session.persist_stage("second", 2, [&told](const std::string &file, const gpuzip_generation_t &of) {
      told += file + " " + std::to_string(of.shot) + " " + std::to_string(of.it);
      throw std::runtime_error("which is a warning");
    });
    session.persist_stage("first", -1, [&told](const std::string &, const gpuzip_generation_t &) { told += "1: "; });
    session.persist_stage("third", 2, [&told](const std::string &, const gpuzip_generation_t &) { told += " wrong"; });
    session.persist_stage("off", 0, [&told](const std::string &, const gpuzip_generation_t &) { told += "off"; });
    CHECK(thrown("is registered already", [&] { session.persist_stage("off", 1, [](auto &&...) {}); }) == GPUZIP_ERR_ARGUMENT);
    CHECK(thrown("compress is the library's own", [&] { session.persist_stage("compress", 1, [](auto &&...) {}); }) == GPUZIP_ERR_ARGUMENT);
    CHECK(thrown("it is no UTF-8", [&] { session.persist_stage("\xff", 1, [](auto &&...) {}); }) == GPUZIP_ERR_ARGUMENT);
    CHECK(thrown("run is NULL", [&] { session.persist_stage("none", 1, nullptr); }) == GPUZIP_ERR_ARGUMENT);
    CHECK(session.persist_find().generation == 0 && *calls > 0);
    CHECK(session.get_action().type == GPUZIP_ACTION_SAVE);
    session.save(0, {gpuzip::field(u)});
    session.name_fields({"u"});
    const std::vector<double> &state = u;
    session.export_state(folder + "/states", 7, {gpuzip::field(state)});
    double values[4] = {};
    std::ifstream file(folder + "/states/u-000000007.npy", std::ios::binary);
    file.seekg(128);
    CHECK(file.read(reinterpret_cast<char *>(values), sizeof values) && std::equal(u.begin(), u.end(), values));
    CHECK(thrown("ts = -1", [&] { session.export_state(folder, -1, {gpuzip::field(u)}); }) == GPUZIP_ERR_ARGUMENT);
    CHECK(session.persist_due() == GPUZIP_DUE_YES);
    session.persist_write(5, kept);
    session.persist_wait();
    CHECK(session.stats().generations == 1);
    CHECK(thrown("a generation was written already", [&] { session.persist_stage("late", 1, [](auto &&...) {}); }) == GPUZIP_ERR_STATE);
    CHECK(told == "1: " + folder + "/restart/gpuzip-r000000-g000000000001.gen 5 0");
    session.persist_clone(folder + "/kept");
    CHECK(thrown("folder of its own", [&] { session.persist_clone(folder + "/kept"); }) == GPUZIP_ERR_IO);
  }
  u.assign(4, 0.0);
  stack.assign(2, 0.0);
  config.persist_dir = folder + "/kept";
  config.persist_shared_dir = folder + "/other";
  config.persist_stages.clear();
  gpuzip::session moved(config, 9, {gpuzip::field(u)});
  moved.persist_open(0, 2, [](std::int64_t value) { return value; });
  gpuzip::session session = std::move(moved);
  const gpuzip_generation_t found = session.persist_find();
  CHECK(found.generation == 1 && found.shot == 5 && found.it == 0);
  session.persist_read(kept);
  CHECK(u == std::vector<double>(4, 1.0) && stack == std::vector<double>(2, 3.0) && session.get_action().it == 1);
  session.finalize();
  CHECK(std::ifstream(folder + "/other/gpuzip-r000000-g000000000001.gen").good());
  gpuzip::persist_check(folder + "/restart/gpuzip-r000000-g000000000001.gen");
  gpuzip::persist_whole(folder + "/restart/gpuzip-r000000-g000000000001.gen");
  CHECK(thrown("no name of a generation", [&] { gpuzip::persist_check(folder + "/restart"); }) == GPUZIP_ERR_ARGUMENT);
  std::string one = "abc", two = "xyz", both(3, 0);
  gpuzip::persist_parity({&one[0], &two[0], &both[0]}, {1, 1, 0}, 1, 3);
  CHECK(both[2] == ('c' ^ 'z'));
  one = "???";
  gpuzip::persist_parity({&one[0], &two[0], &both[0]}, {0, 1, 1}, 1, 3);
  CHECK(one == "abc");
  CHECK(thrown("at least 1", [&] { gpuzip::persist_parity({&one[0]}, {1, 1}, 1, 3); }) == GPUZIP_ERR_ARGUMENT);
  gpuzip::catch_signals({23});
  CHECK(thrown("signal 9", [] { gpuzip::catch_signals({9}); }) == GPUZIP_ERR_ARGUMENT);
}

}  // namespace

int main(int, char **arguments) {
  fields();
  read_only();
  sweeps();
  unknown_steps();
  profiles();
  runs();
  macro_steps();
  exceptions();
  moves();
  errors();
  shared_schedule();
  zero_copy();
  halos();
  configurations(arguments[1]);
  codecs();
  device_codecs();
  restart(arguments[1]);
  std::puts("ok");
  return 0;
}
