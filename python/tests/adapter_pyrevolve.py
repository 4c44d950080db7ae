"""gpuzip.pyrevolve beside PyRevolve: its tests with the import changed, and the same adjoints."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np
import pyrevolve

import gpuzip
import gpuzip.pyrevolve as ours
from sources import unpacked
from support import benchmark

# Stands in for the file `utils.py` of PyRevolve's tests, which its source package lacks.
UTILS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pyrevolve_utils.py")


class Problem:
    """A chaotic map of two arrays, and the sum of its states weighted by an adjoint."""

    def __init__(self, size=50):
        self.u, self.before = np.linspace(0.1, 0.9, size), np.linspace(0.2, 0.3, size).astype("f4")
        self.adjoint, self.forward_steps, self.size = np.ones(size), 0, 2 * size
        self.dtype = np.float64

    def get_data(self, timestep):
        return [self.u, self.before]

    get_data_location = get_data

    def apply(self, t_start, t_end):
        for t in range(t_start, t_end):
            self.before[:], self.u[:] = self.u, 3.9 * self.u * (1 - self.u) * (1 - 1e-6 * t) + 1e-9 * self.before
            self.forward_steps += 1

    def adjoint_operator(self):
        def apply(t_start, t_end):
            assert t_end == t_start + 1
            self.adjoint[:] = np.sin(self.adjoint + self.u * self.before + t_start)

        operator = ours.Operator()
        operator.apply = apply
        return operator

    def run(self, make):
        revolver = make(self, self, self.adjoint_operator())
        revolver.apply_forward()
        last = self.u.copy()
        revolver.apply_reverse()
        return revolver, last, self.adjoint

    def keep_all(self, n):
        states = []
        for t in range(n):
            self.apply(t, t + 1)
            states.append((self.u.copy(), self.before.copy()))
        for t in reversed(range(n)):
            self.u, self.before = states[t]
            self.adjoint_operator().apply(t, t + 1)
        return states[-1][0], self.adjoint


def other_at(first, t):
    """The second field of the test of buffers after t steps."""
    for k in range(t):
        first = np.sin(first + k)
    return first


class Small(Problem):
    """With one array in double precision: PyRevolve stores all arrays in one type."""

    def get_data(self, timestep):
        return [self.u]

    get_data_location = get_data

    def apply(self, t_start, t_end):
        for t in range(t_start, t_end):
            self.u[:] = 3.9 * self.u * (1 - self.u) * (1 - 1e-6 * t)
            self.forward_steps += 1


class PyRevolve(unittest.TestCase):
    def same(self, found, expected):
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, b)

    def test_the_tests_of_pyrevolve_pass(self):
        folder = os.path.join(unpacked("pyrevolve", pyrevolve.__version__), "tests")
        if not os.path.exists(os.path.join(folder, "utils.py")):
            shutil.copy(UTILS, os.path.join(folder, "utils.py"))

        def passed():
            words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
            run = subprocess.run(words, cwd=folder, capture_output=True, text=True)
            self.assertEqual(run.returncode, 0, run.stdout)
            return int(re.search(r"(\d+) passed", run.stdout)[1])

        # PyRevolve itself passes them with this file, and so does gpuzip in its place.
        theirs = passed()
        self.assertGreater(theirs, 2000)
        for name in (name for name in os.listdir(folder) if name.endswith(".py")):
            with open(os.path.join(folder, name)) as file:
                text = file.read()
            text, changed = re.subn(
                r"from pyrevolve(\.\w+)? import", "from gpuzip.pyrevolve import", text
            )
            self.assertGreater(changed, 0, name)
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)
        self.assertGreaterEqual(passed(), theirs)

    def test_the_adjoint_is_pyrevolves(self):
        for n, c in ((2, 1), (10, 2), (40, 5), (40, 39), (40, 60), (41, None)):
            theirs, here = Small(), Small()
            expected = theirs.run(lambda *of: pyrevolve.Revolver(*of, c, n))
            found = here.run(lambda *of: ours.Revolver(*of, c, n))
            self.same(found[1:], expected[1:])
            self.same(found[1:], Small().keep_all(n))
            self.assertEqual(here.forward_steps, theirs.forward_steps)
            self.assertEqual(found[0].ratio, expected[0].ratio)

    def test_the_number_of_checkpoints_is_pyrevolves(self):
        for n in range(2, 3000):
            self.assertEqual(ours.adjust(n), pyrevolve.adjust(n))
        # For which PyRevolve's is an error.
        self.assertEqual(ours.adjust(1), 1)

    def test_every_revolver_finds_the_same_states(self):
        n, folder = 40, os.getcwd()
        levels = [ours.NumpyStorage(1, 2, None), ours.DiskStorage(1, 9, None, filedir=folder)]
        copy = {"scheme": "custom", "compressor": lambda p, a: a.copy(), "decompressor": lambda p, a: a}
        makers = [
            lambda *of: ours.SingleLevelRevolver(*of, 4, n),
            lambda *of: ours.DiskRevolver(*of, 9, n, filedir=folder),
            lambda *of: ours.SingleLevelRevolver(*of, 9, n, diskstorage=True, filedir=folder),
            lambda *of: ours.MultiLevelRevolver(*of, n, levels),
            lambda *of: ours.Revolver(*of, 7, n, compression_params=copy),
            lambda *of: ours.Revolver(*of, 7, n, range_actions=False),
            lambda *of: ours.Revolver(*of, None, n, host_budget="6M"),
            lambda *of: ours.Revolver(*of, None, n, checkpointing_algorithm="zcut", checkpointing_snaps=8),
        ]
        size = 60000
        expected = [a.copy() for a in Problem(size).keep_all(n)]
        for k, make in enumerate(makers):
            revolver, *found = Problem(size).run(make)
            self.same(found, expected)
            self.assertEqual(revolver.session.stats().disk_writes > 0 if k < 4 else False, k in (1, 2, 3))
            if k == 4:
                self.assertEqual(revolver.session._kept, {})

    def test_buffers_are_the_memory_of_the_snapshots(self):
        n, first = 40, [np.linspace(0.1, 0.9, 60), np.asfortranarray(np.full((5, 4), 0.2, "f4"))]
        u, other, adjoint, states = first[0].copy(), first[1].copy(), np.ones(60), []
        for t in range(n):
            states.append(u)
            u, other = 3.9 * u * (1 - u) + 1e-3 * other.sum(), np.sin(other + t)
        for t in reversed(range(n)):
            adjoint = np.sin(adjoint + u * states[t] + t)
            u = states[t]
        for c, keys, copied in (
            (5, {}, 0),
            (1, {}, 0),
            (n + 3, {}, 0),
            (None, {"device_budget": "1M"}, 0),
            (5, {"zero_copy": False}, 1),
            (5, {"host_budget": "1M"}, 1),
            (5, {"compressor": "lossless"}, 1),
            (None, {"host_budget": "1M", "compressor": "lossless"}, 1),
        ):
            forward, reverse, found, saved, same = ours.Operator(), ours.Operator(), np.ones(60), {}, set()

            def step(t_start, t_end, inbuffer, outbuffer):
                same.add(inbuffer[0].ctypes.data == saved.get(t_start))
                saved[t_end] = outbuffer[0].ctypes.data
                now = inbuffer
                for t in range(t_start, t_end):
                    one = 3.9 * now[0] * (1 - now[0]) + 1e-3 * now[1].sum()
                    outbuffer[1][:] = np.sin(now[1] + t)
                    outbuffer[0][:] = one
                    now = outbuffer
                self.assertTrue(outbuffer[1].flags.f_contiguous)

            def back(t_start, t_end, inbuffer, outbuffer):
                self.assertEqual(t_end, t_start + 1)
                found[:] = np.sin(found + outbuffer[0] * inbuffer[0] + t_start)

            forward.apply, reverse.apply = step, back
            buffers = ours.Buffers([a.copy("K") for a in first])
            self.same(buffers.get_data(0), first)
            revolver = ours.Revolver(buffers, forward, reverse, c, n, **keys)
            for shot in range(2):
                saved.clear()
                found[:] = 1
                revolver.apply_forward()
                self.same(buffers.get_data(n), [3.9 * states[-1] * (1 - states[-1]) + 1e-3 * other_at(first[1], n - 1).sum()])
                revolver.apply_reverse()
                self.same([found], [adjoint])
                self.same(buffers._initial, first)
            stats = revolver.session.stats()
            self.assertEqual(stats.h2d + stats.d2h > 0, bool(copied), (c, keys))
            self.assertIn(True, same)

    def test_what_operators_with_buffers_get(self):
        seen = []

        class Seen(ours.Operator):
            def apply(self, t0, t1, read, write):
                seen.append((t0, t1))
                assert isinstance(read, np.ndarray) and read.shape == write.shape == (3,)
                write[:] = read + t1 - t0
                assert write[0] == t1
                if t0 == wrong:
                    read[0] = 7.0

        # Of the initial state, of a snapshot, of a state that is not saved.
        for wrong in (0, 5, 8, None):
            revolver = ours.Revolver(ours.Buffers(np.zeros(3)), Seen(), ours.Operator(), 2, 9)
            revolver.rev_operator.apply = lambda t0, t1, read, write: self.assertEqual((read[0], write[0]), (t0, t1))
            if wrong is not None:
                with self.assertRaisesRegex(ValueError, "read-only"):
                    revolver.apply_forward()
                    revolver.apply_reverse()
                wrong = None
            revolver.apply_forward()
            self.assertEqual(revolver.checkpoint.get_data(9)[0][0], 9)
            revolver.apply_reverse()
            self.assertEqual(revolver.session.summary().cache, 2)
        self.assertIn((5, 6), seen)

    def test_a_revolver_runs_again_and_sees_the_arrays_of_then(self):
        problem = Problem()
        revolver = ours.Revolver(problem, problem, problem.adjoint_operator(), 3, 20)
        self.assertEqual(revolver.session.summary().snapshots, 3)
        for first in (0.1, 0.3):
            problem.u, problem.before = np.full(50, first), np.zeros(50, "f4")
            problem.adjoint = np.ones(50)
            revolver.apply_forward()
            revolver.apply_reverse()
            again = Problem()
            again.u, again.before = np.full(50, first), np.zeros(50, "f4")
            self.same([problem.adjoint], again.keep_all(20)[1:])

    def test_compression_keeps_its_tolerance(self):
        fields = [np.sin(np.linspace(0, 9, 4096)).reshape(64, 64)]
        for params in ({"scheme": "zfp", "tolerance": 1e-4, "parallel": True}, {"scheme": "lorenzo", "error_bound": 1e-4}):
            pack, unpack = ours.init_compression(params)
            packed = pack(fields[0])
            self.assertLess(len(packed.data), fields[0].nbytes / 4)
            self.assertLess(np.max(np.abs(unpack(packed) - fields[0])), 1.0001e-4)
            found = Problem().run(lambda *of: ours.Revolver(*of, 3, 20, compression_params=params))
            self.assertNotEqual(found[0].session.summary().compressor, 0)

    def test_blosc_keeps_every_bit(self):
        for field in (np.sin(np.linspace(0, 9, 4096)).reshape(64, 64), np.arange(9), np.array([np.nan, -0.0], "f4")):
            pack, unpack = ours.init_compression({"scheme": "blosc", "chunk_size": 1000000})
            packed = pack(field)
            self.assertEqual(gpuzip.codec_info(packed.data)[0].compressor, 8)
            self.assertEqual(unpack(packed).tobytes(), field.tobytes())
        expected = Problem().run(lambda *of: ours.Revolver(*of, 3, 20))
        found = Problem().run(lambda *of: ours.Revolver(*of, 3, 20, compression_params={"scheme": "blosc"}))
        self.assertEqual(found[0].session.summary().compressor, 8)
        self.same(found[1:], expected[1:])

    def test_refused(self):
        problem = Small()
        of = (problem, problem, problem.adjoint_operator())
        for kind, text, make in (
            (gpuzip.ArgumentError, "n_timesteps is None.*online", lambda: ours.Revolver(*of, 3, None)),
            (gpuzip.ArgumentError, "n_timesteps is 0", lambda: ours.Revolver(*of, 3, 0)),
            (gpuzip.UnsupportedError, "stats", lambda: ours.Revolver(*of, 3, 9, profiler=object())),
            (gpuzip.UnsupportedError, "keepfiles", lambda: ours.DiskStorage(1, 1, None, keepfiles=True)),
            (gpuzip.UnsupportedError, "adjoint_every", lambda: ours.Revolver(*of, 3, 9, adjoint_every=2)),
            (gpuzip.ConfigError, "no configuration key 'scheduler'", lambda: ours.Revolver(*of, 3, 9, scheduler=1)),
            (gpuzip.ArgumentError, "storage_list is empty", lambda: ours.MultiLevelRevolver(*of, 9, [])),
            (gpuzip.ConfigError, "compressor = 'lz'", lambda: problem.run(lambda *of: ours.Revolver(*of, 3, 9, compression_params={"scheme": "lz"}))),
        ):  # fmt: skip
            with self.assertRaisesRegex(kind, text):
                make()

    def test_the_page_is_right(self):
        page = os.environ.get("GPUZIP_TEST_PAGE", os.path.join(os.path.dirname(__file__), "../../docs/pyrevolve.md"))
        with open(page) as file:
            program = "".join(part.split("```")[0] for part in file.read().split("```python\n")[1:])
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page, "exec"), {})
        # The digits of docs/python.md.
        self.assertEqual(printed.getvalue(), 2 * "du(1000)/du(0) = 1.979449291628\n")

    def test_the_benchmark_compares_equal_gradients(self):
        rows = benchmark("pyrevolve")
        self.assertEqual([row[-1] for row in rows], ["–"] + ["equal bits"] * 4)


if __name__ == "__main__":
    unittest.main()
