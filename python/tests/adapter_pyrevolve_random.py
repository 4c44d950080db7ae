"""Random programs with a Revolver: beside PyRevolve's own and beside a run that keeps all
states, to the last bit; with exceptions in the middle, second sweeps, threads and codecs."""

import os
import random
import tempfile
import threading
import unittest
import warnings

import numpy as np
import pyrevolve

import gpuzip
import gpuzip.pyrevolve as ours

CASES = 1000 if os.environ.get("GPUZIP_TEST_LONG") else 60
SHAPES = [(7,), (2, 3), (1,), (4, 1, 3), (33, 5), (2, 2, 2, 2), ()]


class Stop(Exception):
    """What an operator raises in the middle of a sweep."""


class Program:
    """A time step of some arrays, and an adjoint step that reads the states before and behind
    it."""

    def __init__(self, seed, one_type):
        self.draw = draw = random.Random(seed)
        self.steps = draw.choice((1, 2, 3, draw.randint(2, 30), draw.randint(2, 90)))
        # PyRevolve stores all arrays in one type, and none without a dimension.
        types = (
            [draw.choice(("f8", "f4", "c16", "c8"))]
            if one_type
            else ["f8", "f4", "i4", "c16", "f2"]
        )
        shapes = SHAPES[:-1] if one_type else SHAPES
        self.kinds = [(draw.choice(shapes), draw.choice(types)) for _ in range(draw.randint(1, 3))]
        self.place = draw.choice(("in place", "new arrays", "two buffers"))
        self.pad = draw.choice((0, 3))
        # Operators with buffers, whose arrays may be in Fortran order.
        self.buffered, order = draw.random() < 0.4, draw.choice("CF")
        self.start = [np.zeros(shape, kind, order) for shape, kind in self.kinds]
        self.words = [draw.choice("amsct") for _ in range(draw.randint(1, 3))]
        self.begin()

    def begin(self):
        """New numbers, from which a run begins."""
        draw, self.calls, self.fails = self.draw, 0, None
        self.dt, self.rate = draw.uniform(0.05, 0.5), draw.uniform(0.5, 1.0)
        self.first = [self.array(shape, kind) for shape, kind in self.kinds]
        self.rewind()

    def array(self, shape, kind):
        values = np.array(
            [self.draw.uniform(0.3, 1.2) for _ in range(int(np.prod(shape)))]
        ).reshape(shape)
        return self.padded(np.asarray(values * (100 if kind == "i4" else 1), kind))

    def padded(self, values):
        """The values in an array whose rows lie apart, where the program has such ones."""
        if not values.ndim:
            return np.array(values)
        array = np.full((*values.shape[:-1], values.shape[-1] + self.pad), 77, values.dtype)[
            ..., : values.shape[-1]
        ]
        array[...] = values
        return array

    def rewind(self):
        self.buffers = [
            [self.padded(x) for x in self.first]
            for _ in range(2 if self.place == "two buffers" else 1)
        ]
        for x, y in zip(self.start, self.first):
            x[...] = y
        self.adjoint, self.slope, self.done = [np.ones(x.shape) for x in self.first], 0.0, 0

    def at(self, t):
        return self.buffers[t % len(self.buffers)]

    # What a Revolver calls.

    dtype = property(lambda self: self.first[0].dtype)
    size = property(lambda self: sum(x.size for x in self.first))
    nbytes = property(lambda self: sum(x.nbytes for x in self.first))

    def get_data(self, timestep):
        self.fail("get_data")
        return self.at(timestep)

    def get_data_location(self, timestep):
        self.fail("get_data_location")
        return self.at(timestep)

    def apply(self, t_start, t_end):
        for t in range(t_start, t_end):
            self.fail("apply")
            self.done += 1
            now, after = self.at(t), self.at(t + 1)
            found = self.after(now, t)
            if self.place == "new arrays":
                self.buffers[t % len(self.buffers)] = [self.padded(x) for x in found]
            else:
                for x, y in zip(after, found):
                    x[...] = y

    def after(self, now, t):
        return [
            self.advance(x, np.real(now[k - 1].flat[0]), t).astype(x.dtype)
            for k, x in enumerate(now)
        ]

    def into(self, t_start, t_end, inbuffer, outbuffer):
        """`apply` with buffers."""
        now = inbuffer
        for t in range(t_start, t_end):
            self.fail("apply")
            for x, y in zip(outbuffer, self.after(now, t)):
                x[...] = y
            now = outbuffer

    def advance(self, x, other, t):
        if x.dtype.kind == "i":
            return (x * 75 + int(other.real * 7) + t) % 65537
        for word in self.words:
            x = {
                "a": lambda: x + self.dt * np.sin(other),
                "m": lambda: x * self.rate + 0.1,
                "s": lambda: np.sin(x * 3.0),
                "c": lambda: 3.7 * x * (1.0 - x) / (1.0 + abs(x) ** 2),
                "t": lambda: x * 0.9 + 0.001 * t,
            }[word]()
        return np.asarray(x)

    def reverse(self, t, before, after):
        self.fail("reverse")
        states = [*before, *after] if self.place == "two buffers" else after
        for state, k in zip(states, [*range(len(self.first))] * 2):
            self.slope += np.sum(self.adjoint[k] * state) * self.dt
            self.adjoint[k] = np.sin(
                self.adjoint[k] * 1.1 + np.real(state) + 0.5 * np.imag(state) + t
            )

    def fail(self, place):
        self.calls += 1
        if self.fails and self.fails[0] == place:
            self.fails = (place, self.fails[1] - 1)
            if self.fails[1] < 0:
                self.fails = None
                raise Stop(place)

    # Runs.

    def of(self, buffered=False):
        forward, operator = ours.Operator(), ours.Operator()

        def apply(t_start, t_end, *buffers):
            assert t_end == t_start + 1
            self.reverse(t_start, *(buffers or (self.at(t_start), self.at(t_end))))

        operator.apply, forward.apply = apply, self.into
        return (ours.Buffers(self.start), forward, operator) if buffered else (self, self, operator)

    def result(self):
        """The bytes of the last adjoint, of the gradient by a parameter and of the live state."""
        return [x.tobytes() for x in (*self.adjoint, np.asarray(self.slope))]

    def run(self, revolver):
        self.rewind()
        revolver.apply_forward()
        buffered = isinstance(revolver.checkpoint, ours.Buffers)
        live = revolver.checkpoint.get_data(self.steps) if buffered else self.at(self.steps)
        last = [x.tobytes() for x in live]
        revolver.apply_reverse()
        return last + self.result()

    def keep_all(self):
        self.rewind()
        states = [[x.copy() for x in self.at(0)]]
        for t in range(self.steps):
            self.apply(t, t + 1)
            states.append([x.copy() for x in self.at(t + 1)])
        last = [x.tobytes() for x in states[-1]]
        for t in reversed(range(self.steps)):
            for at in (t, t + 1):
                for x, y in zip(self.at(at), states[at]):
                    x[...] = y
            self.reverse(t, self.at(t), self.at(t + 1))
        return last + self.result()


COPY = {"scheme": "custom", "compressor": lambda _, a: a.copy(), "decompressor": lambda _, a: a}


def revolver_of(program, folder):
    """A Revolver of gpuzip of a drawn kind."""
    draw, n = program.draw, program.steps
    c = draw.choice((None, 1, 2, n - 1 or 1, n + 2, draw.randint(1, n)))
    few = {"checkpointing_snaps": draw.randint(1, n)}
    levels = [
        ours.NumpyStorage(program.size, draw.randint(1, 4), program.dtype),
        ours.DiskStorage(program.size, draw.randint(1, 5), program.dtype, filedir=folder),
    ][draw.randint(0, 1) :]
    name, make = draw.choice(
        [
            ("PyRevolve's rule", lambda *of: ours.Revolver(*of, None, n)),
            ("a number", lambda *of: ours.SingleLevelRevolver(*of, c, n)),
            ("single steps", lambda *of: ours.MemoryRevolver(*of, c, n, range_actions=False)),
            (
                "disk",
                lambda *of: ours.DiskRevolver(
                    *of, c, n, filedir=folder, singlefile=draw.random() < 0.5
                ),
            ),
            ("levels", lambda *of: ours.MultiLevelRevolver(*of, n, levels)),
            ("custom", lambda *of: ours.Revolver(*of, c, n, compression_params=COPY)),
            ("lossless", lambda *of: ours.Revolver(*of, c, n, compression_params={"scheme": None})),
            (
                "budget",
                lambda *of: ours.Revolver(*of, None, n, host_budget=draw.choice(("1M", "64K"))),
            ),
            (
                "zcut",
                lambda *of: ours.Revolver(*of, None, n, checkpointing_algorithm="zcut", **few),
            ),
            (
                "uniform",
                lambda *of: ours.Revolver(*of, None, n, checkpointing_algorithm="uniform", **few),
            ),
            ("all", lambda *of: ours.Revolver(*of, None, n, checkpointing_algorithm="store-all")),
        ]
    )
    of = list(program.of(program.buffered))
    return f"{name}, c = {c}, buffers: {program.buffered}", make(*of)


def theirs_of(program, folder):
    """A Revolver of PyRevolve of a drawn kind."""
    draw, n = program.draw, program.steps
    c = draw.randint(1, n)
    make = draw.choice(
        (
            lambda *of: pyrevolve.Revolver(*of, c, n),
            lambda *of: pyrevolve.Revolver(*of, None, n),
            lambda *of: pyrevolve.DiskRevolver(
                *of, c, n, filedir=folder + os.sep, singlefile=draw.random() < 0.5
            ),
        )
    )
    return make(*program.of())


class Random(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name

    def test_programs_beside_pyrevolve(self):
        # Files that PyRevolve leaves open.
        warnings.simplefilter("ignore", ResourceWarning)
        beside = 0
        for seed in range(CASES):
            program = Program(seed, one_type=seed % 2 == 0)
            name, revolver = revolver_of(program, self.folder)
            for shot in range(program.draw.randint(1, 3)):
                expected = program.keep_all()
                if seed % 2 == 0 and program.steps > 1:
                    self.assertEqual(
                        program.run(theirs_of(program, self.folder)), expected, (seed, shot)
                    )
                    beside += 1
                self.assertEqual(program.run(revolver), expected, (seed, shot, name))
                program.begin()
        self.assertGreater(beside, CASES // 2)

    def test_exceptions_and_second_sweeps(self):
        stopped = dict.fromkeys(("apply", "reverse", "get_data", "get_data_location"), 0)
        for seed in range(CASES):
            program = Program(seed + 10**6, one_type=False)
            name, revolver = revolver_of(program, self.folder)
            expected, draw = program.keep_all(), program.draw
            program.rewind()
            wrong = draw.choice(("reverse first", "reverse twice", "forward twice", *stopped))
            program.fails = (wrong, draw.randint(0, program.steps))
            try:
                if wrong != "reverse first":
                    revolver.apply_forward()
                if wrong == "forward twice":
                    program.rewind()
                    revolver.apply_forward()
                revolver.apply_reverse()
                self.assertNotEqual(wrong, "reverse first")
                self.assertEqual(program.result(), expected[-len(program.result()) :], (seed, name))
            except Stop as reason:
                stopped[str(reason)] += 1
            except gpuzip.StateError:
                self.assertEqual(wrong, "reverse first", (seed, name))
            if wrong != "forward twice":
                found = program.result()
                with self.assertRaisesRegex(gpuzip.StateError, "apply_reverse follows"):
                    revolver.apply_reverse()
                self.assertEqual(program.result(), found)
            program.fails = None
            self.assertEqual(program.run(revolver), expected, (seed, name, wrong))
        self.assertTrue(all(stopped.values()), stopped)

    def test_threads(self):
        for seed in range(0, CASES, 4):
            programs = [Program(seed + k + 2 * 10**6, one_type=False) for k in range(4)]
            revolvers = [revolver_of(program, self.folder)[1] for program in programs]
            expected, found = [program.keep_all() for program in programs], [None] * 4

            def work(k):
                found[k] = programs[k].run(revolvers[k])

            threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, expected, seed)

    def test_a_sweep_within_a_sweep_is_refused(self):
        program = Program(5, one_type=True)
        of = list(program.of())
        revolver = ours.Revolver(*of, 2, program.steps)
        for place in ("apply_forward", "apply_reverse"):
            program.rewind()
            revolver.fwd_operator = ours.Operator()
            revolver.fwd_operator.apply = lambda **_: getattr(revolver, place)()
            with self.assertRaisesRegex(gpuzip.StateError, "one sweep at a time"):
                revolver.apply_forward()
            with self.assertRaisesRegex(gpuzip.StateError, "apply_reverse follows"):
                revolver.apply_reverse()
        revolver.fwd_operator = program
        self.assertEqual(program.run(revolver), program.keep_all())

    def test_codecs_keep_their_bound_at_every_restore(self):
        lossy = 0
        for seed in range(CASES):
            program = Program(seed + 3 * 10**6, one_type=True)
            draw, n = program.draw, program.steps
            bound = 10.0 ** -draw.randint(2, 5)
            params = draw.choice(
                (
                    {"scheme": "zfp", "tolerance": bound, "parallel": draw.random() < 0.5},
                    {"scheme": "lorenzo", "error_bound_mode": "absolute", "error_bound": bound},
                    {"scheme": "cuszp", "error_bound_mode": "absolute", "error_bound": bound},
                )
            )
            saved, waiting = {}, []

            def check(t, waiting=waiting, saved=saved, bound=bound, program=program):
                for at in waiting:
                    for x, y in zip(program.at(at), saved[at]):
                        self.assertEqual(x.dtype, y.dtype)
                        self.assertLessEqual(
                            np.abs(x - y).max(), bound * 1.0001 + 1e-6, (seed, params)
                        )
                waiting.clear()

            def get_data(t, saved=saved, program=program):
                saved[t] = [x.copy() for x in program.at(t)]
                return program.at(t)

            def get_data_location(t, waiting=waiting, program=program):
                waiting.append(t)
                return program.at(t)

            program.rewind()
            checkpoint = ours.Checkpoint()
            checkpoint.get_data, checkpoint.get_data_location = get_data, get_data_location
            forward = ours.Operator()
            forward.apply = lambda t_start, t_end, program=program, check=check: (
                check(t_start),
                program.apply(t_start, t_end),
            )
            revolver = ours.Revolver(
                checkpoint,
                forward,
                program.of()[2],
                draw.randint(1, n),
                n,
                compression_params=params,
            )
            revolver.apply_forward()
            revolver.apply_reverse()
            lossy += any(np.isfinite(x).all() for x in program.adjoint)
        self.assertEqual(lossy, CASES)


if __name__ == "__main__":
    unittest.main()
