/* gpuzip for C++14 and newer: handles that own sessions and schedules, errors as exceptions,
 * callbacks as lambdas. Header only. gpuzip.h explains every call; this file explains what C++
 * adds.
 *
 *  - Errors are thrown as gpuzip::error. A call whose last argument is a pointer to a
 *    gpuzip::status stores the error there instead; what the call returns or makes is then empty.
 *  - Handles (session, schedule) are moved, never copied, and their destructors give them back.
 *  - An exception thrown in a callback or codec ends the library call that called it, and leaves
 *    that call as an exception, with a gpuzip::status or without.
 *
 *      gpuzip::config config = gpuzip::config::load("gpuzip.cfg");
 *      gpuzip::session session(config, steps, {gpuzip::field(u)});  // std::vector<float> u
 *      const gpuzip::callbacks calls = {
 *          [&](int ts, int ts_end, unsigned) { for (; ts <= ts_end; ts++) forward(u, ts); },
 *          [&](int ts, unsigned) { backward(u, ts); }};
 *      session.run_forward(calls, {gpuzip::field(u)});
 *      residuals();  // work between the forward and the reverse sweep
 *      session.run_reverse(calls, {gpuzip::field(u)});
 */
#ifndef GPUZIP_HPP
#define GPUZIP_HPP

#include <gpuzip.h>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if __cplusplus >= 202002L
#include <span>
#endif

namespace gpuzip {

/* A field whose values are only read: `save` takes it, `retrieve` does not. */
struct const_field {
  /* The memory, as C's field, whose pointer is not const. */
  gpuzip_field_t read;
  /* Makes it of any field: what may be written may be read. */
  const_field(const gpuzip_field_t &made) noexcept : read(made) {}
};

/* A failed call: its status and the text of gpuzip_last_error. */
class error : public std::runtime_error {
 public:
  /* Makes an error of a status GPUZIP_ERR_* and its text, which `what()` returns. */
  error(gpuzip_status_t code, const std::string &text) : std::runtime_error(text), code_(code) {}

  /* GPUZIP_ERR_*. */
  gpuzip_status_t code() const noexcept { return code_; }

 private:
  gpuzip_status_t code_;
};

/* The result of a call that does not throw. */
struct status {
  /* GPUZIP_OK or GPUZIP_ERR_*. */
  gpuzip_status_t code = GPUZIP_OK;
  /* The text of gpuzip_last_error; empty after success. */
  std::string text;

  /* Whether the call succeeded: `code` is GPUZIP_OK or a warning, a status above 0. */
  bool ok() const noexcept { return code >= 0; }
};

namespace detail {

/* The exception of a callback in this thread while it passes through the library. */
inline std::exception_ptr &carried() noexcept {
  static thread_local std::exception_ptr exception;
  return exception;
}

/* Calls a function of the application and catches its exception, so that none enters the
 * library. Returns 0, or `failed` after an exception. */
template <class Body>
std::int32_t guarded(std::int32_t failed, Body &&body) noexcept {
  try {
    return body();
  } catch (...) {
    carried() = std::current_exception();
    return failed;
  }
}

/* Calls the library and reports its failure: throws a callback's exception again; stores an
 * error in `out`, or throws it if `out` is NULL. */
template <class Call>
bool call(status *out, Call &&function) {
  carried() = nullptr;
  const gpuzip_status_t code = function();
  if (carried()) std::rethrow_exception(std::exchange(carried(), nullptr));
  if (code < 0 && out == nullptr) throw error(code, gpuzip_last_error());
  if (out != nullptr) {
    out->code = code;
    out->text.assign(code < 0 ? gpuzip_last_error() : "");
  }
  return code >= 0;
}

template <class T>
T sized() {
  T value = T();
  value.struct_size = sizeof value;
  return value;
}

inline char *c_string(std::string &text) noexcept { return text.empty() ? nullptr : &text[0]; }
inline void take(std::string &to, const char *from) { to.assign(from != nullptr ? from : ""); }

/* Owns a handle and gives it back in its destructor. */
template <class T, gpuzip_status_t (*give_back)(T *)>
class handle {
 public:
  /* Makes an object that owns no handle, until another one is moved into it. */
  handle() noexcept = default;
  handle(handle &&other) noexcept : handle_(other.release()) {}
  handle &operator=(handle &&other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  handle(const handle &) = delete;
  handle &operator=(const handle &) = delete;
  ~handle() { reset(nullptr); }

  /* Whether this object owns a handle. */
  explicit operator bool() const noexcept { return handle_ != nullptr; }

  /* The handle for calls of gpuzip.h; this object still owns it. */
  T *get() const noexcept { return handle_; }

  /* Gives up the handle: from now on the caller must give it back. */
  T *release() noexcept { return std::exchange(handle_, nullptr); }

 protected:
  void reset(T *to) noexcept {
    if (handle_ != nullptr) give_back(handle_);
    handle_ = to;
  }

  T *handle_ = nullptr;
};

/* The actions that are left up to TERMINATE, without it, for loops `for (const gpuzip_action_t
 * &action : session.actions())`. */
template <class Source>
class action_range {
 public:
  /* The actions of a session or a schedule, which must outlive this object. */
  explicit action_range(Source &source) noexcept : source_(&source) {}

  /* An input iterator: one pass; each increment calls get_action, and throws gpuzip::error where that
   * fails. The reference to an action is valid until the next increment. */
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = gpuzip_action_t;
    using difference_type = std::ptrdiff_t;
    using pointer = const gpuzip_action_t *;
    using reference = const gpuzip_action_t &;

    iterator() noexcept : source_(nullptr), action_() {}
    explicit iterator(Source *source) : source_(source), action_() { ++*this; }

    reference operator*() const noexcept { return action_; }
    pointer operator->() const noexcept { return &action_; }
    iterator &operator++() {
      action_ = source_->get_action();
      if (action_.type == GPUZIP_ACTION_TERMINATE) source_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const iterator &a, const iterator &b) noexcept { return a.source_ == b.source_; }
    friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

   private:
    Source *source_;
    gpuzip_action_t action_;
  };

  /* Begins the pass: takes the first action that is left. */
  iterator begin() const { return iterator(source_); }
  /* The end, which an iterator equals at TERMINATE. */
  iterator end() const noexcept { return iterator(); }

 private:
  Source *source_;
};

template <std::size_t bytes>
struct integer_of;
template <>
struct integer_of<1> : std::integral_constant<std::int32_t, GPUZIP_TYPE_I8> {};
template <>
struct integer_of<2> : std::integral_constant<std::int32_t, GPUZIP_TYPE_I16> {};
template <>
struct integer_of<4> : std::integral_constant<std::int32_t, GPUZIP_TYPE_I32> {};
template <>
struct integer_of<8> : std::integral_constant<std::int32_t, GPUZIP_TYPE_I64> {};

template <class T, bool is_integer = std::is_integral<T>::value>
struct type_of {
  static_assert(sizeof(T) == 0, "gpuzip has no type of values for this type, such as long double: use float, double, an integer type or "
                                "std::complex of float or double, or a field of bytes (GPUZIP_TYPE_BYTE)");
};
template <class T>
struct type_of<T, true> : integer_of<sizeof(T)> {};
template <>
struct type_of<char, true> : std::integral_constant<std::int32_t, GPUZIP_TYPE_BYTE> {};
template <>
struct type_of<float, false> : std::integral_constant<std::int32_t, GPUZIP_TYPE_F32> {};
template <>
struct type_of<double, false> : std::integral_constant<std::int32_t, GPUZIP_TYPE_F64> {};
template <>
struct type_of<std::complex<float>, false> : std::integral_constant<std::int32_t, GPUZIP_TYPE_COMPLEX_F32> {};
template <>
struct type_of<std::complex<double>, false> : std::integral_constant<std::int32_t, GPUZIP_TYPE_COMPLEX_F64> {};

template <class T>
using value_of = typename std::remove_const<T>::type;
/* What gpuzip::field makes of values of this type. */
template <class T>
using field_of = typename std::conditional<std::is_const<T>::value, const_field, gpuzip_field_t>::type;

}  // namespace detail

/* A configuration with gpuzip's defaults. Its members are those of gpuzip_config_t, but the
 * strings are std::string, which this object owns; an empty string is not set. Pass
 * `c_config()` to the calls of gpuzip.h. */
struct config : gpuzip_config_t {
  /* The strings of gpuzip_config_t, whose comments in gpuzip.h say what each is for; "": not set. They
   * hide the members of gpuzip_config_t with these names. */
  std::string trace_file_path, float_kind, profile_path, trace_out, persist_dir, disk_path, quality, fill_value, persist_shared_dir, persist_stages;

  /* Makes a configuration with the defaults of gpuzip_config_init. Reads no file and no environment
   * variable. */
  config() : gpuzip_config_t() {
    detail::call(nullptr, [&] { return gpuzip_config_init(this); });
  }

  /* Loads a configuration as gpuzip_config_load does: defaults, the file at `path` (none if
   * empty), then the environment variables GPUZIP_<KEY>. */
  static config load(const std::string &path = std::string(), status *out = nullptr) {
    gpuzip_config_t c;
    config loaded;
    if (!detail::call(out, [&] { return gpuzip_config_load(path.empty() ? nullptr : path.c_str(), &c); })) return loaded;
    const std::unique_ptr<gpuzip_config_t, gpuzip_status_t (*)(gpuzip_config_t *)> freed(&c, gpuzip_config_free);
    static_cast<gpuzip_config_t &>(loaded) = c;
    // A reserved word says who owns the strings.
    for (std::uint64_t &word : loaded.reserved) word = 0;
    detail::take(loaded.trace_file_path, c.trace_file_path);
    detail::take(loaded.float_kind, c.float_kind);
    detail::take(loaded.profile_path, c.profile_path);
    detail::take(loaded.trace_out, c.trace_out);
    detail::take(loaded.persist_dir, c.persist_dir);
    detail::take(loaded.disk_path, c.disk_path);
    detail::take(loaded.quality, c.quality);
    detail::take(loaded.fill_value, c.fill_value);
    detail::take(loaded.persist_shared_dir, c.persist_shared_dir);
    detail::take(loaded.persist_stages, c.persist_stages);
    return loaded;
  }

  /* The configuration as the struct of gpuzip.h. Its strings belong to this object, which must
   * outlive the struct. */
  gpuzip_config_t c_config() const {
    config &self = const_cast<config &>(*this);  // C's strings are not const; they are not changed
    gpuzip_config_t c = *this;
    c.trace_file_path = detail::c_string(self.trace_file_path);
    c.float_kind = detail::c_string(self.float_kind);
    c.profile_path = detail::c_string(self.profile_path);
    c.trace_out = detail::c_string(self.trace_out);
    c.persist_dir = detail::c_string(self.persist_dir);
    c.disk_path = detail::c_string(self.disk_path);
    c.quality = detail::c_string(self.quality);
    c.fill_value = detail::c_string(self.fill_value);
    c.persist_shared_dir = detail::c_string(self.persist_shared_dir);
    c.persist_stages = detail::c_string(self.persist_stages);
    return c;
  }
};

/* The fields of a state, as in `{gpuzip::field(u), gpuzip::field(v)}`. */
using field_list = std::vector<gpuzip_field_t>;

/* Fields that are only read, such as those of a `save`. A field_list is one, too. */
class const_field_list {
 public:
  /* Makes it of fields that may also be written. */
  const_field_list(const field_list &fields) : fields_(fields) {}
  /* Makes it of a list in braces. */
  const_field_list(std::initializer_list<const_field> fields) {
    for (const const_field &each : fields) fields_.push_back(each.read);
  }

  /* The fields, as C's calls take them. */
  const gpuzip_field_t *data() const noexcept { return fields_.data(); }
  /* The number of fields. */
  std::size_t size() const noexcept { return fields_.size(); }

 private:
  field_list fields_;
};

/* A field at `data`, n1 fastest; with NULL only its shape. T is float, double, or a type whose
 * values are stored exactly whatever the codec is: std::complex of float or double, an integer,
 * or char for bytes. Returns a const_field if T is const, else a gpuzip_field_t. `role`: 0, or k+1
 * for the previous time level of field k. */
template <class T>
detail::field_of<T> field(T *data, std::uint64_t n1, std::uint64_t n2 = 1, std::uint64_t n3 = 1, std::int32_t role = 0) {
  gpuzip_field_t made = gpuzip_field_t();
  made.data = const_cast<detail::value_of<T> *>(data);  // C's field is not const; what takes a const_field only reads
  made.n1 = n1;
  made.n2 = n2;
  made.n3 = n3;
  made.type = detail::type_of<detail::value_of<T>>::value;
  made.role = role;
  return made;
}

/* The field `of` with gaps, on the host backend: its rows begin `pitch2` values apart, its
 * planes `pitch3` values apart (0: n2 times `pitch2`). Values in the gaps, such as a halo, are
 * not stored, and a retrieve does not write them. A halo of 4 cells:
 * `pitched(field(&u[4][4][4], n1, n2, n3), n1 + 8, (n1 + 8) * (n2 + 8))`. */
inline gpuzip_field_t pitched(gpuzip_field_t of, std::uint64_t pitch2, std::uint64_t pitch3 = 0) {
  of.pitch2 = pitch2;
  of.pitch3 = pitch3;
  return of;
}
/* The same for a field that is only read. */
inline const_field pitched(const const_field &of, std::uint64_t pitch2, std::uint64_t pitch3 = 0) {
  return pitched(of.read, pitch2, pitch3);
}

/* A whole container of contiguous values, such as std::vector, std::array or std::span, as one field of
 * one dimension. Do not resize it while the field is used. */
template <class Values>
auto field(Values &data) -> decltype(field(data.data(), data.size())) {
  return field(data.data(), data.size());
}

/* The field of a std::mdspan, or of a view with its members, of one to three dimensions. Its dimensions are
 * taken by their strides, whatever its layout; the smallest stride must be 1. Gaps are as in `pitched`. */
template <class View>
auto field(const View &view) -> decltype(field(view.data_handle(), view.extent(0), view.stride(0))) {
  static_assert(View::rank() >= 1 && View::rank() <= 3, "a field has one to three dimensions");
  struct dimension {
    std::uint64_t stride, extent;
  } by_stride[3] = {{0, 1}, {0, 1}, {0, 1}};
  for (std::size_t k = 0; k < View::rank(); k++)
    by_stride[k] = {static_cast<std::uint64_t>(view.stride(k)), static_cast<std::uint64_t>(view.extent(k))};
  std::stable_sort(by_stride, by_stride + View::rank(), [](const dimension &a, const dimension &b) { return a.stride < b.stride; });
  if (by_stride[0].stride != 1) throw std::invalid_argument("gpuzip::field: the smallest stride of the view is not 1");
  const auto made = field(view.data_handle(), by_stride[0].extent, by_stride[1].extent, by_stride[2].extent);
  return pitched(made, by_stride[1].stride, by_stride[2].stride);
}

#ifdef __cpp_lib_span
/* As above, for a span that is a temporary. */
template <class T, std::size_t extent>
detail::field_of<T> field(std::span<T, extent> &&data) {
  return field(data.data(), data.size());
}
#endif

/* A schedule with its current action; several sessions may follow one schedule. */
class schedule : public detail::handle<gpuzip_schedule_t, gpuzip_schedule_release> {
 public:
  /* Makes an object without a schedule, until one is moved into it. */
  schedule() noexcept = default;
  /* Makes a schedule for `steps` time steps, as gpuzip_schedule_create. `settings` is copied. */
  schedule(const config &settings, std::int32_t steps, status *out = nullptr) {
    const gpuzip_config_t c = settings.c_config();
    detail::call(out, [&] { return gpuzip_schedule_create(&c, steps, &handle_); });
  }
  /* Takes ownership of a handle of gpuzip.h. */
  explicit schedule(gpuzip_schedule_t *owned) noexcept { handle_ = owned; }

  /* Moves to the next action and returns it, as gpuzip_schedule_get_action. */
  gpuzip_action_t get_action(status *out = nullptr) {
    gpuzip_action_t action = gpuzip_action_t();
    detail::call(out, [&] { return gpuzip_schedule_get_action(handle_, &action); });
    return action;
  }

  /* Returns the action that get_action would give next, and changes nothing. */
  gpuzip_action_t peek_action(status *out = nullptr) {
    gpuzip_action_t action = gpuzip_action_t();
    detail::call(out, [&] { return gpuzip_schedule_peek_action(handle_, &action); });
    return action;
  }

  /* Returns a number that is equal for schedules with equal actions, as
   * gpuzip_schedule_fingerprint. */
  std::uint64_t fingerprint(status *out = nullptr) {
    std::uint64_t number = 0;
    detail::call(out, [&] { return gpuzip_schedule_fingerprint(handle_, &number); });
    return number;
  }

  /* The actions that are left, to loop over once. */
  detail::action_range<schedule> actions() noexcept { return detail::action_range<schedule>(*this); }

  /* Moves back to before the first action, as gpuzip_schedule_rewind. Every session of the schedule
   * then needs setup. */
  void rewind(status *out = nullptr) {
    detail::call(out, [&] { return gpuzip_schedule_rewind(handle_); });
  }

  /* Returns the summary of one pass over the schedule, as gpuzip_schedule_summary. */
  gpuzip_summary_t summary(status *out = nullptr) {
    gpuzip_summary_t numbers = detail::sized<gpuzip_summary_t>();
    detail::call(out, [&] { return gpuzip_schedule_summary(handle_, &numbers); });
    return numbers;
  }
};

/* The functions that a run calls, with the arguments of gpuzip_callbacks_t. A function stops
 * the run by throwing. */
struct callbacks {
  /* Computes u(ts), ..., u(ts_end). */
  std::function<void(std::int32_t ts, std::int32_t ts_end, std::uint32_t flags)> forward;
  /* Does the adjoint of the step ts -> ts+1. Not needed by run_forward. */
  std::function<void(std::int32_t ts, std::uint32_t flags)> backward;
  /* Sets the data of the fields to where u(ts) is, or is to be put. If empty, the fields given
   * to the run say where. */
  std::function<void(std::int32_t type, std::int32_t ts, field_list &fields)> locate = nullptr;
  /* Called after every save and restore. May be empty. */
  std::function<void(std::int32_t type, std::int32_t ts, std::uint32_t flags)> observe = nullptr;
  /* Does the adjoint of the step t -> t+1 for t = ts_end, ..., ts; called instead of backward
   * if it is not empty. Needed with adjoint_every > 1. */
  std::function<void(std::int32_t ts, std::int32_t ts_end, std::uint32_t flags)> backward_range = nullptr;
};

/* Options of session::persist_open, as gpuzip_persist_options_t. */
struct persist_options {
  /* Number of this rank, from 0, and number of ranks. */
  std::int32_t rank = 0, ranks = 1;
  /* Returns the least of a value over all ranks. Not needed with one rank. */
  std::function<std::int64_t(std::int64_t value)> agree_min = nullptr;
};

/* A stage of session::persist_stage: called in a thread of the library for each generation that is on the disk, with its
 * file. If it throws, the library logs a warning, and the generation passes no further stage. */
using persist_stage_function = std::function<void(const std::string &file, const gpuzip_generation_t &generation)>;

namespace detail {

template <class List>
std::uint32_t count(const List &fields) noexcept {
  return static_cast<std::uint32_t>(fields.size());
}

inline std::int32_t run_forward(void *user, std::int32_t ts, std::int32_t ts_end, std::uint32_t flags) {
  return guarded(1, [&] { return static_cast<const callbacks *>(user)->forward(ts, ts_end, flags), 0; });
}
inline std::int32_t run_backward(void *user, std::int32_t ts, std::uint32_t flags) {
  return guarded(1, [&] { return static_cast<const callbacks *>(user)->backward(ts, flags), 0; });
}
inline std::int32_t run_backward_range(void *user, std::int32_t ts, std::int32_t ts_end, std::uint32_t flags) {
  return guarded(1, [&] { return static_cast<const callbacks *>(user)->backward_range(ts, ts_end, flags), 0; });
}
inline std::int32_t run_locate(void *user, std::int32_t type, std::int32_t ts, gpuzip_field_t *to, std::uint32_t count) {
  return guarded(1, [&] {
    field_list located(to, to + count);
    static_cast<const callbacks *>(user)->locate(type, ts, located);
    if (located.size() != count) throw std::length_error("gpuzip: locate changed the number of fields");
    for (std::uint32_t i = 0; i < count; ++i) to[i] = located[i];
    return 0;
  });
}
inline std::int32_t run_observe(void *user, std::int32_t type, std::int32_t ts, std::uint32_t flags) {
  return guarded(1, [&] { return static_cast<const callbacks *>(user)->observe(type, ts, flags), 0; });
}

inline std::int32_t persist_least(void *user, std::int64_t *value) {
  return guarded(1, [&] { return *value = static_cast<const persist_options *>(user)->agree_min(*value), 0; });
}

inline std::int32_t persist_stage(void *user, const char *file, const gpuzip_generation_t *generation) {
  return guarded(1, [&] { return (*static_cast<const persist_stage_function *>(user))(file, *generation), 0; });
}

inline std::int32_t agree_least(void *user, std::int64_t *value) {
  return guarded(1, [&] {
    *value = (*static_cast<std::function<std::int64_t(std::int64_t)> *>(user))(*value);
    return 0;
  });
}

inline gpuzip_callbacks_t c_callbacks(const callbacks &calls) {
  gpuzip_callbacks_t c = sized<gpuzip_callbacks_t>();
  c.user = const_cast<callbacks *>(&calls);
  if (calls.forward) c.forward = run_forward;
  if (calls.backward) c.backward = run_backward;
  if (calls.backward_range) c.backward_range = run_backward_range;
  if (calls.locate) c.locate = run_locate;
  if (calls.observe) c.observe = run_observe;
  return c;
}

}  // namespace detail

/* The arrays that restart files keep, with the names that `add` gives them. */
class arrays {
 public:
  /* Adds an array; `scope` 0: it changes between shots only, 1: it changes during a shot. The name is
   * copied. */
  arrays &add(const std::string &name, const gpuzip_field_t &memory, std::int32_t scope = 0) {
    gpuzip_array_t array = gpuzip_array_t();
    array.field = memory;
    array.scope = scope;
    names_.push_back(name);
    list_.push_back(array);
    return *this;
  }

  /* The arrays for a call of gpuzip.h. */
  const std::vector<gpuzip_array_t> &list() {
    for (std::size_t i = 0; i < list_.size(); ++i) list_[i].name = names_[i].c_str();
    return list_;
  }

 private:
  std::vector<std::string> names_;
  std::vector<gpuzip_array_t> list_;
};

/* Fails unless the file of a generation is right, as gpuzip_persist_check. */
inline void persist_check(const std::string &path, status *out = nullptr) {
  detail::call(out, [&] { return gpuzip_persist_check(path.c_str()); });
}

/* Writes the file of a generation anew with all that older ones hold of it, as gpuzip_persist_whole. */
inline void persist_whole(const std::string &path, status *out = nullptr) {
  detail::call(out, [&] { return gpuzip_persist_whole(path.c_str()); });
}

/* Computes the blocks that are not present, of which the last `parity` are parity, as gpuzip_persist_parity. The CRC32C
 * of bytes is gpuzip_persist_checksum. */
inline void persist_parity(const std::vector<void *> &blocks, const std::vector<std::int32_t> &present, std::size_t parity,
                           std::size_t bytes, status *out = nullptr) {
  detail::call(out, [&] {
    const bool fits = present.size() == blocks.size() && parity <= blocks.size() && blocks.size() <= 256;
    const auto data = static_cast<std::uint32_t>(fits ? blocks.size() - parity : 0); /* 0 is refused */
    return gpuzip_persist_parity(blocks.data(), present.data(), data, static_cast<std::uint32_t>(fits ? parity : 0), bytes);
  });
}

/* Lets signals request a stop, as gpuzip_catch_signals: without numbers SIGTERM and SIGUSR1. A program
 * requests a stop, and asks for one, with gpuzip_request_stop and gpuzip_stop_requested. */
inline void catch_signals(const std::vector<int> &signals = std::vector<int>(), status *out = nullptr) {
  const std::vector<std::int32_t> numbers(signals.begin(), signals.end());
  const auto count = static_cast<std::uint32_t>(numbers.size());
  detail::call(out, [&] { return gpuzip_catch_signals(numbers.empty() ? nullptr : numbers.data(), count); });
}

namespace detail {
/* The reduction over ranks that a session calls. As the first base it is there until the session is finalized. */
struct reduction {
  std::unique_ptr<persist_options> kept_options;
  std::vector<std::unique_ptr<persist_stage_function>> kept_stages;
};
}  // namespace detail

/* A session: one device of one application. `stream` is NULL on the host backend. */
class session : private detail::reduction, public detail::handle<gpuzip_t, gpuzip_finalize> {
 public:
  /* Makes an object without a session, until one is moved into it. */
  session() noexcept = default;
  /* Makes a session with a schedule of its own, as gpuzip_init. */
  session(const config &settings, std::int32_t steps, const const_field_list &fields, status *out = nullptr) {
    const gpuzip_config_t c = settings.c_config();
    detail::call(out, [&] { return gpuzip_init(&c, steps, fields.data(), detail::count(fields), &handle_); });
  }
  /* Makes a session that follows a schedule together with others, as gpuzip_attach. */
  session(const schedule &on, const config &settings, const const_field_list &fields, status *out = nullptr) {
    const gpuzip_config_t c = settings.c_config();
    detail::call(out, [&] { return gpuzip_attach(on.get(), &c, fields.data(), detail::count(fields), &handle_); });
  }
  /* Takes ownership of a handle of gpuzip.h. */
  explicit session(gpuzip_t *owned) noexcept { handle_ = owned; }

  /* Returns the schedule that the session follows, as a new handle. */
  schedule get_schedule(status *out = nullptr) {
    gpuzip_schedule_t *followed = nullptr;
    call(out, gpuzip_get_schedule, &followed);
    return schedule(followed);
  }

  /* Prepares a shot, as gpuzip_setup: moves back to before the first action and forgets all snapshots. */
  void setup(status *out = nullptr) { call(out, gpuzip_setup); }

  /* Gives the fields names for the texts of errors, as gpuzip_name_fields: {"u", "temperature"}. */
  void name_fields(const std::vector<std::string> &names, status *out = nullptr) {
    std::vector<const char *> texts;
    for (const std::string &name : names) texts.push_back(name.c_str());
    const char *none = nullptr;
    call(out, gpuzip_name_fields, texts.empty() ? &none : texts.data(), static_cast<std::uint32_t>(texts.size()));
  }

  /* Begins another reverse sweep over the same states after TERMINATE, as gpuzip_rewind. */
  void rewind(status *out = nullptr) { call(out, gpuzip_rewind); }

  /* Prepares a shot of another number of time steps, as gpuzip_setup_steps. */
  void setup_steps(std::int32_t steps, status *out = nullptr) { call(out, gpuzip_setup_steps, steps); }

  /* Ends the forward phase of a shot that began with steps = 0, as gpuzip_end_forward. */
  void end_forward(status *out = nullptr) { call(out, gpuzip_end_forward); }

  /* Moves to the next action and returns it, as gpuzip_get_action. A SAVE or RESTORE must be served
   * before the next call. */
  gpuzip_action_t get_action(status *out = nullptr) {
    gpuzip_action_t action = gpuzip_action_t();
    call(out, gpuzip_get_action, &action);
    return action;
  }

  /* Returns the action that get_action would give next, and changes nothing. */
  gpuzip_action_t peek_action(status *out = nullptr) {
    gpuzip_action_t action = gpuzip_action_t();
    call(out, gpuzip_peek_action, &action);
    return action;
  }

  /* Returns a number that is equal for schedules with equal actions, as gpuzip_fingerprint. */
  std::uint64_t fingerprint(status *out = nullptr) {
    std::uint64_t number = 0;
    call(out, gpuzip_fingerprint, &number);
    return number;
  }

  /* Gives all ranks one schedule, as gpuzip_agree: `least` returns the least of a value over
   * all ranks. A rank whose session could not be made calls agree on an empty session. */
  void agree(const std::function<std::int64_t(std::int64_t value)> &least, status *out = nullptr) {
    auto *user = const_cast<std::function<std::int64_t(std::int64_t)> *>(&least);
    call(out, gpuzip_agree, detail::agree_least, static_cast<void *>(user));
  }

  /* The actions that are left, to loop over once. */
  detail::action_range<session> actions() noexcept { return detail::action_range<session>(*this); }

  /* Moves the session to the current action, number `it`, of a schedule that several sessions follow,
   * as gpuzip_dispatch. */
  void dispatch(std::int64_t it, status *out = nullptr) { call(out, gpuzip_dispatch, it); }

  /* Saves u(ts), which `fields` hold, at the action SAVE of `ts`, as gpuzip_save. On a GPU the call
   * does not wait: the GPU reads the fields in the order of `stream`, a cudaStream_t. On the host
   * backend they have been read on return. */
  void save(std::int32_t ts, const const_field_list &fields, void *stream = nullptr, status *out = nullptr) {
    call(out, gpuzip_save, ts, fields.data(), detail::count(fields), stream);
  }

  /* Overwrites the memory of `fields` with u(ts) at the action RESTORE of `ts`, as gpuzip_retrieve. On
   * a GPU the call does not wait: the GPU writes the fields in the order of `stream`. On the host
   * backend they have been written on return. */
  void retrieve(std::int32_t ts, const field_list &fields, void *stream = nullptr, status *out = nullptr) {
    call(out, gpuzip_retrieve, ts, fields.data(), detail::count(fields), stream);
  }

  /* Writes u(ts), which `fields` hold, as files of NumPy into the folder `dir`, as gpuzip_export. A state
   * that this shot has written is not written again. On return the fields have been read. */
  void export_state(const std::string &dir, std::int32_t ts, const const_field_list &fields, void *stream = nullptr,
                    status *out = nullptr) {
    call(out, gpuzip_export, dir.c_str(), ts, fields.data(), detail::count(fields), stream);
  }

  /* Zero copy: returns the address of each of `count` fields, as gpuzip_save_begin. */
  std::vector<void *> save_begin(std::int32_t ts, std::size_t count, void *stream = nullptr, status *out = nullptr) {
    return handed(out, gpuzip_save_begin, ts, count, stream);
  }

  /* Saves u(ts), which work on `stream` has computed in the memory that save_begin returned, as
   * gpuzip_save_commit. */
  void save_commit(std::int32_t ts, void *stream = nullptr, status *out = nullptr) { call(out, gpuzip_save_commit, ts, stream); }

  /* Zero copy: returns the address of each of `count` fields, as gpuzip_retrieve_acquire. */
  std::vector<void *> retrieve_acquire(std::int32_t ts, std::size_t count, void *stream = nullptr, status *out = nullptr) {
    return handed(out, gpuzip_retrieve_acquire, ts, count, stream);
  }

  /* Gives the memory that retrieve_acquire returned back early, as gpuzip_retrieve_release. Optional:
   * without it the next save or retrieve does so. */
  void retrieve_release(std::int32_t ts, void *stream = nullptr, status *out = nullptr) {
    call(out, gpuzip_retrieve_release, ts, stream);
  }

  /* Runs the forward sweep of a shot, up to the first BACKWARD, as gpuzip_run_forward. */
  void run_forward(const callbacks &calls, const field_list &fields, void *stream = nullptr, status *out = nullptr) {
    const gpuzip_callbacks_t c = detail::c_callbacks(calls);
    call(out, gpuzip_run_forward, &c, fields.data(), detail::count(fields), stream);
  }

  /* Runs the rest of a shot, as gpuzip_run_reverse. */
  void run_reverse(const callbacks &calls, const field_list &fields, void *stream = nullptr, status *out = nullptr) {
    const gpuzip_callbacks_t c = detail::c_callbacks(calls);
    call(out, gpuzip_run_reverse, &c, fields.data(), detail::count(fields), stream);
  }

  /* Waits until all saves and retrieves so far have read and written their fields, as
   * gpuzip_synchronize. */
  void synchronize(status *out = nullptr) { call(out, gpuzip_synchronize); }

  /* Returns what was counted and measured since setup, as gpuzip_stats. */
  gpuzip_stats_t stats(status *out = nullptr) {
    gpuzip_stats_t numbers = detail::sized<gpuzip_stats_t>();
    call(out, gpuzip_stats, &numbers);
    return numbers;
  }

  /* Returns what the session has decided and takes, as gpuzip_summary. */
  gpuzip_summary_t summary(status *out = nullptr) {
    gpuzip_summary_t numbers = detail::sized<gpuzip_summary_t>();
    call(out, gpuzip_summary, &numbers);
    return numbers;
  }

  /* Opens the folder of restart files, as gpuzip_persist_open. */
  void persist_open(status *out = nullptr) { call(out, gpuzip_persist_open, nullptr); }

  /* The same for one of several ranks. `agree_min` returns the least of a value over all ranks; the
   * session keeps it. */
  void persist_open(std::int32_t rank, std::int32_t ranks, std::function<std::int64_t(std::int64_t value)> agree_min,
                    status *out = nullptr) {
    persist_open(persist_options{rank, ranks, std::move(agree_min)}, out);
  }

  /* The same with all options, which the session keeps. */
  void persist_open(persist_options options, status *out = nullptr) {
    auto kept = std::make_unique<persist_options>(std::move(options));
    gpuzip_persist_options_t c = detail::sized<gpuzip_persist_options_t>();
    c.rank = kept->rank;
    c.ranks = kept->ranks;
    if (kept->agree_min) c.agree_min = detail::persist_least;
    c.user = kept.get();
    if (call(out, gpuzip_persist_open, &c)) kept_options = std::move(kept);
  }

  /* Adds a stage, which the session keeps, as gpuzip_persist_stage_register. */
  void persist_stage(const std::string &name, std::int32_t priority, persist_stage_function run, status *out = nullptr) {
    auto kept = std::make_unique<persist_stage_function>(std::move(run));
    persist_stage_function *user = kept.get();
    kept_stages.push_back(std::move(kept));
    call(out, gpuzip_persist_stage_register, name.c_str(), priority, *user ? detail::persist_stage : nullptr, user);
  }

  /* Returns GPUZIP_DUE_*, as gpuzip_persist_due. */
  std::int32_t persist_due(status *out = nullptr) {
    std::int32_t due = GPUZIP_DUE_NO;
    call(out, gpuzip_persist_due, &due);
    return due;
  }

  /* Writes a generation, as gpuzip_persist_write. */
  void persist_write(std::int64_t shot, arrays &kept, void *stream = nullptr, status *out = nullptr) {
    const std::vector<gpuzip_array_t> &list = kept.list();
    call(out, gpuzip_persist_write, shot, list.data(), static_cast<std::uint32_t>(list.size()), stream);
  }

  /* Waits until the last generation is on the disk. */
  void persist_wait(status *out = nullptr) { call(out, gpuzip_persist_wait); }

  /* Puts the last generation into a folder, as gpuzip_persist_clone. */
  void persist_clone(const std::string &dir, status *out = nullptr) { call(out, gpuzip_persist_clone, dir.c_str()); }

  /* Returns the newest generation; its number is 0 if there is none. */
  gpuzip_generation_t persist_find(status *out = nullptr) {
    gpuzip_generation_t found = detail::sized<gpuzip_generation_t>();
    call(out, gpuzip_persist_find, &found);
    return found;
  }

  /* Goes on from the generation that persist_find found, as gpuzip_persist_read. */
  void persist_read(arrays &kept, void *stream = nullptr, status *out = nullptr) {
    const std::vector<gpuzip_array_t> &list = kept.list();
    call(out, gpuzip_persist_read, list.data(), static_cast<std::uint32_t>(list.size()), stream);
  }

  /* Measures a profile during the next shot, as gpuzip_autotune. */
  void autotune(status *out = nullptr) { call(out, gpuzip_autotune); }

  /* Returns the profile as bytes, to be broadcast or written to a file, as
   * gpuzip_profile_export. */
  std::vector<unsigned char> profile_export(status *out = nullptr) {
    std::vector<unsigned char> bytes;
    std::uint64_t size = 0;
    if (!call(out, gpuzip_profile_export, nullptr, std::uint64_t(), &size)) return bytes;
    bytes.resize(size);
    if (!call(out, gpuzip_profile_export, bytes.data(), bytes.size(), &size)) bytes.clear();
    return bytes;
  }

  /* Makes a new plan with a profile, between shots, as gpuzip_profile_import. */
  void profile_import(const std::vector<unsigned char> &bytes, status *out = nullptr) {
    call(out, gpuzip_profile_import, bytes.data(), bytes.size());
  }

  /* Gives the steps of each part of the sweep times of their own, and makes a new plan by them, as
   * gpuzip_profile_steps. An entry has the milliseconds of a forward and of a backward step. */
  void profile_steps(const std::vector<std::pair<double, double>> &times, status *out = nullptr) {
    std::vector<double> forward_ms, backward_ms;
    for (const std::pair<double, double> &part : times) {
      forward_ms.push_back(part.first);
      backward_ms.push_back(part.second);
    }
    call(out, gpuzip_profile_steps, static_cast<std::uint32_t>(times.size()), forward_ms.data(), backward_ms.data());
  }

  /* Frees the session now and reports a failure, which the destructor cannot do. */
  void finalize(status *out = nullptr) {
    detail::call(out, [&] { return gpuzip_finalize(release()); });
  }

 private:
  template <class Function, class... Arguments>
  bool call(status *out, Function function, Arguments... arguments) {
    return detail::call(out, [&] { return function(handle_, arguments...); });
  }
  template <class Function>
  std::vector<void *> handed(status *out, Function function, std::int32_t ts, std::size_t count, void *stream) {
    std::vector<void *> data(count);
    if (!call(out, function, ts, data.data(), static_cast<std::uint32_t>(count), stream)) data.clear();
    return data;
  }
};

/* Chooses error_bound from the error of the result, as gpuzip_quality_open and `config.quality` say. */
class quality : public detail::handle<gpuzip_quality_t, gpuzip_quality_close> {
 public:
  /* Makes an empty object, until another one is moved into it. */
  quality() noexcept = default;
  /* Begins to choose `error_bound` as `settings.quality` asks, as gpuzip_quality_open. `settings` is
   * copied. */
  explicit quality(const config &settings, status *out = nullptr) : given_(settings) {
    const gpuzip_config_t c = given_.c_config();
    detail::call(out, [&] { return gpuzip_quality_open(&c, &handle_); });
  }

  /* Sets `run` to the configuration of the next run, and returns whether its result is wanted, as
   * gpuzip_quality_next. */
  bool next(config &run, status *out = nullptr) {
    gpuzip_config_t c;
    std::int32_t wanted = 0;
    if (!detail::call(out, [&] { return gpuzip_quality_next(handle_, &c, &wanted); })) return false;
    run = given_;
    run.quality.clear();
    static_cast<gpuzip_config_t &>(run) = c;
    return wanted != 0;
  }

  /* Takes the result of the run, as gpuzip_quality_result. */
  void result(const const_field_list &fields, status *out = nullptr) {
    detail::call(out, [&] { return gpuzip_quality_result(handle_, fields.data(), detail::count(fields)); });
  }

  /* Takes this rank's part of the result, as gpuzip_quality_compare: 3 sums and 2 maxima for each field. */
  void compare(const const_field_list &fields, std::vector<double> &sums, std::vector<double> &maxima, status *out = nullptr) {
    sums.resize(3 * fields.size());
    maxima.resize(2 * fields.size());
    detail::call(out, [&] { return gpuzip_quality_compare(handle_, fields.data(), detail::count(fields), sums.data(), maxima.data()); });
  }

  /* Judges the run by the sums and maxima of all ranks, as gpuzip_quality_judge. */
  void judge(const std::vector<double> &sums, const std::vector<double> &maxima, status *out = nullptr) {
    const std::uint32_t fields = static_cast<std::uint32_t>((std::min)(sums.size() / 3, maxima.size() / 2));
    detail::call(out, [&] { return gpuzip_quality_judge(handle_, sums.data(), maxima.data(), fields); });
  }

  /* Begins to measure another shot, as gpuzip_quality_check. */
  void check(status *out = nullptr) {
    detail::call(out, [&] { return gpuzip_quality_check(handle_); });
  }

  /* Returns what was measured and chosen so far, as gpuzip_quality_info. */
  gpuzip_quality_info_t info(status *out = nullptr) {
    gpuzip_quality_info_t told = detail::sized<gpuzip_quality_info_t>();
    detail::call(out, [&] { return gpuzip_quality_info(handle_, &told); });
    return told;
  }

 private:
  config given_;
};

/* Returns what a session would decide and take, as gpuzip_memory_required. */
inline gpuzip_summary_t memory_required(const config &settings, std::int32_t steps, const const_field_list &fields, status *out = nullptr) {
  gpuzip_summary_t numbers = detail::sized<gpuzip_summary_t>();
  const gpuzip_config_t c = settings.c_config();
  detail::call(out, [&] { return gpuzip_memory_required(&c, steps, fields.data(), detail::count(fields), &numbers); });
  return numbers;
}

/* Describes a profile and its codec number `index`, as gpuzip_profile_info. */
inline gpuzip_profile_info_t profile_info(const std::vector<unsigned char> &bytes, std::uint32_t index = 0, status *out = nullptr) {
  gpuzip_profile_info_t info = detail::sized<gpuzip_profile_info_t>();
  detail::call(out, [&] { return gpuzip_profile_info(bytes.data(), bytes.size(), index, &info); });
  return info;
}

/* Compresses arrays into one stream, as gpuzip_codec_compress. */
inline std::vector<unsigned char> compress(const config &settings, const const_field_list &fields, status *out = nullptr) {
  std::vector<unsigned char> stream;
  const gpuzip_config_t c = settings.c_config();
  std::uint64_t bytes = 0;
  if (!detail::call(out, [&] { return gpuzip_codec_bound(&c, fields.data(), detail::count(fields), &bytes); })) return stream;
  stream.resize(bytes);
  const auto compressed = [&] { return gpuzip_codec_compress(&c, fields.data(), detail::count(fields), stream.data(), stream.size(), &bytes); };
  stream.resize(detail::call(out, compressed) ? bytes : 0);
  return stream;
}

/* Decompresses a stream into arrays, as gpuzip_codec_decompress. */
inline void decompress(const std::vector<unsigned char> &stream, const field_list &fields, status *out = nullptr) {
  detail::call(out, [&] { return gpuzip_codec_decompress(stream.data(), stream.size(), fields.data(), detail::count(fields)); });
}

/* Describes array number `index` of a stream, as gpuzip_codec_info. */
inline gpuzip_codec_info_t codec_info(const std::vector<unsigned char> &stream, std::uint32_t index, status *out = nullptr) {
  gpuzip_codec_info_t info = detail::sized<gpuzip_codec_info_t>();
  detail::call(out, [&] { return gpuzip_codec_info(stream.data(), stream.size(), index, &info); });
  return info;
}

/* Bytes of device memory for encode and decode: room for the stream, and work space. */
struct device_sizes {
  std::uint64_t coded, work;
};

/* Returns the device memory that encode and decode need, as gpuzip_codec_bound and gpuzip_codec_work. */
inline device_sizes codec_sizes(const config &settings, const const_field_list &fields, status *out = nullptr) {
  device_sizes sizes = {0, 0};
  const gpuzip_config_t c = settings.c_config();
  const std::uint32_t count = detail::count(fields);
  if (!detail::call(out, [&] { return gpuzip_codec_bound(&c, fields.data(), count, &sizes.coded); })) return sizes;
  detail::call(out, [&] { return gpuzip_codec_work(&c, fields.data(), count, &sizes.work); });
  return sizes;
}

/* Compresses arrays in device memory, as gpuzip_codec_encode; `coded` and `work` have these `sizes`. */
inline void encode(const config &settings, const const_field_list &fields, const device_sizes &sizes, void *coded, void *work,
                   gpuzip_codec_result_t *result, void *stream = nullptr, status *out = nullptr) {
  const gpuzip_config_t c = settings.c_config();
  detail::call(out, [&] {
    return gpuzip_codec_encode(&c, fields.data(), detail::count(fields), coded, sizes.coded, work, sizes.work, result, stream);
  });
}

/* Decompresses a stream into arrays in device memory, as gpuzip_codec_decode. */
inline void decode(const config &settings, const void *coded, const field_list &fields, const device_sizes &sizes, void *work,
                   gpuzip_codec_result_t *result, void *stream = nullptr, status *out = nullptr) {
  const gpuzip_config_t c = settings.c_config();
  detail::call(out, [&] {
    return gpuzip_codec_decode(&c, coded, sizes.coded, fields.data(), detail::count(fields), work, sizes.work, result, stream);
  });
}

/* The functions of a codec for arrays in device memory, device_* of gpuzip_codec_plugin_t: they enqueue
 * work on `stream`, and throw where they cannot. */
class device_codec {
 public:
  virtual ~device_codec() = default;
  /* Returns the bytes of device memory that the other functions need at `work`. */
  virtual std::uint64_t work(const gpuzip_field_t &) { return 0; }
  /* Enqueues the compression of an array into `to`, which has room for `capacity` bytes. The kernels
   * read `job->bound` and set `job->bytes` or `job->status`. `rms`: the bound is one of the root mean
   * square of the error, not of its maximum. */
  virtual void compress(const gpuzip_field_t &field, bool rms, void *to, std::uint64_t capacity, gpuzip_codec_job_t *job,
                        void *work, void *stream) = 0;
  /* Enqueues the decompression of the `job->bytes` bytes at `from`, which compress wrote, into the
   * array. */
  virtual void decompress(const void *from, std::uint64_t capacity, const gpuzip_field_t &field, gpuzip_codec_job_t *job,
                          void *work, void *stream) = 0;
};

/* A codec of the application. The functions are those of gpuzip_codec_plugin_t; several threads
 * may call them at a time. An exception that a function throws fails the library call that
 * called it, and leaves that call. */
class codec {
 public:
  virtual ~codec() = default;
  /* Returns the most bytes that compress writes for an array of this shape. */
  virtual std::uint64_t max_bytes(const gpuzip_field_t &field) = 0;
  /* Compresses into `to` and returns the bytes written; -1 if the array is to be stored
   * uncompressed. */
  virtual std::int64_t compress(const gpuzip_field_t &field, bool rms, double bound, void *to, std::uint64_t capacity) = 0;
  /* Decompresses what compress wrote into the array. */
  virtual void decompress(const void *from, std::uint64_t bytes, const gpuzip_field_t &field) = 0;
  /* Returns the functions for device memory, always the same, or nullptr: the codec is one of the host. */
  virtual device_codec *on_device() { return nullptr; }
};

namespace detail {

inline std::uint64_t codec_max_bytes(void *user, const gpuzip_field_t *field) {
  std::uint64_t bytes = 0;
  guarded(1, [&] { return bytes = static_cast<codec *>(user)->max_bytes(*field), 0; });
  return bytes;
}
inline std::int32_t codec_compress(void *user, const gpuzip_field_t *field, std::int32_t rms, double bound, void *to,
                                   std::uint64_t capacity, std::uint64_t *bytes) {
  return guarded(-1, [&] {
    const std::int64_t written = static_cast<codec *>(user)->compress(*field, rms != 0, bound, to, capacity);
    *bytes = written < 0 ? 0 : static_cast<std::uint64_t>(written);
    return written < 0 ? 1 : 0;
  });
}
inline std::int32_t codec_decompress(void *user, const void *from, std::uint64_t bytes, const gpuzip_field_t *field) {
  return guarded(-1, [&] { return static_cast<codec *>(user)->decompress(from, bytes, *field), 0; });
}
inline std::uint64_t codec_device_work(void *user, const gpuzip_field_t *field) {
  std::uint64_t bytes = 0;
  guarded(1, [&] { return bytes = static_cast<codec *>(user)->on_device()->work(*field), 0; });
  return bytes;
}
inline std::int32_t codec_device_compress(void *user, const gpuzip_field_t *field, std::int32_t rms, void *to,
                                          std::uint64_t capacity, gpuzip_codec_job_t *job, void *work, void *stream) {
  return guarded(-1, [&] {
    return static_cast<codec *>(user)->on_device()->compress(*field, rms != 0, to, capacity, job, work, stream), 0;
  });
}
inline std::int32_t codec_device_decompress(void *user, const void *from, std::uint64_t capacity, const gpuzip_field_t *field,
                                            gpuzip_codec_job_t *job, void *work, void *stream) {
  return guarded(-1, [&] {
    return static_cast<codec *>(user)->on_device()->decompress(from, capacity, *field, job, work, stream), 0;
  });
}

}  // namespace detail

/* Registers a codec for the rest of the process, as gpuzip_codec_register: the process owns the
 * codec from then on. Returns the codec's number for `config.compressor`. */
inline std::int32_t register_codec(const std::string &name, std::unique_ptr<codec> added, status *out = nullptr) {
  gpuzip_codec_plugin_t plugin = detail::sized<gpuzip_codec_plugin_t>();
  std::int32_t compressor = 0;
  plugin.name = name.c_str();
  plugin.user = added.get();
  if (added != nullptr) {
    plugin.max_bytes = detail::codec_max_bytes;
    plugin.compress = detail::codec_compress;
    plugin.decompress = detail::codec_decompress;
    if (added->on_device() != nullptr) {
      plugin.device_compress = detail::codec_device_compress;
      plugin.device_decompress = detail::codec_device_decompress;
      plugin.device_work = detail::codec_device_work;
    }
  }
  if (detail::call(out, [&] { return gpuzip_codec_register(&plugin, &compressor); })) added.release();
  return compressor;
}

}  // namespace gpuzip

#endif
