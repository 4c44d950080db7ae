"""What the tests share: a chaotic loop whose every state is known, and NumPy if it is there."""

import array
import contextlib
import os
import subprocess
import sys
import unittest
from unittest import mock

import gpuzip

try:
    import numpy
except ImportError:
    numpy = None

BENCHMARKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../benches/adapters.py")
needs_numpy = unittest.skipIf(numpy is None, "NumPy is not installed")


def step(u):
    """One step of a map in which every bit of the state counts."""
    for k in range(len(u)):
        u[k] = 3.9 * u[k] * (1.0 - u[k])


def states(steps, values=5):
    """u(0), ..., u(steps) as bytes."""
    u = initial(values)
    found = [bytes(u)]
    for _ in range(steps):
        step(u)
        found.append(bytes(u))
    return found


def initial(values=5):
    return array.array("d", [0.1 + 0.15 * k for k in range(values)])


def reverse(session, u, expected, check=None):
    """Serves a shot, compares the state of every BACKWARD, and returns the actions."""
    actions = []
    for action in session:
        actions.append(action)
        if action.type == gpuzip.FORWARD:
            for _ in range(action.ts, action.ts_end + 1):
                step(u)
        elif action.type == gpuzip.SAVE:
            session.save(action.ts, u)
        elif action.type == gpuzip.RESTORE:
            session.retrieve(action.ts, u)
        else:
            assert bytes(u) == expected[action.ts], action
        if check:
            check(action)
    return actions


# Configurations of an adapter for some 40 steps of a state of 64 values.
SCHEDULES = (
    *({"checkpointing_algorithm": "revolve", "checkpointing_snaps": snapshots} for snapshots in (1, 3, 9)),
    {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 3, "range_actions": False},
    {"checkpointing_algorithm": "store-all"},
    {"checkpointing_algorithm": "uniform", "checkpointing_snaps": 6},
    {"checkpointing_algorithm": "zcut", "checkpointing_snaps": 8},
    {"host_budget": "8K"},
    {"host_budget": "32K", "disk_budget": "64K"},
    {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 9, "host_budget": "24K", "disk_budget": "1M"},
)


def forward_steps(arrays, n, config, **keys):
    """How many forward steps the plan of an adapter's session takes."""
    return gpuzip.plan(arrays, n, **{"range_actions": True, **config, **keys}).forward_steps


@contextlib.contextmanager
def sessions():
    """A block that notes its sessions. Its value has an item for each, which is `alive` until the session is freed."""
    found, made = [], gpuzip.Session.__init__

    def noted(session, *arguments, **named):
        made(session, *arguments, **named)
        found.append(session._finalizer)

    with mock.patch.object(gpuzip.Session, "__init__", noted):
        yield found


def is_open(found):
    """Of the sessions that `sessions` has noted, whether each is open."""
    return [session.alive for session in found]


def benchmark(name):
    """Runs the benchmark of an adapter with a small problem; it compares the gradients of its ways.
    Returns the cells of the table's rows."""
    done = subprocess.run([sys.executable, BENCHMARKS, "--small", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) > 2, done.stdout + done.stderr
    return rows[1:]
