"""The gradient of one shot in Devito: acoustic waves on 401 x 401 points, with the absorbing layer, and
632 time levels, in FP64. A state is 2 levels of 1.3 MB; PyRevolve's rule keeps 6 states."""

import functools
import gc
import importlib.metadata
import sys

import gpuzip.devito

POINTS, TIME = 361, 1000.0
SMALL = {"POINTS": 61, "TIME": 300.0}
VERSIONS = ", ".join(
    f"{name} {importlib.metadata.version(name.lower())}" for name in ("Devito", "PyRevolve", "NumPy")
)


def problem():
    # Devito's objects refer to each other, and the states of a shot before would stay in memory.
    gc.collect()
    return made()


@functools.lru_cache(None)
def made():
    import numpy as np
    from devito import configuration
    from examples.seismic.acoustic.acoustic_example import acoustic_setup

    configuration["log-level"] = "ERROR"
    size = {"shape": (POINTS, POINTS), "spacing": (10.0, 10.0), "nbl": 20, "tn": TIME}
    solver = acoustic_setup(**size, space_order=4, dtype=np.float64)
    source = solver.geometry.src
    return solver, source, solver.forward(src=source)[0]


def baseline():
    """Imports Devito, compiles a part of its operators, and computes the data."""
    if sys.argv[sys.argv.index("--way") + 1].startswith("gpuzip"):
        gpuzip.devito.use()  # Comes before `import devito`.
    problem()


def full_storage():
    solver, source, recorded = problem()
    _, u, _ = solver.forward(src=source, save=True)
    return solver.jacobian_adjoint(recorded, u)[0].data.copy()


def checkpointed():
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0].data.copy()


def with_gpuzip():
    gpuzip.devito.use()
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0].data.copy()


def with_budget():
    gpuzip.devito.use(host_budget="200M")
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0].data.copy()


WAYS = {
    "every state, save=True": full_storage,
    "PyRevolve": checkpointed,
    "gpuzip": with_gpuzip,
    'gpuzip, host_budget="200M"': with_budget,
}
DIGITS = 300  # Equal bits.
