"""gpuzip.checkpoint_schedules: its schedules pass the tests of checkpoint_schedules, and the schedules of
that package reverse their steps as traces of gpuzip."""

import contextlib
import importlib.metadata
import io
import os
import random
import sys
import tempfile
import unittest
import warnings

import checkpoint_schedules as theirs
from checkpoint_schedules import Forward, StorageType

import gpuzip
from gpuzip.checkpoint_schedules import GpuzipSchedule, actions
from sources import unpacked
from support import benchmark, initial, reverse, states

# Of MixedCheckpointSchedule without Numba.
warnings.filterwarnings("ignore", "Numba not available")
SIZES = [(n, s) for n in (1, 2, 3, 5, 10, 37, 100) for s in (1, 2, 3, 5, 8, 20, 60)]
ALGORITHMS = {
    "revolve": ("checkpointing_snaps",),
    "zcut": ("checkpointing_snaps",),
    "uniform": ("checkpointing_snaps",),
    "two-level": ("checkpointing_snaps", "cache_capacity"),
    "hrevolve": ("checkpointing_snaps", "cache_capacity"),
    "store-all": (),
}


def quiet(function, *arguments):
    """PeriodicDiskRevolve prints its periods, and so do the tests."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


def steps_of(schedule, n):
    """Time steps of all Forwards up to the end of the first adjoint calculation."""
    steps = 0
    for action in schedule:
        if isinstance(action, Forward):
            end = min(action.n1, n)
            steps += end - action.n0
            if end == n and schedule.max_n is None:
                schedule.finalize(n)
        elif isinstance(action, theirs.EndReverse):
            return steps


class CheckpointSchedules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = unpacked("checkpoint_schedules", importlib.metadata.version("checkpoint_schedules"))
        sys.path.insert(0, os.path.join(folder, "tests"))
        import test_validity

        cls.validity = staticmethod(test_validity.test_validity)
        cls.schedules = [
            getattr(test_validity, name)
            for name in (
                "h_revolve disk_revolve multistage twolevel_binomial periodic_disk revolve mixed "
                "single_disk_copy single_disk_move single_memory"
            ).split()
        ]

    def test_our_schedules_pass_their_test(self):
        for algorithm, numbers in ALGORITHMS.items():
            for n, s in SIZES:
                keys = {"checkpointing_algorithm": algorithm, **dict(zip(numbers, (s, 2)))}
                for ram in (None, 0, 1, 3):

                    def make(n, _):
                        schedule = GpuzipSchedule(n, ram=ram, **keys)
                        live = schedule.summary().max_live
                        in_ram = live if ram is None else min(ram, live)
                        # RAM has the data of one adjoint step beside the states.
                        limits = {StorageType.RAM: in_ram + 1, StorageType.DISK: live - in_ram}
                        for kind, used in limits.items():
                            self.assertEqual(schedule.uses_storage_type(kind), used > 0)
                        return schedule, limits, 1

                    quiet(self.validity, make, n, (s,))
                schedule = GpuzipSchedule(n, **keys)
                expected = gpuzip.Schedule(n, **keys).summary().forward_steps
                self.assertEqual(schedule.summary().forward_steps, expected)
                self.assertFalse(schedule.is_exhausted)
                self.assertEqual(steps_of(schedule, n), expected + n)
                self.assertTrue(schedule.is_exhausted)

    def test_their_schedules_are_traces_that_reverse_their_steps(self):
        done = dict.fromkeys((make.__name__ for make in self.schedules), 0)
        for make in self.schedules:
            for n, s in SIZES:
                if s >= max(2, n) or quiet(make, n, s)[0] is None:
                    continue
                found = quiet(lambda: actions(make(n, s)[0], n))
                summary = gpuzip.validate(found)
                self.assertEqual(summary.steps, n)
                steps = quiet(lambda: steps_of(make(n, s)[0], n)) - n
                name = make.__name__
                done[name] += 1
                if name.endswith("revolve") or name in ("multistage", "periodic_disk"):
                    self.assertEqual(summary.forward_steps, steps, (name, n, s))
                elif name == "twolevel_binomial":
                    # Steps behind the last stored state, which gpuzip leaves to the application.
                    self.assertIn(steps - summary.forward_steps, (0, 1, 2))
                else:
                    self.assertLess(summary.forward_steps, steps + n)
                if name in ("revolve", "multistage", "mixed"):
                    self.assertLessEqual(summary.max_live, s)
        self.assertTrue(all(count > 10 for count in done.values()), done)

    def test_both_revolves_have_one_count(self):
        for n, s in SIZES:
            ours = gpuzip.Schedule(n, checkpointing_algorithm="revolve", checkpointing_snaps=s)
            expected = ours.summary().forward_steps + n
            self.assertEqual(steps_of(theirs.Revolve(n, s), n), expected)
            self.assertEqual(steps_of(theirs.MultistageCheckpointSchedule(n, s, 0), n), expected)

    def test_sessions_run_their_schedules(self):
        n, expected = 40, states(40)
        for schedule in (
            theirs.HRevolve(n, 2, 3),
            theirs.MixedCheckpointSchedule(n, 5),
            theirs.TwoLevelCheckpointSchedule(7, 2),
            theirs.SingleMemoryStorageSchedule(),
            GpuzipSchedule(n, checkpointing_algorithm="revolve", checkpointing_snaps=3),
        ):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "trace")
                gpuzip.write_trace(path, actions(schedule, n))
                u = initial()
                with gpuzip.Session(u, n, checkpointing_algorithm="trace", trace_file_path=path) as session:
                    done = reverse(session, u, expected)
            self.assertEqual(sum(a.type == gpuzip.BACKWARD for a in done), n)

    def test_gradients_of_pyadjoint(self):
        import pyadjoint

        def gradient(n, schedule=None):
            tape = pyadjoint.Tape()
            with pyadjoint.set_working_tape(tape):
                pyadjoint.continue_annotation()
                if schedule is not None:
                    tape.enable_checkpointing(schedule)
                control = x = pyadjoint.AdjFloat(0.2)
                for _ in tape.timestepper(iter(range(n))):
                    x = x * 3.7 * (1.0 - x)
                functional = pyadjoint.ReducedFunctional(x * x, pyadjoint.Control(control))
                pyadjoint.pause_annotation()
                # The second functional is of another control, and computes all states again.
                return x, functional.derivative(), functional(pyadjoint.AdjFloat(0.3)), functional.derivative()

        for n in (2, 10, 40):
            expected = gradient(n)
            self.assertNotEqual(expected[1], expected[3])
            for algorithm in ("revolve", "uniform", "zcut"):
                schedule = GpuzipSchedule(n, checkpointing_algorithm=algorithm, checkpointing_snaps=4)
                self.assertEqual(gradient(n, schedule), expected)

    def test_derivatives_at_a_second_control(self):
        import pyadjoint

        # The control enters each step, and the step is not linear; or it is the initial state.
        steps = {
            "factor": lambda u, m: u * m,
            "square": lambda u, m: 0.9 * u * u + 0.1 * m,
            "initial": lambda u, m: 3.7 * u * (1.0 - 0.3 * u),
        }

        def found(step, schedule=None):
            """The derivative at 1, values and derivatives at 1.3 and 0.7, and what comes after them."""
            tape = pyadjoint.Tape()
            with pyadjoint.set_working_tape(tape):
                pyadjoint.continue_annotation()
                if schedule is not None:
                    tape.enable_checkpointing(schedule)
                m = u = pyadjoint.AdjFloat(1.0)
                for _ in tape.timestepper(iter(range(6))):
                    u = step(u, m)
                functional = pyadjoint.ReducedFunctional(0.5 * u, pyadjoint.Control(m))
                pyadjoint.pause_annotation()
                right = [functional.derivative()]
                for at in (1.3, 0.7):
                    right += [functional(pyadjoint.AdjFloat(at)), functional.derivative()]
                rest = []
                for call in (
                    functional.derivative,
                    lambda: functional.hessian(pyadjoint.AdjFloat(1.0)),
                    lambda: functional.tlm(pyadjoint.AdjFloat(1.0)),
                ):
                    try:
                        rest.append(call())
                    except (pyadjoint.checkpointing.CheckpointError, TypeError) as reason:
                        rest.append(type(reason).__name__)
                return right, rest

        for name, step in steps.items():
            expected, rest = found(step)
            # By a difference of the step itself.
            for at, derivative in zip((1.0, 1.3, 0.7), expected[::2]):
                ends = []
                for m in (at + 1e-6, at - 1e-6):
                    u = m
                    for _ in range(6):
                        u = step(u, m)
                    ends.append(0.5 * u)
                self.assertAlmostEqual(derivative / (ends[0] - ends[1]) * 2e-6, 1, 6)
            self.assertEqual(rest[0], expected[-1])
            for algorithm, snaps in (("revolve", 2), ("uniform", 2), ("zcut", 3), ("store-all", 0)):
                schedule = GpuzipSchedule(6, checkpointing_algorithm=algorithm, checkpointing_snaps=snaps)
                ours, after = found(step, schedule)
                self.assertEqual(ours, expected, (name, algorithm))
                # What the page says of all schedules in pyadjoint.
                self.assertEqual(after[:2], ["CheckpointError", "TypeError"])
                self.assertNotAlmostEqual(after[2], rest[2])
            for wrong in (theirs.Revolve(6, 2), theirs.MultistageCheckpointSchedule(6, 2, 0), theirs.HRevolve(6, 2, 0), theirs.MixedCheckpointSchedule(6, 2, storage=StorageType.RAM)):
                values = quiet(found, step, wrong)[0]
                self.assertEqual((values[0], values[1], values[3]), (expected[0], expected[1], expected[3]))
                self.assertEqual(values == expected, name == "initial", (name, wrong))
            self.assertEqual(found(step, theirs.SingleMemoryStorageSchedule())[0], expected)

    def test_the_storage_of_a_plan_arrives(self):
        equal, field = [], gpuzip.Field(shape=32, dtype="f8")
        for seed in range(300):
            draw = random.Random(seed)
            n, snaps = draw.randint(3, 100), draw.randint(1, 60)
            algorithm = draw.choice(("auto", "revolve", "zcut", "uniform", "store-all", "two-level", "hrevolve"))
            keys = {"checkpointing_algorithm": algorithm, "host_budget": 256 * draw.randint(7, 30)}
            if draw.random() < 0.8:
                keys["disk_budget"] = 4096 * draw.randint(1, 60)
            if algorithm in ("revolve", "zcut", "uniform") and draw.random() < 0.5:
                keys["checkpointing_snaps"] = min(snaps, n)
            try:
                with gpuzip.Session(initial(32), n, backend="host", **keys) as session:
                    reverse(session, initial(32), states(n, 32))
                    stats, plan = session.stats(), session.summary()
            except gpuzip.BudgetError:
                continue
            schedule = GpuzipSchedule(n, fields=field, **keys)
            self.assertEqual(schedule.summary().forward_steps, stats.forward_steps)
            on_disk = plan.disk_bytes // 4096
            in_memory = plan.host_bytes // 256 - 4 * bool(on_disk)
            # RAM has the data of one adjoint step beside the states.
            limits = {StorageType.RAM: in_memory + 1, StorageType.DISK: on_disk}
            quiet(self.validity, lambda *_: (GpuzipSchedule(n, fields=field, **keys), limits, 1), n, (0,))
            self.assertEqual(schedule.uses_storage_type(StorageType.DISK), on_disk > 0)
            saves = [a.storage for a in schedule if isinstance(a, Forward) and a.write_ics]
            self.assertEqual(len(saves), stats.saves)
            if on_disk:
                equal.append(saves.count(StorageType.DISK) == stats.disk_writes)
        huge = {"host_budget": "100 GB", "disk_budget": "100 TB"}
        schedule = GpuzipSchedule(500, fields=[gpuzip.Field(shape=10**8, dtype="f8")], **huge)
        self.assertEqual(schedule.summary(), gpuzip.plan(gpuzip.Field(shape=10**8, dtype="f8"), 500, backend="host", range_actions=True, **huge))
        self.assertGreater(len(equal), 100)
        self.assertGreater(sum(equal), 0.98 * len(equal))

    def test_pyadjoint_stores_on_disk_what_the_plan_has_there(self):
        import pyadjoint

        class Disk(pyadjoint.tape.TapePackageData):
            """Counts the states that are stored while storing on disk is switched on."""

            on, stored = False, 0
            clear = reset = checkpoint = copy = restore_from_checkpoint = lambda *_: None

            def continue_checkpointing(self):
                self.on, self.stored = True, self.stored + 1

            def pause_checkpointing(self):
                self.on = False

        keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 20, "host_budget": 256 * 12, "disk_budget": "1M"}
        schedule = GpuzipSchedule(60, fields=gpuzip.Field(shape=32, dtype="f8"), **keys)
        tape, disk = pyadjoint.Tape(), Disk()
        with pyadjoint.set_working_tape(tape):
            pyadjoint.continue_annotation()
            with self.assertRaisesRegex(pyadjoint.checkpointing.CheckpointError, "disk checkpointing but it is not configured"):
                tape.enable_checkpointing(schedule)
            tape._package_data["disk"] = disk
            tape.enable_checkpointing(schedule)
            x = control = pyadjoint.AdjFloat(0.2)
            for _ in tape.timestepper(iter(range(60))):
                x = x * 3.7 * (1.0 - x)
            pyadjoint.ReducedFunctional(x, pyadjoint.Control(control)).derivative()
            pyadjoint.pause_annotation()
        self.assertEqual(disk.stored, len(schedule._on_disk))
        self.assertGreater(disk.stored, 10)

    def test_the_storage_of_their_schedules_becomes_budgets(self):
        n, values = 60, 2048
        for ram, disk in ((4, 6), (2, 9), (3, 3), (5, 0)):
            found = actions(theirs.HRevolve(n, ram, disk))
            self.assertEqual((found.ram, found.disk), (ram, disk))
            with tempfile.TemporaryDirectory() as folder:
                path, u = os.path.join(folder, "trace"), initial(values)
                gpuzip.write_trace(path, found)
                keys = {"checkpointing_algorithm": "trace", "trace_file_path": path, **found.budgets(u)}
                with gpuzip.Session(u, n, **keys) as session:
                    reverse(session, u, states(n, values))
                    plan, stats = session.summary(), session.stats()
            # Where memory with its staging buffers holds all states, none is on disk.
            on_disk = plan.disk_bytes // 16384
            self.assertEqual(on_disk + plan.host_bytes // 16384 - 4 * bool(on_disk), ram + disk)
            self.assertEqual((on_disk > 0, stats.disk_writes > 0), (disk > 4, disk > 4))
        found = actions(theirs.SingleDiskStorageSchedule(), 9)
        self.assertEqual((found.ram, found.disk), (0, 9))

    def test_a_round_trip_changes_nothing(self):
        for n, s in SIZES:
            keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": s}
            ours = gpuzip.Schedule(n, **keys).actions()
            expected = [(a.ts, a.type) for a in ours]
            self.assertEqual(actions(GpuzipSchedule(n, **keys)), expected)

    def test_a_state_without_a_time_step_is_refused(self):
        lines = "0 SAVE,1 FORWARD,1 SAVE,0 RESTORE,1 FORWARD,2 FORWARD,2 BACKWARD,1 RESTORE,1 BACKWARD,0 RESTORE,0 BACKWARD"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace")
            with open(path, "w") as file:
                file.write(lines.replace(",", "\n") + "\n0 TERMINATE\n")
            with self.assertRaisesRegex(gpuzip.UnsupportedError, r"saves u\(1\), and the next is a RESTORE"):
                GpuzipSchedule(3, checkpointing_algorithm="trace", trace_file_path=path)

    def test_refused(self):
        for kind, text, call in (
            (gpuzip.ArgumentError, "max_n is None", lambda: GpuzipSchedule(None)),
            (gpuzip.ArgumentError, "ram = -1", lambda: GpuzipSchedule(9, ram=-1)),
            (gpuzip.UnsupportedError, "adjoint_every", lambda: GpuzipSchedule(9, adjoint_every=3, checkpointing_algorithm="revolve", checkpointing_snaps=3)),
            (gpuzip.ConfigError, "checkpointing_snap'", lambda: GpuzipSchedule(9, checkpointing_snap=3)),
            (gpuzip.ConfigError, "host_budget has no effect", lambda: GpuzipSchedule(9, host_budget="1G")),
            (gpuzip.ConfigError, "device_budget has no effect on a GpuzipSchedule with fields", lambda: GpuzipSchedule(9, fields=initial(), device_budget="1G")),
            (gpuzip.ArgumentError, "ram = 3 with fields", lambda: GpuzipSchedule(9, fields=initial(), ram=3, host_budget="1G")),
            (gpuzip.ConfigError, "compressor has no effect", lambda: GpuzipSchedule(9, compressor="lorenzo", error_bound=1e-3)),
            (gpuzip.ArgumentError, "steps = None", lambda: actions(theirs.SingleMemoryStorageSchedule())),
            (gpuzip.ArgumentError, "max_n = 9", lambda: actions(theirs.Revolve(9, 3), 8)),
            (gpuzip.ScheduleError, "no adjoint calculation", lambda: actions(theirs.NoneCheckpointSchedule(), 5)),
        ):  # fmt: skip
            with self.assertRaisesRegex(kind, text):
                call()

    def test_the_page_is_right(self):
        page = os.environ.get(
            "GPUZIP_TEST_PAGE", os.path.join(os.path.dirname(__file__), "../../docs/checkpoint_schedules.md")
        )
        with open(page) as file:
            text = file.read()
        self.assertEqual(text.count("```python\n"), 1)
        program, printed = (text.split(f"```{kind}\n")[1].split("```")[0] for kind in ("python", "text"))
        output = io.StringIO()
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
            os.chdir(folder)
            try:
                exec(compile(program, page, "exec"), {})
            finally:
                os.chdir(before)
        self.assertEqual(output.getvalue(), printed)

    def test_the_benchmark_compares_equal_gradients(self):
        rows = benchmark("checkpoint_schedules")
        self.assertEqual([row[-1] for row in rows], ["–"] + ["equal bits"] * 3)


if __name__ == "__main__":
    unittest.main()
