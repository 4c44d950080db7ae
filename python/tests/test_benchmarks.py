"""The program that compares adapters with what their frameworks offer, on ways made for the test."""

import os
import subprocess
import sys
import tempfile
import unittest

from support import BENCHMARKS, needs_numpy

WAYS = """
import numpy as np

VALUES, VERSIONS, DIGITS = 10**6, "version 3", 12
SMALL = {"VALUES": 100}
ready = False

def baseline():
    global ready
    ready = True

def first():
    assert ready
    return np.linspace(1, 2, VALUES)

def same():
    # A comment is no line of the way.
    values = np.ones((8, VALUES))

    return values[0] * first()

def close():
    return first() * (1 + 1e-13)

def far():
    return first() * (1 + 1e-9)

WAYS = {"every state": first, "equal": same, "close": close, "far": far}
"""
MISSING = "import no_such_framework\n"


@needs_numpy
class Benchmarks(unittest.TestCase):
    def run_of(self, *options, **files):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name + ".py") for name in files]
            for path, text in zip(paths, files.values()):
                with open(path, "w") as file:
                    file.write(text)
            words = [sys.executable, BENCHMARKS, *options, *paths]
            return subprocess.run(words, capture_output=True, text=True)

    def test_gradients_are_compared_and_memory_is_measured(self):
        done = self.run_of("--runs", "1", ways=WAYS)
        rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual([row[0] for row in rows], ["ways", "every state", "equal", "close", "far"], done.stderr)
        self.assertEqual([row[3] for row in rows[1:]], ["3", "3", "2", "2"])
        self.assertEqual([row[4] for row in rows[1:]], ["–", "equal bits", "1e-13", "1e-09"])
        first, same = (float(row[2]) for row in rows[1:3])
        self.assertLess(first, 30)
        self.assertGreater(same, 60)
        self.assertIn("version 3; ", done.stdout)
        self.assertEqual((done.returncode, done.stderr), (1, "the gradients of ways do not agree\n"))

    def test_a_small_problem_and_a_missing_framework(self):
        ways = WAYS.replace(', "far": far', "")
        done = self.run_of("--small", ways=ways, missing=MISSING)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^\| equal \| .* \| 3 \| equal bits \|$")
        self.assertIn("skipped: missing: No module named 'no_such_framework'", done.stdout)

    def test_a_way_that_fails_is_named(self):
        done = self.run_of("--small", ways=WAYS.replace("return first() * (1 + 1e-13)", "raise ValueError(3)"))
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]), (1, "ways, close: the run failed"))

    def test_wrong_options_are_named(self):
        for options, text in (
            (("nonsense",), "nonsense: no such file, and none of the adapters checkpoint_schedules, "),
            (("nowhere.py",), "nowhere.py: no such file"),
            (("--runs", "0", "jax"), "--runs 0: at least 1"),
        ):
            done = self.run_of(*options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    unittest.main()
