// heat3d: inverse heat conduction. Heaters on the surface of a block of concrete warm it, and thermometers in
// the block measure temperatures. A gradient method (inversion.hpp), with the gradient of the misfit by the
// adjoint (heat.hpp), finds a map of the conductivity. The measurements are synthetic: this code computes them,
// on the same grid, for a block with two foreign bodies, and adds noise.
#include "inversion.hpp"

#include <gpuzip_gradient.h>

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

extern "C" {
#include "new_file.h"
#include "plot.h"
}

namespace {

// What the callbacks of the tests need.
struct Tested {
  Inversion &inversion;
  const Values &m, &direction;
};

// Tests the adjoint by the tangent model, and the gradient by misfits, for a control that differs from cell to
// cell. Returns whether both pass.
bool test(Inversion &inversion) {
  Values m(inversion.block.cells), direction(m), g, x(m), aty(m), y(inversion.measured.size()), ax(y);
  for (std::size_t a = 0; a < m.size(); a++) {
    m[a] = 0.3 * std::cos(0.7 * static_cast<double>(a));
    direction[a] = 0.3 + std::sin(0.37 * static_cast<double>(a));
  }
  Tested tested = {inversion, m, direction};
  const auto forward = [](void *user, const double *from, double *to) {
    const Tested &t = *static_cast<Tested *>(user);
    std::ranges::copy(t.inversion.tangent(t.m, {from, t.m.size()}), to);
  };
  const auto adjoint = [](void *user, const double *from, double *to) {
    const Tested &t = *static_cast<Tested *>(user);
    std::ranges::copy(t.inversion.adjoint(t.m, [from](std::size_t i) { return from[i]; }), to);
  };
  const auto changed = [](void *user, double h) {
    const Tested &t = *static_cast<Tested *>(user);
    return t.inversion.misfit(moved(t.m, h, t.direction));
  };
  const gpuzip_dot_t dots =
      gpuzip_dot_test(forward, adjoint, &tested, x.data(), aty.data(), x.size(), y.data(), ax.data(), y.size(), 1e-12);
  gpuzip_dot_print(&dots, stdout);
  gpuzip_taylor_t taylor = {};
  taylor.high = 2.1;
  const double misfit = inversion.gradient(m, g);
  gpuzip_taylor(&taylor, changed, &tested, misfit, dot(g, direction), 0.05);
  gpuzip_taylor_print(&taylor, stdout);
  return dots.passed && taylor.passed;
}

// Two foreign bodies: one conducts 2.5 times as well as concrete, the other 0.4 times as well.
Values foreign_bodies(const Block &block) {
  Values m(block.cells, 0.0);
  const auto inside = [](std::size_t i, std::size_t n, std::size_t from, std::size_t to) {  // in hundredths of n
    return 100 * i >= from * n && 100 * i < to * n;
  };
  for (std::size_t a = 0; a < block.cells; a++) {
    const std::size_t i = a % block.n1, j = a / block.n1 % block.n2, k = a / (block.n1 * block.n2);
    if (!inside(j, block.n2, 30, 70) || !inside(k, block.n3, 20, 60)) continue;
    if (inside(i, block.n1, 15, 40)) m[a] = std::log(2.5);
    if (inside(i, block.n1, 60, 85)) m[a] = std::log(0.4);
  }
  return m;
}

// Draws the vertical slice through the middle of the block.
void draw(const Block &block, const std::string &path, const char *title, const Values &values, axis_t grey,
          const std::string &note) {
  const std::size_t row = block.n1, plane = row * block.n2;
  std::vector<float> cells;
  for (std::size_t k = 0; k < block.n3; k++)
    for (std::size_t i = 0; i < row; i++)
      cells.push_back(static_cast<float>(values[i + row * (block.n2 / 2) + plane * k]));
  const auto cm = [](std::size_t n) { return 100.0 * Block::DX * static_cast<double>(n); };
  const std::string said = "slice through the middle; " + note;
  const plot_t plot = {title, row, block.n3, cells.data(), {"distance", "cm", 0.0, cm(row)},
                       {"depth", "cm", 0.0, cm(block.n3)}, grey, said.c_str()};
  if (plot_write(&plot, path.c_str()) != 0) throw std::runtime_error(path + " cannot be written");
}

void draw_model(const Block &block, const std::string &path, const char *title, Values m) {
  for (double &each : m) each = Block::KAPPA * std::exp(each);
  draw(block, path, title, m, {"conductivity", "W/(m K)", 0.5, 4.0}, "values outside the scale are clipped");
}

// Draws the gradient, and writes its values: FP64, n1 fastest.
void write_gradient(const Block &block, const std::string &folder, const Values &g) {
  const double largest = std::abs(std::ranges::max(g, {}, [](double x) { return std::abs(x); }));
  char note[200];
  std::snprintf(note, sizeof note,
                "derivative by log(conductivity) of a cell; scale: 1 = %.3g K^2 s, the largest |value| in the block", largest);
  const Values scaled = moved(Values(g.size()), 1.0 / largest, g);
  draw(block, folder + "/gradient.png", "gradient of the misfit in concrete alone", scaled, {"scaled", "", -1.0, 1.0}, note);
  FILE *const file = new_file((folder + "/gradient.f64").c_str());
  const bool written = file != nullptr && std::fwrite(g.data(), sizeof(double), g.size(), file) == g.size();
  if ((file != nullptr && std::fclose(file) != 0) || !written)
    throw std::runtime_error(folder + "/gradient.f64 cannot be written");
}

// The options with their values as text; a flag is "" until it is given.
using Options = std::map<std::string, std::string>;

Options parsed(int argc, char **argv) {
  Options options = {{"--n1", "24"}, {"--n2", "20"}, {"--n3", "12"}, {"--steps", "800"}, {"--iterations", "20"},
                     {"--config", ""}, {"--out", "heat3d-out"}, {"--store-all", ""}, {"--taylor", ""}, {"--help", ""}};
  for (int i = 1; i < argc; i++) {
    const std::string name = argv[i];
    const bool flag = name == "--store-all" || name == "--taylor" || name == "--help";
    if (!options.contains(name)) throw std::invalid_argument(name + ": no such option; see --help");
    if (!flag && ++i == argc) throw std::invalid_argument(name + ": needs a value; see --help");
    options[name] = argv[i];
  }
  return options;
}

std::size_t number(const Options &options, const std::string &name, std::size_t least) {
  const std::string &text = options.at(name);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || *end != '\0' || value < least || value > 1000000)
    throw std::invalid_argument(name + " " + text + ": it wants a whole number from " + std::to_string(least) +
                                " to 1000000");
  return value;
}

constexpr const char *HELP = R"(heat3d: the conductivity of a block from temperatures in it, with adjoint checkpointing by gpuzip

  --n1 --n2 --n3   cells along, across and in depth (default 24, 20, 12)
  --steps          time steps (default 800)
  --iterations     iterations of the gradient method (default 20)
  --config         gpuzip configuration file; GPUZIP_* environment variables override it
  --out            folder for the gradient and the pictures (default heat3d-out)
  --store-all      keep every state in memory, without gpuzip: the reference
  --taylor         test the adjoint by a dot-product test, and the gradient by a Taylor test
  --help           this text

exit code: 0 done; 1 failed, or --taylor found a mistake; 2 bad options)";

int run(const Options &options) {
  const Block block(number(options, "--n1", 4), number(options, "--n2", 4), number(options, "--n3", 4),
                    number(options, "--steps", 4));
  const std::size_t iterations = number(options, "--iterations", 0);
  const std::string &out = options.at("--out");
  const Values truth = foreign_bodies(block);
  Inversion inversion(block, truth);
  Values m(block.cells, 0.0), g;
  if (options.at("--store-all").empty()) {
    gpuzip::config config = gpuzip::config::load(options.at("--config"));
    config.range_actions = 0;  // the loop takes one step in each action, and reverses every step
    config.adjoint_every = 0;
    inversion.session = gpuzip::session(config, static_cast<std::int32_t>(block.steps), {block.field(m)});
    inversion.session.name_fields({"temperature"});
  }
  std::filesystem::create_directories(out);
  const double first = inversion.gradient(m, g);
  std::printf("block     %zu x %zu x %zu cells of %g cm, %zu thermometers, %zu steps of %.3g s\n", block.n1, block.n2,
              block.n3, 100.0 * Block::DX, block.thermometers.size(), block.steps, Block::DT);
  std::printf("misfit    %.17g K^2 s, residuals %.4f K\n", first, inversion.residuals(first));
  if (inversion.session) {
    const gpuzip_stats_t stats = inversion.session.stats();
    std::printf("gpuzip    forward steps %" PRIu64 ", saves %" PRIu64, stats.forward_steps, stats.saves);
    std::printf(", written to disk %" PRIu64 ", read from disk %" PRIu64 "\n", stats.disk_writes, stats.disk_reads);
  }
  write_gradient(block, out, g);
  if (!options.at("--taylor").empty() && !test(inversion)) return 1;
  const double last = inversion.descend(m, g, first, iterations);
  std::printf("descent   the misfit fell by a factor of %.1f\n", first / last);
  std::printf("look at   %s/model.png and truth.png\n", out.c_str());
  draw_model(block, out + "/truth.png", "conductivity of the block", truth);
  draw_model(block, out + "/model.png", "conductivity found", m);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    const Options options = parsed(argc, argv);
    return options.at("--help").empty() ? run(options) : std::puts(HELP) < 0;
  } catch (const std::invalid_argument &error) {
    std::cerr << "heat3d: " << error.what() << "\n";
    return 2;
  } catch (const std::exception &error) {
    std::cerr << "heat3d: " << error.what() << "\n";
    return 1;
  }
}
