"""Pictures with matplotlib, the bar of tqdm, and the types of the package for mypy."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import matplotlib

matplotlib.use("Agg")

import numpy

import gpuzip
from gpuzip._drawing import INKS

PROGRAM = """
import numpy as np
import numpy.typing as npt

import gpuzip

Field = npt.NDArray[np.float64]


def step(u: Field, t: int) -> None:
    u += 1e-3 * u * (1.0 - u)


def adjoint_step(u: Field, t: int, v: Field) -> None:
    v *= 1.0 + 1e-3 * (1.0 - 2.0 * u)


u0 = np.full(8, 0.1)
g = gpuzip.adjoint(step, adjoint_step, u0, 1000, final_adjoint=np.ones(8), memory="1K", compressor="none")
plan: gpuzip.Plan = gpuzip.plan(u0, 100, host_budget="10K")
with gpuzip.Session(u0, steps=10, checkpointing_algorithm="revolve", checkpointing_snaps=3) as session:
    for action in gpuzip.progress(session):
        if action.type == gpuzip.SAVE:
            session.save(action.ts, u0)
        elif action.type == gpuzip.RESTORE:
            session.retrieve(action.ts, u0)
gpuzip.Config(host_budget="4G").copy(error_bound=1e-3)
"""


class Plots(unittest.TestCase):
    def tearDown(self):
        matplotlib.pyplot.close("all")

    def test_a_schedule(self):
        axes = gpuzip.Schedule(24, checkpointing_algorithm="revolve", checkpointing_snaps=4).plot()
        self.assertIn("24 time steps, 4 snapshots, 51 forward steps", axes.get_title())
        self.assertEqual(axes.get_xlabel(), "time steps computed, forward and backward")
        lines = {line.get_label(): line for line in axes.get_lines()}
        self.assertEqual({label: line.get_color() for label, line in lines.items()}, INKS)
        forward, back = (numpy.asarray(lines[kind].get_xydata()) for kind in ("forward", "backward"))
        self.assertEqual(forward[:2].tolist(), [[0, 0], [23, 23]])
        self.assertEqual(back[-2].tolist(), [75, 0])
        # Each step of the sweep backward is drawn once.
        self.assertEqual(-numpy.nansum(numpy.diff(back[:, 1])), 24)

    def test_given_axes_and_a_plan(self):
        axes = matplotlib.pyplot.subplots()[1]
        plan = gpuzip.plan(numpy.ones(10), 24, checkpointing_algorithm="revolve", checkpointing_snaps=4)
        self.assertIs(plan.plot(axes), axes)
        axes.figure.savefig(io.BytesIO())

    def test_a_gradient(self):
        found = gpuzip.check_gradient(lambda x: (x**3).sum(), lambda x: 3 * x**2, numpy.linspace(0, 1, 9))
        axes = found.plot()
        self.assertEqual(axes.get_lines()[0].get_ydata().tolist(), list(found.first))
        self.assertEqual(axes.get_lines()[2].get_ydata().tolist(), list(found.second))
        axes.figure.savefig(io.BytesIO())


class Bars(unittest.TestCase):
    def test_a_bar_is_shown(self):
        def step(u, t):
            u *= 2

        shown = io.StringIO()
        with contextlib.redirect_stderr(shown):
            gpuzip.adjoint(step, lambda u, t, v: None, numpy.ones(3), 24, progress=True,
                           checkpointing_algorithm="revolve", checkpointing_snaps=4)
        self.assertRegex(shown.getvalue(), r"gpuzip: 100%.* 75/75 \[.*step/s\]")


class Types(unittest.TestCase):
    def mypy(self, program):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "program.py")
            with open(file, "w") as out:
                out.write(program)
            words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, file]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        return done.stdout + done.stderr

    def test_a_program_is_typed(self):
        self.assertIn("Success", self.mypy(PROGRAM))
        found = self.mypy(PROGRAM.replace('"none"', '"nonne"').replace("checkpointing_snaps", "checkpoint_snaps"))
        self.assertIn('Argument "compressor" to "adjoint" has incompatible type "Literal[\'nonne\']"', found)
        self.assertIn('"checkpoint_snaps" for "Session"; did you mean "checkpointing_snaps"?', found)

    def test_the_package_is_typed(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        words = [sys.executable, "-m", "mypy", "--cache-dir", os.devnull]
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
        self.assertIn("Success", done.stdout, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
