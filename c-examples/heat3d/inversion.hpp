// The inversion: misfit, gradient by the adjoint with the states of gpuzip or with every state kept, and a
// gradient method.
#ifndef HEAT3D_INVERSION_HPP
#define HEAT3D_INVERSION_HPP

#include "heat.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <utility>

// What enters the adjoint for each reading. Readings are in the order of time steps: all thermometers in T(1),
// all in T(2), ..., all in T(n).
using Source = std::function<double(std::size_t index)>;

inline double dot(const Values &a, const Values &b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Returns m + length * along.
inline Values moved(Values m, double length, const Values &along) {
  for (std::size_t a = 0; a < m.size(); a++) m[a] += length * along[a];
  return m;
}

// A forward and a reverse sweep: all but the order of the steps, and where states are kept.
struct Run {
  const Block &block;
  Values T, next, lambda, gradient, readings;

  explicit Run(const Block &of)
      : block(of), T(of.cells), next(T), lambda(T), gradient(T), readings(of.steps * of.thermometers.size()) {}

  void begin() {
    for (Values *each : {&T, &lambda, &gradient}) std::ranges::fill(*each, 0.0);
  }
  void forward(std::size_t ts) {  // T becomes T(ts)
    block.step(T, next, ts - 1);
    T.swap(next);
  }
  void record(std::size_t ts, const Values &of) {
    const std::size_t count = block.thermometers.size();
    for (std::size_t s = 0; s < count; s++) readings[(ts - 1) * count + s] = of[block.thermometers[s]];
  }
  void backward(std::size_t ts, const Source &source) {  // T is T(ts)
    const std::size_t count = block.thermometers.size();
    if (ts + 1 == block.steps) {  // no FORWARD computes T(n)
      block.step(T, next, ts);
      record(ts + 1, next);
    }
    for (std::size_t s = 0; s < count; s++) lambda[block.thermometers[s]] += source(ts * count + s);
    block.adjoint_step(T, lambda, next, gradient);
    lambda.swap(next);
  }
};

// The reference: every state is kept, without gpuzip.
inline void run_kept(Run &run, const Source &source) {
  std::vector<Values> kept = {run.T};
  for (std::size_t ts = 1; ts < run.block.steps; ts++) {
    run.forward(ts);
    run.record(ts, run.T);
    kept.push_back(run.T);
  }
  for (std::size_t ts = run.block.steps; ts-- > 0;) {
    run.T = kept[ts];
    run.backward(ts, source);
  }
}

inline void run_checkpointed(gpuzip::session &session, Run &run, const Source &source) {
  session.setup();
  for (const gpuzip_action_t &action : session.actions()) {
    const auto ts = static_cast<std::size_t>(action.ts);
    switch (action.type) {
    case GPUZIP_ACTION_FORWARD:
      run.forward(ts);
      if (!(action.flags & GPUZIP_FLAG_RECOMPUTE)) run.record(ts, run.T);
      break;
    case GPUZIP_ACTION_SAVE: session.save(action.ts, {run.block.field(std::as_const(run.T))}); break;
    case GPUZIP_ACTION_RESTORE: session.retrieve(action.ts, {run.block.field(run.T)}); break;
    case GPUZIP_ACTION_BACKWARD: run.backward(ts, source); break;
    }
  }
}

// J(m) = dt/2 sum (readings - measured)^2 over all time steps and thermometers, in K^2 s.
class Inversion {
 public:
  static constexpr double NOISE = 0.1;          // largest error of a measurement in K
  static constexpr std::size_t SMOOTHING = 24;  // passes: over some 2 cells

  Block block;
  Values measured;
  gpuzip::session session;  // if empty, every state is kept

  // Makes synthetic measurements of a block with the control `truth`.
  Inversion(const Block &of, const Values &truth) : block(of), run(block) {
    std::mt19937 random(1);
    measured = readings(truth);
    for (double &each : measured) each += NOISE * (2.0 * static_cast<double>(random()) / 4294967295.0 - 1.0);
  }
  Inversion(const Inversion &) = delete;

  double misfit(const Values &m) { return misfit_of(readings(m)); }

  // The root mean square of the residuals, in K.
  double residuals(double misfit) const {
    return std::sqrt(2.0 * misfit / (Block::DT * static_cast<double>(measured.size())));
  }

  // Returns the change of the readings that a change dm of the control m leads to.
  Values tangent(const Values &m, std::span<const double> dm) {
    Values dT(block.cells, 0.0), dnext(block.cells), changes;
    block.set_model(m);
    run.begin();
    for (std::size_t ts = 0; ts < block.steps; ts++) {
      block.tangent_step(run.T, dT, dm, dnext);
      dT.swap(dnext);
      run.forward(ts + 1);
      for (std::size_t cell : block.thermometers) changes.push_back(dT[cell]);
    }
    return changes;
  }

  // Returns the product of the adjoint of `tangent` and a source.
  const Values &adjoint(const Values &m, const Source &source) {
    block.set_model(m);
    run.begin();
    session ? run_checkpointed(session, run, source) : run_kept(run, source);
    return run.gradient;
  }

  // Sets g to the gradient of J at m, and returns J(m).
  double gradient(const Values &m, Values &g) {
    g = adjoint(m, [this](std::size_t i) { return Block::DT * (run.readings[i] - measured[i]); });
    return misfit_of(run.readings);
  }

  // Descends from m, where J has the value `misfit` and the gradient g, along the smoothed gradient, since the
  // measurements say nothing of single cells. The step lengths are those of Barzilai and Borwein (1988), halved
  // until J falls, also where steps for a trial are unstable. Returns the last J.
  double descend(Values &m, Values g, double misfit, std::size_t iterations) {
    Values along = block.smoothed(g, SMOOTHING);
    double length = 0.3 / std::abs(std::ranges::max(along, {}, [](double x) { return std::abs(x); }));
    for (std::size_t i = 1; i <= iterations; i++) {
      Values next = moved(m, -length, along), next_g;
      for (int halved = 0; !(this->misfit(next) < misfit); halved++, next = moved(m, -(length *= 0.5), along))
        if (halved == 40) return misfit;
      misfit = gradient(next, next_g);
      length *= dot(g, along) / std::abs(dot(along, moved(next_g, -1.0, g)));
      m.swap(next);
      g.swap(next_g);
      along = block.smoothed(g, SMOOTHING);
      std::printf("iteration %-3zu misfit %.6e K^2 s, residuals %.4f K\n", i, misfit, residuals(misfit));
    }
    return misfit;
  }

 private:
  Run run;

  Values readings(const Values &m) {
    block.set_model(m);
    run.begin();
    for (std::size_t ts = 1; ts <= block.steps; ts++) {
      run.forward(ts);
      run.record(ts, run.T);
    }
    return run.readings;
  }
  double misfit_of(const Values &of) const {
    const Values residual = moved(of, -1.0, measured);
    return 0.5 * Block::DT * dot(residual, residual);
  }
};

#endif
