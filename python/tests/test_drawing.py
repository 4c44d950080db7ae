"""Drawings of schedules and plans, beside those of the command, and the schedules of plans."""

import os
import pickle
import random
import re
import sys
import tempfile
import unittest
from unittest import mock
from xml.etree import ElementTree

import gpuzip
from gpuzip._drawing import INKS
from support import initial

REVOLVE = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 4, "log_level": "error"}


def drawn(text):
    """The lines of an SVG file by their colour, as numbers."""
    found = {ink: [] for ink in INKS.values()}
    for tag in ElementTree.fromstring(text).iter():
        if tag.get("stroke-width") != "2":
            continue
        ends = [[tag.get(name) for name in ("x1", "y1", "x2", "y2")]]
        if tag.tag.endswith("path"):
            ends = re.findall(r"M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)", tag.get("d"))
        found[tag.get("stroke")] += [tuple(map(float, end)) for end in ends]
    return {ink: sorted(lines) for ink, lines in found.items()}


def joined(lines):
    """The lines of a sweep, each joined to the one that it goes on from."""
    found = []
    for line in lines:
        if found and found[-1][2:] == line[:2]:
            found[-1] = (*found[-1][:2], *line[2:])
        else:
            found.append(line)
    return found


class Drawings(unittest.TestCase):
    def test_the_lines_are_those_of_the_command(self):
        for algorithm, steps, snapshots, sweeps in (
            ("revolve", 24, 4, 1),
            ("revolve", 7, 1, 1),
            ("revolve", 24, 4, 3),
            ("store-all", 24, 0, 1),
            ("store-all", 9, 0, 2),
            ("uniform", 50, 5, 1),
            ("zcut", 40, 4, 1),
        ):
            with self.subTest(algorithm=algorithm, steps=steps), tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "drawing.svg")
                words = ["--algorithm", algorithm, "--steps", steps, "--sweeps", sweeps, "--svg", file]
                gpuzip.command("schedule", *words, *(["--snapshots", snapshots] if snapshots else []))
                keys = {"checkpointing_algorithm": algorithm, "checkpointing_snaps": snapshots, "sweeps": sweeps}
                schedule = gpuzip.Schedule(steps, **keys)
                with open(file) as theirs:
                    expected, found = drawn(theirs.read()), drawn(schedule.svg())
                for ink in INKS.values():
                    self.assertTrue(expected[ink] or ink == INKS["recompute"])
                    lines = sorted if ink == INKS["snapshot"] else joined
                    self.assertEqual(lines(found[ink]), lines(expected[ink]), ink)

    def test_the_title_counts(self):
        title = ElementTree.fromstring(gpuzip.Schedule(24, **REVOLVE).svg()).find("{*}title").text
        self.assertEqual(title, "revolve: 24 time steps, 4 snapshots, 51 forward steps")
        two = gpuzip.Schedule(1, **{**REVOLVE, "checkpointing_snaps": 1}, sweeps=2)
        self.assertIn("revolve: 1 time step, 1 snapshot, 0 forward steps, 2 reverse sweeps", two.svg())

    def test_each_reverse_sweep_has_a_line(self):
        found = drawn(gpuzip.Schedule(9, checkpointing_algorithm="store-all", sweeps=2).svg())[INKS["backward"]]
        first, second = found
        self.assertEqual((first[1::2], first[2]), (second[1::2], second[0]))

    def test_drawing_leaves_a_schedule_at_its_action(self):
        schedule = gpuzip.Schedule(24, **REVOLVE)
        before = [schedule.get_action() for _ in range(9)][-1]
        self.assertEqual(schedule._repr_svg_(), schedule.svg())
        self.assertEqual(schedule.get_action().it, before.it + 1)

    def test_a_notebook_does_not_move_the_schedule_of_a_session(self):
        with gpuzip.Session(initial(), 24, **REVOLVE) as session:
            session.get_action()
            schedule = gpuzip.Schedule.of(session)
            self.assertIsNone(schedule._repr_svg_())
            self.assertEqual(session.peek().it, 1)

    def test_what_cannot_be_drawn(self):
        for schedule, text in (
            (gpuzip.Schedule(0, checkpointing_algorithm="online", checkpointing_snaps=3), "give `steps`"),
            (gpuzip.Schedule(30000, checkpointing_algorithm="store-all"), "more than 20000 lines: draw fewer"),
        ):
            with self.assertRaisesRegex(gpuzip.ArgumentError, text):
                schedule.svg()
            self.assertIsNone(schedule._repr_svg_())

    def test_without_matplotlib_the_error_says_what_to_do(self):
        with mock.patch.dict(sys.modules, {"matplotlib": None, "matplotlib.pyplot": None}):
            with self.assertRaisesRegex(ImportError, r"pip install matplotlib, or call svg\(\)"):
                gpuzip.Schedule(24, **REVOLVE).plot()


class Plans(unittest.TestCase):
    def test_the_schedule_of_a_plan_is_that_of_its_session(self):
        draw, algorithms = random.Random(7), set()
        for _ in range(40):
            shape, steps = (draw.choice((64, 1000, 5000)),), draw.randint(2, 80)
            state = [gpuzip.Field(shape=shape, dtype=draw.choice(("float32", "float64", "int16")))]
            keys = {"host_budget": 8 * shape[0] * draw.randint(1, 60) + 8192, "log_level": "error"}
            for key, most, unit in (("device_budget", 20, 8 * shape[0]), ("disk_budget", 40, 8192)):
                if draw.random() < 0.3:
                    keys[key] = unit * draw.randint(2, most)
            try:
                plan = gpuzip.plan(state, steps, **keys)
                with gpuzip.Session(state, steps, **keys) as session:
                    self.assertEqual(plan.schedule().fingerprint(), session.fingerprint(), keys)
                    self.assertEqual(tuple(plan)[:12], tuple(session.summary())[:12])
            except gpuzip.BudgetError:
                continue
            algorithms.add(plan.algorithm)
        self.assertGreater(len(algorithms), 1)

    def test_a_plan_shows_itself_and_is_a_summary(self):
        u = initial(100)
        plan = gpuzip.plan(u, 24, **REVOLVE)
        self.assertEqual(plan._repr_svg_(), gpuzip.Schedule(24, **REVOLVE).svg())
        self.assertIsInstance(plan, gpuzip.Summary)
        self.assertEqual(pickle.loads(pickle.dumps(plan))._repr_svg_(), plan.svg())
        self.assertIsNone(plan._replace(steps=25)._repr_svg_())
        shown = repr(gpuzip.plan(u, 24, compressor="dct", compression_factor=4, **REVOLVE))
        self.assertRegex(shown, r"^Plan\(algorithm=1 \(revolve\), policy=0 \(clairvoyant\), steps=24, .*compressor=5 \(dct\), raw_slots=0.*\)$")

    def test_a_notebook_makes_no_session_on_a_gpu(self):
        plan = gpuzip.plan(gpuzip.Field(shape=100, dtype="float64"), 24, backend="cuda", **REVOLVE)
        with mock.patch.object(gpuzip.Plan, "schedule", side_effect=AssertionError):
            self.assertIsNone(plan._repr_svg_())

    def test_a_plan_for_another_machine(self):
        plan = gpuzip.plan(gpuzip.Field(shape=(2**30, 2**10), dtype="float64"), 24, host_budget="60T", log_level="error")
        self.assertEqual((plan.steps, plan._repr_svg_()), (24, None))
        with self.assertRaisesRegex(gpuzip.OutOfMemoryError, "gpuzip plan --trace-out FILE"):
            plan.svg()


if __name__ == "__main__":
    unittest.main()
