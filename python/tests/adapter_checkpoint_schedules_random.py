"""Random programs on pyadjoint's tape: gradients with a GpuzipSchedule beside those of a tape
that keeps everything, with exceptions in the middle and derivatives that are asked for again."""

import contextlib
import os
import random
import unittest
from unittest import mock

import checkpoint_schedules
import numpy as np
import pyadjoint
from pyadjoint.block import Block

import gpuzip
from gpuzip.checkpoint_schedules import GpuzipSchedule

CASES = 1000 if os.environ.get("GPUZIP_TEST_LONG") else 100


class Stop(Exception):
    """What a block raises in the middle of a sweep."""


class Field(pyadjoint.OverloadedType):
    """An array as a value of pyadjoint."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def _ad_create_checkpoint(self):
        return Field(self.values.copy())

    def _ad_restore_at_checkpoint(self, checkpoint):
        return checkpoint

    def _ad_convert_riesz(self, value, **options):
        return Field(value)

    def __repr__(self):
        return f"{self.values.dtype}{self.values.tolist()}"


class Step(Block):
    """One operation with two fields and a number: its value, and the adjoint by each of the
    three."""

    WORDS = {
        "+": lambda x, b, m, w: (x + w * b, lambda g: (g, w * g, 0 * g)),
        "s": lambda x, b, m, w: (
            np.sin(x) * m,
            lambda g: (np.cos(x) * g * m, 0 * g, np.sin(x) * g),
        ),
        "*": lambda x, b, m, w: (
            x * b / (1 + x * x),
            lambda g: (b * (1 - x * x) * g / (1 + x * x) ** 2, x * g / (1 + x * x), 0 * g),
        ),
        "m": lambda x, b, m, w: (w * x + m * b, lambda g: (w * g, m * g, b * g)),
        "p": lambda x, b, m, w: (
            b / (1 + x * x) - m,
            lambda g: (-2 * x * b * g / (1 + x * x) ** 2, g / (1 + x * x), -g),
        ),
    }

    def __init__(self, word, weight, *inputs):
        super().__init__()
        self.word, self.weight = word, weight
        for value in inputs:
            self.add_dependency(value)

    def both(self, inputs):
        x, b, m = inputs
        return self.WORDS[self.word](x.values, b.values, float(m), self.weight)

    def recompute_component(self, inputs, block_variable, idx, prepared):
        value = self.both(inputs)[0]
        return Field(value.astype(inputs[0].values.dtype))

    def evaluate_adj_component(self, inputs, adj_inputs, block_variable, idx, prepared=None):
        found = self.both(inputs)[1](adj_inputs[0])[idx]
        return float(np.sum(found)) if idx == 2 else found


class Total(Block):
    """The energy of a field. pyadjoint takes a functional whose recorded value is 0 for a
    constant."""

    def __init__(self, value):
        super().__init__()
        self.add_dependency(value)

    def recompute_component(self, inputs, block_variable, idx, prepared):
        return pyadjoint.AdjFloat(2.0 + np.sum(inputs[0].values.astype("f8") ** 2))

    def evaluate_adj_component(self, inputs, adj_inputs, block_variable, idx, prepared=None):
        return float(adj_inputs[0]) * 2 * inputs[0].values


def on_tape(block):
    """The block's result, on the tape."""
    inputs = [variable.output for variable in block.get_dependencies()]
    result = block.recompute_component(inputs, None, 0, None)
    pyadjoint.get_working_tape().add_block(block)
    block.add_output(result.block_variable)
    return result


class Program:
    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        self.steps = draw.choice((1, 2, draw.randint(2, 15), draw.randint(2, 40)))
        self.fields = draw.random() < 0.5
        self.shape, self.kind = (
            draw.choice(((3,), (2, 2), (1,), (2, 1, 3))),
            draw.choice(("f8", "f8", "f4")),
        )
        words = sorted(Step.WORDS) if self.fields else "+*-msp"
        self.programs = [[draw.choice(words) for _ in range(draw.randint(1, 4))] for _ in range(3)]
        self.weights = [draw.uniform(0.5, 1.1) for _ in range(20)]
        self.controls = draw.choice(((0,), (1,), (0, 1), (0, 1, 2)))
        self.start = self.values()

    def state(self):
        if self.fields:
            size = int(np.prod(self.shape))
            values = np.array([self.draw.uniform(0.5, 1.5) for _ in range(size)], self.kind)
            return Field(values.reshape(self.shape))
        return pyadjoint.AdjFloat(self.draw.uniform(0.5, 1.5))

    def values(self):
        """Of the initial state, of a number and of another initial state."""
        return self.state(), pyadjoint.AdjFloat(self.draw.uniform(0.5, 1.5)), self.state()

    def step(self, x, before, m, t):
        for word in self.programs[t % 3]:
            weight = self.weights[(t + ord(word)) % 20]
            if self.fields:
                x, before = on_tape(Step(word, weight, x, before, m)), x
            else:
                x, before = (
                    {
                        "+": lambda: x + weight * before,
                        "*": lambda: 0.3 * x * before,
                        "-": lambda: x - m,
                        "m": lambda: weight * x * m,
                        "s": lambda: x * x * 0.1 + m * m,
                        "p": lambda: 0.5 * before / (1.0 + x * x),
                    }[word](),
                    x,
                )
        return x, before

    def functional(self, schedule=None):
        """The functional, on a tape of its own."""
        tape = pyadjoint.Tape()
        with pyadjoint.set_working_tape(tape):
            pyadjoint.continue_annotation()
            if schedule is not None:
                tape.enable_checkpointing(schedule)
            x, m, before = given = [
                x._ad_create_checkpoint() if self.fields else x * 1.0 for x in self.start
            ]
            given[1] = m = pyadjoint.AdjFloat(float(m))
            for t in tape.timestepper(iter(range(self.steps))):
                x, before = self.step(x, before, m, t)
            last = on_tape(Total(x)) if self.fields else 2.0 + x * x + x * m
            controls = [pyadjoint.Control(given[k]) for k in self.controls]
            found = pyadjoint.ReducedFunctional(last, controls)
            pyadjoint.pause_annotation()
        return tape, found

    def schedule(self):
        draw, n = self.draw, self.steps
        if draw.random() < 0.3:
            state = gpuzip.Field(shape=4096, dtype="f8")
            return GpuzipSchedule(n, fields=state, host_budget=32768 * draw.randint(2, n + 2))
        algorithm = draw.choice(("revolve", "uniform", "zcut", "store-all"))
        keys = {} if algorithm == "store-all" else {"checkpointing_snaps": draw.randint(1, n)}
        return GpuzipSchedule(n, checkpointing_algorithm=algorithm, **keys)


@contextlib.contextmanager
def stopped(name, calls):
    """A block in which a method of pyadjoint's blocks raises `Stop` after this number of calls."""
    left, method = [calls], getattr(Block, name)

    def failing(self, *arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise Stop(name)
        return method(self, *arguments, **named)

    with mock.patch.object(Block, name, failing):
        yield


class Random(unittest.TestCase):
    @np.errstate(over="ignore", invalid="ignore")
    def test_gradients_of_random_programs(self):
        count = dict.fromkeys(("derivatives", "stopped", "refused", "right after a stop"), 0)
        for seed in range(CASES):
            program = Program(seed)
            draw = program.draw
            (tape, plain), (other, ours) = (
                program.functional(),
                program.functional(program.schedule()),
            )
            after_stop = False
            for _ in range(draw.randint(4, 9)):
                action = draw.choice(("derivative", "value", "value", "derivative", "stop"))
                name = draw.choice(("recompute", "evaluate_adj"))
                block = contextlib.nullcontext()
                if action == "stop":
                    action = "value" if name == "recompute" else "derivative"
                    block = stopped(name, draw.randint(0, 3 * program.steps))
                values = [program.values()[k] for k in program.controls]
                call = (lambda f: f(values)) if action == "value" else lambda f: f.derivative()
                try:
                    with pyadjoint.set_working_tape(tape):
                        expected = call(plain)
                except OverflowError:  # Of Python's numbers: the program has no values here.
                    break
                with pyadjoint.set_working_tape(other), block:
                    try:
                        found = call(ours)
                    except Stop:
                        count["stopped"] += 1
                        after_stop = True
                        continue
                    except (gpuzip.StateError, pyadjoint.checkpointing.CheckpointError):
                        count["refused"] += 1
                        continue
                # As texts, in which one NaN is the other.
                self.assertEqual(repr(found), repr(expected), seed)
                count["derivatives"] += action == "derivative"
                count["right after a stop"] += after_stop
        self.assertGreater(count["derivatives"], CASES)
        self.assertGreater(min(count.values()), CASES // 10, count)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def test_their_derivatives_at_another_value(self):
        # What docs/checkpoint_schedules.md says of their Revolve; ours are equal above.
        equal = []
        for seed in range(400):
            program = Program(seed)
            if program.steps < 3:
                continue
            values, found = [program.values()[k] for k in program.controls], []
            try:
                for schedule in (None, checkpoint_schedules.Revolve(program.steps, 2)):
                    tape, functional = program.functional(schedule)
                    with pyadjoint.set_working_tape(tape):
                        first = repr(functional.derivative())
                        functional(values)
                        found.append((first, repr(functional.derivative())))
            except OverflowError:  # Of Python's numbers: the program has no values here.
                continue
            self.assertEqual(found[0][0], found[1][0])
            equal.append(found[0] == found[1])
        self.assertGreater(equal.count(False), 5 * equal.count(True))
        self.assertGreater(equal.count(True), 0)

    def test_an_exception_in_a_derivative(self):
        for calls in (0, 5, 13):
            program = Program(1)
            program.steps = 9
            tape, functional = program.functional(program.schedule())
            with pyadjoint.set_working_tape(tape):
                with stopped("evaluate_adj", calls), self.assertRaises(Stop):
                    functional.derivative()
                with self.assertRaisesRegex(gpuzip.StateError, "record the tape again"):
                    functional.derivative()
                functional([program.values()[k] for k in program.controls])
                with self.assertRaisesRegex(gpuzip.StateError, "record the tape again"):
                    functional.derivative()


if __name__ == "__main__":
    unittest.main()
