"""The gradient by the initial wave of waves with a restoring force, on 256 x 256 points in FP64, after 400
time steps, on the tape of pyadjoint. A state is 2 levels of 0.5 MB."""

import importlib.metadata

import checkpoint_schedules
import numpy as np
import pyadjoint

from gpuzip.checkpoint_schedules import GpuzipSchedule

POINTS, STEPS, SNAPSHOTS = 256, 400, 20
SMALL = {"POINTS": 24, "STEPS": 40, "SNAPSHOTS": 4}
VERSIONS = ", ".join(
    f"{name} {importlib.metadata.version(package)}"
    for name, package in (
        ("checkpoint_schedules", "checkpoint_schedules"), ("pyadjoint", "pyadjoint-ad"), ("NumPy", "numpy"),
    )
)  # fmt: skip


class Wave(pyadjoint.OverloadedType):
    """Two levels of a wave, or their adjoint, as a value of pyadjoint."""

    def __init__(self, levels):
        super().__init__()
        self.levels = levels

    def _ad_create_checkpoint(self):
        return Wave(self.levels.copy())

    def _ad_restore_at_checkpoint(self, checkpoint):
        return checkpoint


def curvature(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


class Step(pyadjoint.Block):
    def recompute_component(self, inputs, block_variable, idx, prepared):
        u, before = inputs[0].levels
        return Wave(np.stack([2 * u - before + 0.2 * curvature(u) - 1e-3 * np.sin(u), u]))

    def evaluate_adj_component(self, inputs, adj_inputs, block_variable, idx, prepared=None):
        a, b = adj_inputs[0]
        return np.stack([2 * a + 0.2 * curvature(a) - 1e-3 * np.cos(inputs[0].levels[0]) * a + b, -a])


class Energy(pyadjoint.Block):
    def recompute_component(self, inputs, block_variable, idx, prepared):
        return pyadjoint.AdjFloat(np.sum(inputs[0].levels[0] ** 2))

    def evaluate_adj_component(self, inputs, adj_inputs, block_variable, idx, prepared=None):
        u, before = inputs[0].levels
        return float(adj_inputs[0]) * np.stack([2 * u, 0 * before])


def computed(block, value):
    """The block's result, on the tape."""
    block.add_dependency(value)
    result = block.recompute_component([value], None, 0, None)
    pyadjoint.get_working_tape().add_block(block)
    block.add_output(result.block_variable)
    return result


def gradient(steps, schedule=None):
    """The gradient on a tape of its own; without a schedule the tape keeps every state."""
    with pyadjoint.set_working_tape(pyadjoint.Tape()) as tape:
        pyadjoint.continue_annotation()
        if schedule is not None:
            tape.enable_checkpointing(schedule)
        x = np.linspace(-3, 3, POINTS)
        u = np.exp(-4 * (x[:, None] ** 2 + x**2))
        start = wave = Wave(np.stack([u, u]))
        for _ in tape.timestepper(iter(range(steps))):
            wave = computed(Step(), wave)
        functional = pyadjoint.ReducedFunctional(computed(Energy(), wave), pyadjoint.Control(start))
        pyadjoint.pause_annotation()
        return functional.derivative().levels


def baseline():
    gradient(2)


def every_state():
    return gradient(STEPS)


def revolve():
    return gradient(STEPS, checkpoint_schedules.Revolve(STEPS, SNAPSHOTS))


def multistage():
    return gradient(STEPS, checkpoint_schedules.MultistageCheckpointSchedule(STEPS, SNAPSHOTS, 0))


def ours():
    keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": SNAPSHOTS}
    return gradient(STEPS, GpuzipSchedule(STEPS, **keys))


WAYS = {
    "every state": every_state,
    "Revolve, 20 states": revolve,
    "MultistageCheckpointSchedule, 20 states": multistage,
    "GpuzipSchedule, 20 states": ours,
}
DIGITS = 300  # Equal bits.
