"""`gpuzip.adjoint`: bits and counts of a loop that keeps every state, restart, progress."""

import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import gpuzip
from support import SCHEDULES, needs_numpy, numpy

N = 40


class Problem:
    """A chaotic state of two arrays, in which every bit counts, its adjoint and a gradient by the model. `form` makes
    the state of the two arrays, and `parts` has the arrays of a state. `swaps` puts new arrays into the state."""

    def __init__(self, kind, swaps=False):
        self.kind, self.swaps = kind, swaps
        self.model = 3.6 + 0.006 * numpy.arange(64)
        self.gradient, self.misfit = numpy.zeros(64), numpy.zeros(1)
        self.steps, self.reversed, self.fails_at = [], [], None

    def form(self, u, v):
        if self.kind == "array":
            return numpy.stack([u, v])
        return {"u": u, "v": v} if self.kind == "dict" else [u, v]

    def parts(self, state):
        return list(state.values()) if self.kind == "dict" else list(state)

    def initial(self):
        return self.form(numpy.linspace(0.2, 0.4, 64), numpy.linspace(0.5, 0.7, 64))

    def set(self, state, u, v):
        if self.swaps:
            state[0 if self.kind == "list" else "u"], state[1 if self.kind == "list" else "v"] = u, v
        else:
            for to, values in zip(self.parts(state), (u, v)):
                to[...] = values

    def step(self, state, t):
        if len(self.steps) == self.fails_at:
            raise KeyboardInterrupt
        self.steps.append(t)
        u, v = self.parts(state)
        self.set(state, self.model * u * (1 - u), 0.5 * (u.copy() + v) + 1e-3 * t)

    def adjoint_step(self, state, t, adjoint):
        self.reversed.append(t)
        (u, _), (a, b) = self.parts(state), self.parts(adjoint)
        self.gradient += a * u * (1 - u)
        self.set(adjoint, 1e-1 * a * self.model * (1 - 2 * u) + 0.5 * b, 0.5 * b + 1e-6 * t)

    def final(self, state):
        u, v = self.parts(state)
        self.misfit += u.sum()
        return self.form(u - 0.5, v**2)

    def run(self, **keys):
        if "persist_dir" in keys:
            keys = {"keep": {"gradient": self.gradient, "misfit": self.misfit}, **keys}
        keys = {"final_adjoint": self.final, "log_level": "error", **keys}
        return gpuzip.adjoint(self.step, self.adjoint_step, self.initial(), N, **keys)

    def killed(self, fails_at, **keys):
        """Runs until a step fails, and writes the actions since the step before."""

        def due(_session):
            return gpuzip.DUE_YES if len(self.steps) == fails_at else gpuzip.DUE_NO

        self.fails_at = fails_at
        with mock.patch.object(gpuzip.Session, "persist_due", due):
            try:
                self.run(**keys)
            except KeyboardInterrupt:
                return
        raise AssertionError("the run was not killed")

    def stored(self):
        """The adjoint by a loop that keeps every state, as bytes, and the gradient."""
        state, states = self.initial(), []
        for t in range(N):
            states.append(self.form(*map(numpy.copy, self.parts(state))))
            self.step(state, t)
        adjoint = self.final(state)
        for t in reversed(range(N)):
            self.adjoint_step(states[t], t, adjoint)
        return self.bits(adjoint)

    def bits(self, adjoint):
        return [part.tobytes() for part in (*self.parts(adjoint), self.gradient, self.misfit)]


KINDS = [("array", False), ("list", False), ("dict", False), ("list", True), ("dict", True)]


@needs_numpy
class Adjoint(unittest.TestCase):
    def test_bits_and_counts_of_every_schedule_and_form(self):
        for keys in (*SCHEDULES, {"compressor": "lossless", "checkpointing_snaps": 5}, {"memory": "8K"}):
            for kind in KINDS:
                with self.subTest(keys=keys, kind=kind):
                    run = Problem(*kind)
                    found = run.bits(run.run(**keys))
                    self.assertEqual(found, Problem(*kind).stored())
                    known = {"host_budget" if key == "memory" else key: value for key, value in keys.items()}
                    arrays = run.initial() if kind[0] == "array" else run.parts(run.initial())
                    plan = gpuzip.plan(arrays, N, log_level="error", **known)
                    self.assertEqual(len(run.steps), plan.forward_steps + 1)
                    self.assertEqual(run.steps.count(N - 1), 1)
                    self.assertEqual(run.reversed, list(reversed(range(N))))

    def test_states_are_exported_once_as_they_were(self):
        for kind in KINDS:
            run = Problem(*kind)
            state, states = run.initial(), []
            for t in range(N + 1):
                states.append([part.copy() for part in run.parts(state)])
                if t < N:
                    run.step(state, t)
            # A lossy codec changes the states that are computed again.
            lossy = {"compressor": "fp16", "checkpointing_snaps": 2}
            for keys, expected in (
                ({"export_every": 7}, range(0, N + 1, 7)),
                ({"export_every": 1, **lossy}, range(N + 1)),
                ({"export_states": iter([N, 3])}, [3, N]),
                ({"export_states": numpy.array([0])}, [0]),
            ):
                names = {"array": ["field0"], "list": ["field0", "field1"], "dict": ["u", "v"]}[kind[0]]
                files = {f"{name}-{ts:09}.npy" for name in names for ts in expected}
                with self.subTest(kind=kind, keys=keys), tempfile.TemporaryDirectory() as folder:
                    written = []

                    def export(session, folder, ts, *arrays):
                        written.append(ts)
                        exported(session, folder, ts, *arrays)

                    exported = gpuzip.Session.export
                    with mock.patch.object(gpuzip.Session, "export", export):
                        Problem(*kind).run(export_dir=folder, **keys)
                    self.assertEqual((written, set(os.listdir(folder))), (list(expected), files))
                    for ts in expected:
                        found = [numpy.load(f"{folder}/{name}-{ts:09}.npy") for name in names]
                        parts = [numpy.stack(states[ts])] if kind[0] == "array" else states[ts]
                        for one, other in zip(found, parts):
                            self.assertEqual((one.shape, one.tobytes()), (other.shape, other.tobytes()))

    def test_a_run_that_goes_on_exports_the_rest(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as states:
            keys = {"persist_dir": folder, "checkpointing_snaps": 4, "export_dir": states, "export_every": 1}
            run = Problem("list")
            run.killed(N // 2, **keys)
            before = {name: pathlib.Path(states, name).read_bytes() for name in os.listdir(states)}
            self.assertEqual(len(before), 2 * (N // 2 + 1))
            run.fails_at = None
            run.run(**keys)
            after = {name: pathlib.Path(states, name).read_bytes() for name in os.listdir(states)}
            self.assertEqual(len(after), 2 * (N + 1))
            self.assertEqual({name: after[name] for name in before}, before)

    def test_another_call_writes_its_own_states(self):
        with tempfile.TemporaryDirectory() as states:
            for start in (0.25, 0.5):
                ends = []

                def step(u, t):
                    u *= 0.9

                def final_adjoint(u):
                    ends.append(u.copy())
                    return u.copy()

                keys = {"export_dir": states, "export_every": 20, "checkpointing_snaps": 3}
                state = numpy.full(5, start)
                gpuzip.adjoint(step, lambda u, back, t: None, state, 20, final_adjoint=final_adjoint, **keys)
                found = [numpy.load(os.path.join(states, f"field0-{ts:09}.npy")) for ts in (0, 20)]
                self.assertEqual([one.tolist() for one in found], [[start] * 5, ends[0].tolist()])

    def test_impossible_exports_are_refused(self):
        run = Problem("list")
        for keys, part in (
            ({"export_every": 2}, "give export_dir"),
            ({"export_states": []}, "give export_dir"),
            ({"export_dir": "x"}, "give export_every=k"),
            ({"export_dir": "x", "export_every": 1, "export_states": [1]}, "give export_every=k"),
            ({"export_dir": "x", "export_every": 0}, "export_every = 0"),
            ({"export_dir": "x", "export_states": 5}, "export_states = 5"),
            ({"export_dir": "x", "export_states": [N + 1]}, f"export_states has {N + 1}"),
            ({"export_dir": "x", "export_states": [-1]}, "export_states has -1"),
        ):
            with self.subTest(keys=keys), self.assertRaisesRegex(gpuzip.ArgumentError, part):
                run.run(**keys)
        with self.assertRaisesRegex(TypeError, "whole number"):
            run.run(export_dir="x", export_states=[0.5])

    def test_the_states_of_the_caller_stay_as_they_are(self):
        run = Problem("dict", True)
        state = run.initial()
        before = [part.copy() for part in run.parts(state)]
        final = run.final(state)
        kept = [part.copy() for part in run.parts(final)]
        gpuzip.adjoint(run.step, run.adjoint_step, state, N, final_adjoint=final, checkpointing_snaps=3)
        for part, values in zip([*run.parts(state), *run.parts(final)], before + kept):
            self.assertTrue((part == values).all())

    def test_one_step_and_no_final_adjoint(self):
        seen = []

        def adjoint_step(u, t, v):
            seen.append((t, u.tolist(), v.tolist()))
            v += u

        def step(u, t):
            u *= 2

        found = gpuzip.adjoint(step, adjoint_step, numpy.ones(2), 1)
        self.assertEqual((seen, found.tolist()), ([(0, [1, 1], [0, 0])], [1, 1]))

    def test_of_a_tuple_a_list_is_made(self):
        run = Problem("list", True)
        state = tuple(run.initial())
        found = gpuzip.adjoint(run.step, run.adjoint_step, state, N, final_adjoint=lambda u: tuple(run.final(u)), checkpointing_snaps=3)
        self.assertEqual((type(found), run.bits(found)), (list, Problem("list", True).stored()))

    def test_a_lossy_codec_keeps_its_bound(self):
        seen = {}

        def step(u, t):
            u += 0.01 * numpy.sin(u + t)

        def check(u, t, v):
            seen[t] = u.copy()

        u = numpy.linspace(0, 1, 4096)
        gpuzip.adjoint(step, check, u, 20, checkpointing_algorithm="store-all", compressor="lorenzo", error_bound=1e-4,
                       error_bound_mode="absolute")
        errors = []
        for t in range(20):
            errors.append(float(abs(seen[t] - u).max()))
            step(u, t)
        self.assertLessEqual(max(errors), 1e-4)
        self.assertGreater(max(errors), 0)

    def test_an_array_outside_the_state_is_found_and_the_field_named(self):
        hidden = numpy.ones(3)

        def step(state, t):
            state["v"] += 0.1 * hidden
            if hidden_changes:
                hidden[1] *= 0.9

        def adjoint_step(state, t, adjoint):
            pass

        state = {"u": numpy.ones(2), "v": numpy.zeros(3)}
        for hidden_changes in (False, True):
            if not hidden_changes:
                gpuzip.adjoint(step, adjoint_step, state, 9, check=3)
                continue
            with self.assertRaisesRegex(gpuzip.Error, r"field 1 \(v\) of u\(.*the first at index 1 .*not a function"):
                gpuzip.adjoint(step, adjoint_step, state, 9, check=3)

    def test_what_breaks_the_rules_says_so(self):
        def step(u, t):
            return u * 2

        def fine(*_):
            pass

        def grows(state, t):
            state["w"] = state["u"].copy()

        def doubles(state, t):
            state["v"] = state["u"]

        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        one, two = numpy.ones(3), {"u": numpy.ones(3), "v": numpy.ones(3)}
        keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 2, "log_level": "error"}
        for error, text, call in (
            (TypeError, r"step returned a ndarray: it must change its argument `state`", lambda: gpuzip.adjoint(step, fine, one, 9, **keys)),
            (TypeError, "`adjoint` and return None", lambda: gpuzip.adjoint(fine, lambda u, t, v: v, one, 9, **keys)),
            (gpuzip.ShapeError, "arrays of state from 2 to 3", lambda: gpuzip.adjoint(grows, fine, two, 9, **keys)),
            (gpuzip.ArrayError, "one array into two places of state", lambda: gpuzip.adjoint(doubles, fine, two, 9, **keys)),
            (gpuzip.ArrayError, r"state\['v'\] is a float", lambda: gpuzip.adjoint(fine, fine, {"u": one, "v": 1.0}, 9)),
            (gpuzip.ArgumentError, "state has no arrays", lambda: gpuzip.adjoint(fine, fine, {}, 9)),
            (gpuzip.ArgumentError, "n = 0", lambda: gpuzip.adjoint(fine, fine, one, 0)),
            (gpuzip.ShapeError, r"has \(1,\) where adjoint has the shape \(3,\)", lambda: gpuzip.adjoint(fine, fine, one, 9, final_adjoint=numpy.ones(1), **keys)),
            (gpuzip.ShapeError, "final_adjoint has 1 arrays, and adjoint has 2", lambda: gpuzip.adjoint(fine, fine, [one, one], 9, final_adjoint=[one], **keys)),
            (gpuzip.ShapeError, "final_adjoint has no array 'v'", lambda: gpuzip.adjoint(fine, fine, two, 9, final_adjoint={"u": one, "w": one}, **keys)),
            (TypeError, "final_adjoint is a ndarray, and the state is a dict", lambda: gpuzip.adjoint(fine, fine, two, 9, final_adjoint=one, **keys)),
            (TypeError, r"final_adjoint returned None: .* adjoint of u\(n\)", lambda: gpuzip.adjoint(fine, fine, one, 9, final_adjoint=fine, **keys)),
            (gpuzip.ConfigError, "memory is host_budget", lambda: gpuzip.adjoint(fine, fine, one, 9, memory="1K", host_budget="1K")),
            (gpuzip.ConfigError, "^memory = '2 parsecs': use a byte count", lambda: gpuzip.adjoint(fine, fine, one, 9, memory="2 parsecs")),
            (gpuzip.ConfigError, "^memory = 0: give", lambda: gpuzip.adjoint(fine, fine, one, 9, memory=0)),
            (gpuzip.BudgetError, "raise .*host_budget, 64 bytes, to at least that; memory is host_budget here$", lambda: gpuzip.adjoint(fine, fine, one, 9, memory=64)),
            (gpuzip.BudgetError, "raise .*host_budget, 64 bytes, to at least that$", lambda: gpuzip.adjoint(fine, fine, one, 9, host_budget=64)),
            (gpuzip.ArgumentError, "give persist_dir, too", lambda: gpuzip.adjoint(fine, fine, one, 9, keep={"g": one})),
            (gpuzip.ArrayError, r"keep\['J'\] is a float, .* such as numpy.zeros\(1\)", lambda: gpuzip.adjoint(fine, fine, one, 9, keep={"J": 0.0}, persist_dir=folder.name)),
            (gpuzip.ArrayError, r"keep\['J'\] is a float32", lambda: gpuzip.adjoint(fine, fine, one, 9, keep={"J": one.astype("f")[0]}, persist_dir=folder.name)),
            *((gpuzip.ConfigError, key, lambda key=key, value=value: gpuzip.adjoint(fine, fine, one, 9, **{key: value}))
              for key, value in (("zero_copy", True), ("adjoint_every", 2), ("sweeps", 2))),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                call()


@needs_numpy
class Restart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.keys = {"persist_dir": folder.name, "checkpointing_snaps": 3}
        self.keys["checkpointing_algorithm"] = "revolve"

    def test_a_run_that_was_killed_goes_on_with_its_bits(self):
        expected = Problem("dict").stored()
        whole = Problem("dict")
        whole.run(checkpointing_algorithm="revolve", checkpointing_snaps=3)
        total = len(whole.steps)
        for fails_at in (0, 1, 17, N - 1, N, N + 1, total // 2, total - 1):
            for kind in (("dict", False), ("dict", True)):
                with self.subTest(fails_at=fails_at, kind=kind):
                    killed, again = Problem(*kind), Problem(*kind)
                    killed.killed(fails_at, **self.keys)
                    self.assertEqual(again.bits(again.run(**self.keys)), expected)
                    # The first adjoint step begins with a time step, which is done again with it.
                    self.assertEqual(len(killed.steps) + len(again.steps), total)
                    self.assertEqual(killed.reversed + again.reversed, list(reversed(range(N))))
                    # A run that has ended leaves nothing to go on from.
                    third = Problem(*kind)
                    self.assertEqual(third.bits(third.run(**self.keys)), expected)
                    self.assertEqual(len(third.steps), total)

    def test_a_run_that_has_ended_is_followed_by_any_other(self):
        run = Problem("list")
        run.killed(N, **self.keys)
        self.assertTrue([name for name in os.listdir(self.keys["persist_dir"]) if name.endswith(".gen")])
        run.fails_at = None
        run.run(**self.keys)
        self.assertEqual([name for name in os.listdir(self.keys["persist_dir"]) if name.endswith(".gen")], [])
        other = Problem("dict")
        state = {"u": numpy.ones(7)}
        gpuzip.adjoint(lambda state, t: None, lambda state, t, adjoint: other.reversed.append(t), state, 9, **self.keys)
        self.assertEqual(other.reversed, list(reversed(range(9))))

    def test_files_of_another_run_are_refused_and_change_nothing(self):
        killed = Problem("list")
        killed.killed(N + 9, **self.keys)
        other = Problem("list")
        other.gradient[:] = 7
        initial = other.initial()
        initial[1][5] += 1e-9
        with mock.patch.object(other, "initial", lambda: initial):
            with self.assertRaisesRegex(gpuzip.StateError, "are not of this run"):
                other.run(**self.keys)
        misfit = {"misfit": other.misfit}
        for keep in ({"other": other.gradient, **misfit}, misfit, {"gradient": numpy.zeros(3), **misfit}):
            with self.assertRaisesRegex(gpuzip.StateError, "are not of this run"):
                other.run(keep=keep, **self.keys)
        # Other differences are the library's to tell.
        with self.assertRaisesRegex(gpuzip.ConfigError, "steps = 40, and this run has steps = 41"):
            gpuzip.adjoint(other.step, other.adjoint_step, other.initial(), N + 1, **self.keys)
        with self.assertRaisesRegex(gpuzip.ConfigError, "compressor = none, and this run has compressor = lossless"):
            other.run(compressor="lossless", **self.keys)
        self.assertTrue((other.gradient == 7).all())
        self.assertEqual(other.steps, [])
        again = Problem("list")
        self.assertEqual(again.bits(again.run(**self.keys)), Problem("list").stored())

    def test_a_requested_stop(self):
        code = """if True:
            import sys, gpuzip
            sys.path.insert(0, sys.argv[1])
            from test_adjoint import Problem
            run, keys = Problem("array"), eval(sys.argv[2])
            step = run.step
            def stops(state, t):
                step(state, t)
                if len(run.steps) == 50:
                    gpuzip.request_stop()
            run.step = stops
            try:
                run.run(stop_budget_s=60, **keys)
            except gpuzip.Stopped as stop:
                print(stop)
                raise"""
        words = [sys.executable, "-c", code, os.path.dirname(os.path.abspath(__file__)), repr(self.keys)]
        done = subprocess.run(words, capture_output=True, text=True)
        told = f"the run was stopped; its restart files are in {self.keys['persist_dir']}\n"
        self.assertEqual((done.returncode, done.stderr), (3, f"gpuzip.adjoint: {told}"))
        self.assertEqual(done.stdout, told)
        again, whole = Problem("array"), Problem("array")
        whole.run(checkpointing_algorithm="revolve", checkpointing_snaps=3)
        self.assertEqual(again.bits(again.run(**self.keys)), Problem("array").stored())
        self.assertEqual(len(again.steps), len(whole.steps) - 50)


class Bar:
    """What the tests know of a bar of tqdm."""

    made = []

    def __init__(self, **options):
        self.options, self.done = options, options["initial"]
        Bar.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.closed = True

    def update(self, count):
        self.done += count


@needs_numpy
class Progress(unittest.TestCase):
    def setUp(self):
        Bar.made = []
        auto = types.ModuleType("tqdm.auto")
        auto.tqdm = Bar
        patch = mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto})
        patch.start()
        self.addCleanup(patch.stop)

    def test_the_bar_ends_at_its_total(self):
        for keys in SCHEDULES:
            with self.subTest(keys=keys):
                run = Problem("dict")
                self.assertEqual(run.bits(run.run(progress=True, **keys)), Problem("dict").stored())
                bar = Bar.made[-1]
                self.assertEqual((bar.options["total"], bar.done), (len(run.steps) - 1 + N, len(run.steps) - 1 + N))
                self.assertEqual((bar.options["unit"], bar.closed), ("step", True))

    def test_a_loop_over_a_session_with_ranges(self):
        u = numpy.ones(4)
        with gpuzip.Session(u, 30, checkpointing_snaps=3, range_actions=True, adjoint_every=3) as session:
            seen = []
            for action in gpuzip.progress(session):
                seen.append(action)
                if action.type == gpuzip.SAVE:
                    session.save(action.ts)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts)
            stats = session.stats()
        self.assertEqual(Bar.made[-1].done, stats.forward_steps + stats.backward_steps)
        self.assertEqual(Bar.made[-1].done, Bar.made[-1].options["total"])
        self.assertEqual([a.it for a in seen], list(range(len(seen))))

    def test_a_run_that_goes_on_begins_where_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = {"persist_dir": folder, "checkpointing_snaps": 3, "progress": True}
            killed, again = Problem("dict"), Problem("dict")
            killed.killed(60, **keys)
            again.run(**keys)
        first, second = Bar.made
        self.assertEqual(second.options["initial"], first.done)
        self.assertEqual(second.done, second.options["total"])

    def test_without_the_package_the_error_says_what_to_install(self):
        run = Problem("dict")
        with mock.patch.dict(sys.modules, {"tqdm": None, "tqdm.auto": None}):
            with self.assertRaisesRegex(ImportError, "pip install tqdm"):
                run.run(progress=True)
        self.assertEqual(run.steps, [])


if __name__ == "__main__":
    unittest.main()
