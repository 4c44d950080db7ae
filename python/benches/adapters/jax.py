"""The gradient by the initial wave and by the speeds of waves with a restoring force, on 320 x 320 points
in FP64, after 400 time steps, in JAX. A state is 2 levels of 0.8 MB. jax_curve.py has more problems."""

import functools
import importlib.metadata

import equinox.internal
import jax
import jax.numpy as jnp

import gpuzip.jax

POINTS, STEPS, SEGMENT, SNAPSHOTS, LARGE, MEDIUM, LITTLE = 320, 400, 20, 20, "200M", "64M", "20M"
SMALL = {"POINTS": 24, "STEPS": 40, "SEGMENT": 8, "SNAPSHOTS": 4, "LARGE": "1M", "MEDIUM": "200K", "LITTLE": "30K"}
VERSIONS = ", ".join(f"{name} {importlib.metadata.version(name.lower())}" for name in ("JAX", "Equinox", "NumPy"))

jax.config.update("jax_enable_x64", True)


def step(state, t, speed):
    u, before = state
    curvature = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u
    return 2 * u - before + speed * curvature - 1e-3 * jnp.sin(u), u


def start():
    x = jnp.linspace(-3, 3, POINTS)
    return jnp.exp(-4 * (x[:, None] ** 2 + x**2)), jnp.full((POINTS, POINTS), 0.2)


def way(compiled):
    """Makes a function of no arguments, which returns the gradient of an energy, of the energy."""

    def decorate(energy):
        slopes = jax.grad(energy, (0, 1))
        slopes = jax.jit(slopes) if compiled else slopes

        @functools.wraps(energy)
        def gradient():
            return jnp.stack(slopes(*start())).block_until_ready()

        return gradient

    return decorate


@way(compiled=True)
def baseline(u, speed):
    """Compiles a short loop and its gradient, and runs both."""
    return jnp.sum(jax.lax.fori_loop(0, 2, lambda t, state: step(state, t, speed), (u, u))[0])


@way(compiled=True)
def every_state(u, speed):
    (last, _), _ = jax.lax.scan(lambda state, t: (step(state, t, speed), None), (u, u), jnp.arange(STEPS))
    return jnp.sum(last**2)


@way(compiled=True)
def segments(u, speed):
    @functools.partial(jax.checkpoint, prevent_cse=False)
    def segment(state, begin):
        return jax.lax.scan(lambda state, t: (step(state, t, speed), None), state, begin + jnp.arange(SEGMENT))

    (last, _), _ = jax.lax.scan(segment, (u, u), jnp.arange(0, STEPS, SEGMENT))
    return jnp.sum(last**2)


@way(compiled=True)
def recursive(u, speed):
    def one(state, t):
        return step(state, t, speed), None

    means = {"kind": "checkpointed", "checkpoints": SNAPSHOTS}
    (last, _), _ = equinox.internal.scan(one, (u, u), jnp.arange(STEPS), **means)
    return jnp.sum(last**2)


def within(memory, u, speed):
    last, _ = gpuzip.jax.scan(lambda state, t: step(state, t, speed), (u, u), STEPS, memory=memory)
    return jnp.sum(last**2)


@way(compiled=True)
def large(u, speed):
    return within(LARGE, u, speed)


@way(compiled=True)
def medium(u, speed):
    return within(MEDIUM, u, speed)


@way(compiled=True)
def little(u, speed):
    return within(LITTLE, u, speed)


@way(compiled=False)
def loop(u, speed):
    keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": SNAPSHOTS}
    last, _ = gpuzip.jax.loop(step, (u, u), STEPS, speed, **keys)
    return jnp.sum(last**2)


WAYS = {
    "every state, jax.lax.scan": every_state,
    "jax.checkpoint, 20 segments of 20 steps": segments,
    "recursive checkpointing of diffrax (Equinox), 20 checkpoints": recursive,
    'gpuzip.jax.scan, memory="200M"': large,
    'gpuzip.jax.scan, memory="64M"': medium,
    'gpuzip.jax.scan, memory="20M"': little,
    "gpuzip.jax.loop, 20 snapshots": loop,
}
DIGITS = 12
