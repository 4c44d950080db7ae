"""Full-waveform inversion in 2-D with JAX: finds a body in the ground from waves that cross it.

    python jax_fwi.py --plot inversion.png

Sources lie on the left, receivers on the right, and the ground between them is homogeneous but for a body
in which waves are 10 % faster. L-BFGS of SciPy fits the recorded waves; the gradient of the misfit comes
from `jax.grad` through all time steps. `--states full` keeps what every step needs, in `jax.lax.scan`, and
`--states gpuzip` keeps what fits in `--memory` and computes the rest again: the result is the same.
"""

import argparse
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import gpuzip.jax

parser = argparse.ArgumentParser()
parser.add_argument("--states", choices=["full", "gpuzip"], default="gpuzip")
parser.add_argument("--memory", default="1M", help="bytes for what gpuzip keeps of a loop; a state has 58 KB")
parser.add_argument("--points", type=int, default=60, help="of the grid, in both directions")
parser.add_argument("--steps", type=int, default=360, help="of time, 1.5 ms each")
parser.add_argument("--shots", type=int, default=4)
parser.add_argument("--iterations", type=int, default=10, help="of L-BFGS")
parser.add_argument("--output", help="file for the velocities found, in NumPy's format")
parser.add_argument("--plot", help="file for a picture; needs matplotlib")
options = parser.parse_args()

jax.config.update("jax_enable_x64", True)
POINTS, STEPS, SPACING, DT, BACKGROUND, FREQUENCY = options.points, options.steps, 10.0, 1.5e-3, 2000.0, 15.0

# In the outer points waves are damped, so that the edges reflect little.
EDGE = 10
distance = np.minimum(np.arange(POINTS), np.arange(POINTS)[::-1])
ramp = np.clip(EDGE - distance, 0, EDGE) / EDGE
DAMPING = 1 - 0.08 * np.maximum(ramp[:, None], ramp) ** 2

time = np.arange(STEPS) * DT - 1.2 / FREQUENCY
WAVELET = jnp.asarray((1 - 2 * (np.pi * FREQUENCY * time) ** 2) * np.exp(-((np.pi * FREQUENCY * time) ** 2)))
DEPTHS = np.linspace(EDGE + 2, POINTS - EDGE - 3, options.shots).astype(int)
RECEIVERS = POINTS - EDGE - 3


def true_velocity():
    x = np.linspace(-1, 1, POINTS)
    return BACKGROUND * (1 + 0.1 * np.exp(-10 * ((x[:, None] - 0.1) ** 2 + (x + 0.1) ** 2)))


def propagate(u, before, t, velocity, depth):
    """The level t + 1 of the pressure: second order in time and space."""
    curvature = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u
    after = 2 * u - before * DAMPING + (velocity * DT / SPACING) ** 2 * curvature
    return (after * DAMPING).at[depth, EDGE + 2].add(WAVELET[t])


@jax.jit
def record(velocity, depth):
    """The waves at the receivers, one row for each time step."""

    def body(state, t):
        after = propagate(*state, t, velocity, depth)
        return (after, state[0]), after[:, RECEIVERS]

    return jax.lax.scan(body, (jnp.zeros_like(velocity),) * 2, jnp.arange(STEPS))[1]


def step(state, t, velocity, depth, data):
    """A time step that adds what it records to the misfit, the last part of the state."""
    u, before, misfit = state
    after = propagate(u, before, t, velocity, depth)
    return after, u, misfit + 0.5 * jnp.sum((after[:, RECEIVERS] - data[t]) ** 2)


def last_state(state, *params):
    if options.states == "gpuzip":
        return gpuzip.jax.scan(lambda state, t: step(state, t, *params), state, STEPS, memory=options.memory)
    return jax.lax.scan(lambda state, t: (step(state, t, *params), None), state, jnp.arange(STEPS))[0]


def misfit_of(velocity, depth, data):
    rest = jnp.zeros((POINTS, POINTS))
    return last_state((rest, rest, jnp.zeros(())), velocity, depth, data)[2]


slope_of = jax.jit(jax.value_and_grad(misfit_of))
true, start = true_velocity(), np.full((POINTS, POINTS), BACKGROUND)
shots = [(int(depth), record(jnp.asarray(true), int(depth))) for depth in DEPTHS]


def objective(relative):
    """Misfit of all shots and its gradient, by the velocities relative to the background."""
    velocity = jnp.asarray(relative.reshape(start.shape) * BACKGROUND)
    values, slopes = zip(*(slope_of(velocity, depth, data) for depth, data in shots))
    # Next to sources and receivers the gradient is largest, and says least.
    slope = np.sum([np.asarray(slope) for slope in slopes], axis=0) * INSIDE
    return float(sum(values)) * SCALE, (slope * BACKGROUND * SCALE).ravel()


inside = distance > EDGE + 4
INSIDE, SCALE = np.outer(inside, inside), 1.0
first, slope = objective(start.ravel() / BACKGROUND)
# L-BFGS begins with a step of the length of the gradient: 2 % of the velocity, at most.
SCALE = 0.02 / np.max(np.abs(slope))
found = minimize(objective, start.ravel() / BACKGROUND, jac=True, method="L-BFGS-B", options={"maxiter": options.iterations})
velocity = found.x.reshape(start.shape) * BACKGROUND

if options.output:
    np.save(options.output, velocity)
if options.plot:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
    extent = (0, POINTS * SPACING, POINTS * SPACING, 0)
    for axis, picture, title in zip(axes, (true, velocity), ("true velocity, m/s", f"found in {found.nit} iterations")):
        image = axis.imshow(picture, extent=extent, vmin=BACKGROUND, vmax=true.max())
        axis.set(title=title, xlabel="x, m")
        axis.plot(np.full(len(DEPTHS), (EDGE + 2) * SPACING), DEPTHS * SPACING, "w*")
    axes[0].set_ylabel("depth, m")
    figure.colorbar(image, ax=axes)
    figure.savefig(options.plot)
errors = [float(np.linalg.norm((v - true) * INSIDE)) for v in (start, velocity)]
if errors[1] > errors[0]:
    print("The velocities found are farther from the true ones than the first guess: take more --shots.", file=sys.stderr)
print(json.dumps({
    "misfit": [first, found.fun / SCALE],
    "error": errors,
    "gradients": found.nfev + 1,
}))  # fmt: skip
