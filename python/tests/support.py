"""What the tests share: a chaotic loop whose every state is known, and NumPy if it is there."""

import array
import os
import subprocess
import sys
import unittest

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


def benchmark(name):
    """Runs the benchmark of an adapter with a small problem; it compares the gradients of its ways.
    Returns the cells of the table's rows."""
    done = subprocess.run([sys.executable, BENCHMARKS, "--small", name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) > 2, done.stdout + done.stderr
    return rows[1:]
