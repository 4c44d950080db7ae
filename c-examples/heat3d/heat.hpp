// Heat conduction in a block of concrete, its tangent and its adjoint, in discrete form.
//
// rho c dT/dt = div(kappa (1 + BETA T) grad T) + heating, where T is the temperature above that of the room.
// The block is insulated on all sides. Finite volumes, explicit Euler steps:
//
//   T(t+1)_a = T(t)_a + sum over neighbours b of  c_ab (theta(T(t)_b) - theta(T(t)_a))  + heating
//
// with theta(T) = T + BETA T^2 / 2 (the Kirchhoff transform), c_ab = dt kappa_ab / (rho c dx^2), and the
// harmonic mean kappa_ab of kappa_a and kappa_b. A step is nonlinear in T, and in the control
// m = log(kappa / KAPPA).
#ifndef HEAT3D_HEAT_HPP
#define HEAT3D_HEAT_HPP

#include <gpuzip.hpp>

#include <array>
#include <cmath>
#include <span>
#include <vector>

using Values = std::vector<double>;

class Block {
 public:
  static constexpr double DX = 0.01;       // side of a cell in m
  static constexpr double RHO_C = 2e6;     // heat capacity in J / (m^3 K)
  static constexpr double KAPPA = 1.5;     // conductivity of concrete in W / (m K)
  static constexpr double FASTEST = 6.0;   // largest conductivity for which steps are stable, in W / (m K)
  static constexpr double BETA = -1e-3;    // change of the conductivity with the temperature in 1 / K
  static constexpr double FLUX = 10000.0;  // of a heater in W / m^2
  static constexpr double DT = RHO_C * DX * DX / (6.0 * FASTEST);  // time step in s

  const std::size_t n1, n2, n3, cells, steps;  // n1 is the fastest index, n3 the depth
  std::vector<std::size_t> thermometers;       // the cells in which they are

  Block(std::size_t n1_, std::size_t n2_, std::size_t n3_, std::size_t steps_)
      : n1(n1_), n2(n2_), n3(n3_), cells(n1 * n2 * n3), steps(steps_), kappa(cells, KAPPA) {
    for (Values &each : c) each.assign(cells, 0.0);
    for (std::size_t k : {n3 / 4, 3 * n3 / 4})
      for (std::size_t j : {n2 / 6, n2 / 2, 5 * n2 / 6})
        for (std::size_t i : {n1 / 6, n1 / 2, 5 * n1 / 6}) thermometers.push_back(i + n1 * (j + n2 * k));
  }

  // The field of a state, or of other values of all cells.
  auto field(auto &values) const { return gpuzip::field(values.data(), n1, n2, n3); }

  // Sets the conductivity to KAPPA exp(m).
  void set_model(std::span<const double> m) {
    for (std::size_t a = 0; a < cells; a++) kappa[a] = KAPPA * std::exp(m[a]);
    for (std::size_t a = 0; a < cells; a++)
      for (std::size_t axis = 0; axis < 3; axis++) {
        const std::size_t b = a + stride(axis);
        if (b < cells)  // the last cell of a row has a value that nobody reads
          c[axis][a] = DT / (RHO_C * DX * DX) * 2.0 * kappa[a] * kappa[b] / (kappa[a] + kappa[b]);
      }
  }

  // Computes T(ts+1) from T(ts).
  void step(std::span<const double> T, std::span<double> next, std::size_t ts) const {
    for_cells([&](std::size_t a, const auto &faces) {
      double change = heating(a, ts);
      faces([&](std::size_t b, double c_ab) { change += c_ab * (theta(T[b]) - theta(T[a])); });
      next[a] = T[a] + change;
    });
  }

  // Computes the change dnext of T(ts+1) that changes dT of T(ts) and dm of the control lead to.
  void tangent_step(std::span<const double> T, std::span<const double> dT, std::span<const double> dm,
                    std::span<double> dnext) const {
    for_cells([&](std::size_t a, const auto &faces) {
      double change = dT[a];
      faces([&](std::size_t b, double c_ab) {
        const double dc = c_ab * (kappa[b] * dm[a] + kappa[a] * dm[b]) / (kappa[a] + kappa[b]);
        change += c_ab * (dtheta(T[b]) * dT[b] - dtheta(T[a]) * dT[a]) + dc * (theta(T[b]) - theta(T[a]));
      });
      dnext[a] = change;
    });
  }

  // The adjoint of tangent_step: computes lambda(ts) from lambda(ts+1), and adds to the gradient. Each cell
  // adds up its own faces, so that the bits do not depend on the number of threads.
  void adjoint_step(std::span<const double> T, std::span<const double> lambda, std::span<double> before,
                    std::span<double> gradient) const {
    for_cells([&](std::size_t a, const auto &faces) {
      double flow = 0.0;
      faces([&](std::size_t b, double c_ab) {
        const double difference = c_ab * (lambda[b] - lambda[a]);
        flow += difference;
        gradient[a] -= difference * (theta(T[b]) - theta(T[a])) * kappa[b] / (kappa[a] + kappa[b]);
      });
      before[a] = lambda[a] + dtheta(T[a]) * flow;
    });
  }

  // Spreads the value of each cell over the cells within some centimetres: diffusion over `passes` steps. The
  // operator is symmetric and positive definite.
  Values smoothed(Values values, std::size_t passes) const {
    Values next(cells);
    for (; passes > 0; passes--, values.swap(next))
      for_cells([&](std::size_t a, const auto &faces) {
        double flow = 0.0;
        faces([&](std::size_t b, double) { flow += values[b] - values[a]; });
        next[a] = values[a] + flow / 12.0;
      });
    return values;
  }

 private:
  Values kappa;             // of each cell, at the temperature of the room
  std::array<Values, 3> c;  // c_ab of a cell a and the next cell b along an axis

  static double theta(double T) { return T + 0.5 * BETA * T * T; }
  static double dtheta(double T) { return 1.0 + BETA * T; }
  std::size_t stride(std::size_t axis) const { return axis == 0 ? 1 : axis == 1 ? n1 : n1 * n2; }

  // Four heaters on the surface, one on each quarter of it, heat one after the other. Returns the rise of
  // the temperature of a cell in a time step.
  double heating(std::size_t a, std::size_t ts) const {
    if (a >= n1 * n2) return 0.0;
    const std::size_t quarter = (a % n1 < n1 / 2 ? 0 : 1) + (a / n1 < n2 / 2 ? 0 : 2);
    return quarter == 4 * ts / steps ? DT * FLUX / (RHO_C * DX) : 0.0;
  }

  // Calls body(a, faces) for each cell a; faces(f) calls f(b, c_ab) for each neighbour b.
  template <class Body>
  void for_cells(const Body &body) const {
#pragma omp parallel for collapse(2) schedule(static)
    for (std::size_t k = 0; k < n3; k++)
      for (std::size_t j = 0; j < n2; j++)
        for (std::size_t i = 0; i < n1; i++) {
          const std::size_t a = i + n1 * (j + n2 * k), at[] = {i, j, k}, n[] = {n1, n2, n3};
          body(a, [&](const auto &face) {
            for (std::size_t axis = 0; axis < 3; axis++) {
              const std::size_t s = stride(axis);
              if (at[axis] > 0) face(a - s, c[axis][a - s]);
              if (at[axis] + 1 < n[axis]) face(a + s, c[axis][a]);
            }
          });
        }
  }
};

#endif
