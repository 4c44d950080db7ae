// The model application of the drop-in tests: a small wave equation on several "devices", and a
// shot through the drop-in headers whose adjoint is compared, bit for bit, with that of a run that
// keeps every state.
#ifndef GPUZIP_TESTS_CXX_SWEEP_HPP
#define GPUZIP_TESTS_CXX_SWEEP_HPP

#include "checkpointing/Checkpointing.hpp"
#include "common/GPUZIPBuilders.cpp"
#include "common/GPUZIPConfig.h"
#include "prefetch/Prefetch.cuh"

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

/// u'' = c^2 u_xx on a line with fixed ends, by leapfrog, and an adjoint whose bits depend on the
/// order of the steps.
template <typename Real>
struct Device {
  std::vector<Real> curr, prev, adjoint;

  void start(std::size_t values, int shot, int device) {
    curr.assign(values, Real(0));
    prev.assign(values, Real(0));
    adjoint.assign(values, Real(1));
    curr[(values / 3 + static_cast<std::size_t>(shot + 2 * device)) % values] = Real(1) + Real(shot) / Real(3);
  }

  void forward() {
    const std::size_t n = curr.size();
    for (std::size_t i = 0; i < n; i++) {
      const Real left = i > 0 ? curr[i - 1] : Real(0), right = i + 1 < n ? curr[i + 1] : Real(0);
      prev[i] = Real(2) * curr[i] - prev[i] + Real(0.3) * (left - Real(2) * curr[i] + right);
    }
    curr.swap(prev);
  }

  void backward(int ts) {
    for (std::size_t i = 0; i < curr.size(); i++) adjoint[i] = Real(0.75) * adjoint[i] + curr[i] * curr[i] - Real(ts + 1) * prev[i];
  }

  /// Overwrites the state after a BACKWARD: the schedule must not need it any more.
  void spoil() {
    curr.assign(curr.size(), Real(-1e30));
    prev.assign(prev.size(), Real(1e30));
  }
};

template <typename Real>
std::vector<Real> store_everything(std::size_t values, int steps, int shot, int device) {
  Device<Real> d;
  d.start(values, shot, device);
  std::vector<Device<Real>> states;
  for (int ts = 0; ts < steps; ts++) {
    states.push_back(d);
    d.forward();
  }
  for (int ts = steps - 1; ts >= 0; ts--) {
    states[static_cast<std::size_t>(ts)].adjoint = d.adjoint;
    states[static_cast<std::size_t>(ts)].backward(ts);
    d.adjoint = states[static_cast<std::size_t>(ts)].adjoint;
  }
  return d.adjoint;
}

/// The calls that prepare a shot, in their order; Setup alone is enough.
enum class Order { setup_reset, reset_setup, setup };

/// How a Prefetch learns the shape of the fields: from extents, from a number of bytes, or from the
/// first Save. The builders differ accordingly.
enum class Build { extents, bytes, first_save };

/// An application with one schedule and one Prefetch per device.
template <typename Real>
class Application {
 public:
  Application(const gpuzip_config_t &config, int steps, int devices, std::size_t n1, std::size_t n2, Build build = Build::extents)
      : n1_(n1), n2_(n2), build_(build), schedule_(GPUZIPBuilders::CheckpointingBuilder(&config, steps)), device_(static_cast<std::size_t>(devices)) {
    for (int d = 0; d < devices; d++) prefetch_.emplace_back(make(config, steps));
  }

  /// Runs one shot. Returns whether all adjoints equal those of store_everything and no call
  /// changed a Field_t.
  bool shot(int number, Order order = Order::setup_reset) {
    if (order == Order::reset_setup) schedule_->Reset();
    for (std::size_t d = 0; d < device_.size(); d++) {
      prefetch_[d]->Setup();
      device_[d].start(n1_ * n2_, number, static_cast<int>(d));
    }
    bool good = schedule_->GetIt() == -1;
    if (order == Order::setup_reset) schedule_->Reset();
    for (int it = 0;; it++) {
      const Action action = schedule_->GetAction();
      good = good && schedule_->GetIt() == it;
      for (std::size_t d = 0; d < device_.size(); d++) good = follow(d, action) && good;
      if (action.actionType == ACTION_TERMINATE) break;
    }
    for (std::size_t d = 0; d < device_.size(); d++) {
      const std::vector<Real> expected = store_everything<Real>(n1_ * n2_, schedule_->GetSteps(), number, static_cast<int>(d));
      good = good && std::memcmp(expected.data(), device_[d].adjoint.data(), expected.size() * sizeof(Real)) == 0;
    }
    return good;
  }

  Checkpointing &schedule() { return *schedule_; }
  Prefetch &prefetch(std::size_t d) { return *prefetch_[d]; }

 private:
  Prefetch *make(const gpuzip_config_t &config, int steps) const {
    if (build_ == Build::bytes) return PrefetchBuilder(&config, n1_ * n2_ * sizeof(Real), steps, schedule_.get());
    if (build_ == Build::first_save) return PrefetchBuilder(&config, steps, schedule_.get());
    return GPUZIPBuilders::PrefetchBuilder(&config, n1_, n2_, 1, steps, schedule_.get());
  }

  Field_t field(std::vector<Real> &values) const {
    Field_t field;
    std::memset(&field, 0, sizeof field);
    field.data = values.data();
    field.size = values.size() * sizeof(Real);
    field.n1 = n1_;
    field.n2 = n2_;
    field.n3 = 1;
    return field;
  }

  bool follow(std::size_t d, Action action) {
    Device<Real> &device = device_[d];
    const bool late = d % 2 == 1;  // some devices dispatch after the action's work
    if (!late) prefetch_[d]->Dispatch(schedule_->GetIt());
    Field_t curr = field(device.curr), prev = field(device.prev);
    const Field_t before[2] = {curr, prev};
    if (action.actionType == ACTION_SAVE) prefetch_[d]->Save(action.ts, &curr, &prev);
    if (action.actionType == ACTION_RESTORE) prefetch_[d]->Retrieve(action.ts, &curr, &prev);
    const bool untouched = std::memcmp(&before[0], &curr, sizeof curr) == 0 && std::memcmp(&before[1], &prev, sizeof prev) == 0;
    if (action.actionType == ACTION_FORWARD) device.forward();
    if (action.actionType == ACTION_BACKWARD) {
      device.backward(action.ts);
      device.spoil();
    }
    if (late) prefetch_[d]->Dispatch(schedule_->GetIt());
    return untouched;
  }

  std::size_t n1_, n2_;
  Build build_;
  std::unique_ptr<Checkpointing> schedule_;
  std::vector<std::unique_ptr<Prefetch>> prefetch_;
  std::vector<Device<Real>> device_;
};

#endif
