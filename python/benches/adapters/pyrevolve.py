"""The gradient by the initial wave of waves with a restoring force, on 256 x 256 points in FP64, after 400
time steps, in NumPy with PyRevolve's API. A state is 2 levels of 0.5 MB, which PyRevolve copies as one."""

import importlib.metadata

import numpy as np
import pyrevolve

import gpuzip.pyrevolve

POINTS, STEPS, SNAPSHOTS, BUDGET = 256, 400, 20, "100M"
SMALL = {"POINTS": 24, "STEPS": 40, "SNAPSHOTS": 4, "BUDGET": "1M"}
VERSIONS = f"PyRevolve {pyrevolve.__version__}, NumPy {importlib.metadata.version('numpy')}"


def curvature(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


class Wave:
    """The levels t and t - 1 are `levels[0]` and `levels[1]`."""

    def __init__(self):
        x = np.linspace(-3, 3, POINTS)
        u = np.exp(-4 * (x[:, None] ** 2 + x**2))
        self.levels, self.adjoint = np.stack([u, u]), None
        self.size, self.dtype = self.levels.size, self.levels.dtype

    def get_data(self, timestep):
        return [self.levels]

    get_data_location = get_data

    def forward(self, t_start, t_end):
        u, before = self.levels
        for _ in range(t_start, t_end):
            after = 2 * u - before + 0.2 * curvature(u) - 1e-3 * np.sin(u)
            before[:], u[:] = u, after

    def reverse(self, t_start, t_end):
        """The step t_start -> t_end has just been done: `levels[1]` is the level t_start."""
        if self.adjoint is None:
            self.adjoint = np.stack([2 * self.levels[0], np.zeros_like(self.levels[0])])
        a, b = self.adjoint
        u = self.levels[1]
        self.adjoint = np.stack([2 * a + 0.2 * curvature(a) - 1e-3 * np.cos(u) * a + b, -a])


class WaveInBuffers(Wave):
    def forward(self, t_start, t_end, inbuffer, outbuffer):
        u, before = inbuffer
        for _ in range(t_start, t_end):
            after = 2 * u - before + 0.2 * curvature(u) - 1e-3 * np.sin(u)
            outbuffer[1], outbuffer[0] = u, after
            u, before = outbuffer

    def reverse(self, t_start, t_end, inbuffer, outbuffer):
        self.levels = outbuffer
        super().reverse(t_start, t_end)


def operators(wave, kind):
    made = kind(), kind()
    made[0].apply, made[1].apply = wave.forward, wave.reverse
    return made


def baseline():
    wave = Wave()
    wave.forward(0, 2)
    wave.reverse(1, 2)


def every_state():
    wave, states = Wave(), []
    for t in range(STEPS):
        states.append(wave.levels.copy())
        wave.forward(t, t + 1)
    for t in reversed(range(STEPS)):
        wave.reverse(t, t + 1)
        wave.levels[1] = states.pop()[1]
    return wave.adjoint


def theirs():
    wave = Wave()
    apply = operators(wave, pyrevolve.Operator)
    revolver = pyrevolve.Revolver(wave, *apply, SNAPSHOTS, STEPS)
    revolver.apply_forward()
    revolver.apply_reverse()
    return wave.adjoint


def ours():
    wave = Wave()
    apply = operators(wave, gpuzip.pyrevolve.Operator)
    revolver = gpuzip.pyrevolve.Revolver(wave, *apply, SNAPSHOTS, STEPS)
    revolver.apply_forward()
    revolver.apply_reverse()
    return wave.adjoint


def buffers():
    wave = WaveInBuffers()
    apply = operators(wave, gpuzip.pyrevolve.Operator)
    revolver = gpuzip.pyrevolve.Revolver(gpuzip.pyrevolve.Buffers(wave.levels), *apply, SNAPSHOTS, STEPS)
    revolver.apply_forward()
    revolver.apply_reverse()
    return wave.adjoint


def budget():
    wave = Wave()
    apply = operators(wave, gpuzip.pyrevolve.Operator)
    revolver = gpuzip.pyrevolve.Revolver(wave, *apply, None, STEPS, host_budget=BUDGET)
    revolver.apply_forward()
    revolver.apply_reverse()
    return wave.adjoint


WAYS = {
    "every state": every_state,
    "PyRevolve, 20 checkpoints": theirs,
    "gpuzip, 20 checkpoints": ours,
    "gpuzip, 20 checkpoints, buffers": buffers,
    'gpuzip, host_budget="100M"': budget,
}
DIGITS = 300  # Equal bits.
