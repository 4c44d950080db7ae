"""Random programs in Devito: gradients with gpuzip beside those with every state kept, by
Devito's own TimeFunction(save=...) and in Python, and beside PyRevolve's."""

import os
import random
import sys
import threading
import unittest
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("DEVITO_LOGGING", "ERROR")

import numpy as np
import pyrevolve

import gpuzip
import gpuzip.devito

gpuzip.devito.use()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import devito
    from devito import Eq, Function, Grid, Operator, SparseTimeFunction, TimeFunction

PROGRAMS, CASES = (50, 20) if os.environ.get("GPUZIP_TEST_LONG") else (2, 5)


class Program:
    """One or two coupled fields with drawn equations, a source, and an adjoint of the same kind
    that reads the states; both are compiled for states in Devito's buffers and for all states."""

    def __init__(self, seed):
        self.draw = draw = random.Random(seed)
        shape = tuple(draw.randint(8, 14) for _ in range(draw.choice((2, 2, 3))))
        self.grid = Grid(
            shape,
            extent=[10.0 * (k - 1) for k in shape],
            dtype=draw.choice((np.float32, np.float64)),
        )
        self.order, self.space = draw.choice((1, 2)), draw.choice((2, 4, 8))
        self.names = ("u", "w")[: draw.randint(1, 2)]
        self.words = {name: draw.sample("lxysqmdc", draw.randint(1, 3)) for name in self.names}
        self.image, self.wide = draw.choice("plxd"), draw.random() < 0.5
        self.operators = {kept: self.compiled(kept) for kept in (False, True)}

    def fields(self, names, save=None):
        kind = {"time_order": self.order, "space_order": self.space, "save": save}
        return {name: TimeFunction(name=name, grid=self.grid, **kind) for name in names}

    def function(self, name):
        return Function(name=name, grid=self.grid, space_order=self.space)

    def points(self, name, steps):
        return SparseTimeFunction(name=name, grid=self.grid, npoint=2, nt=steps + self.order)

    def equation(self, field, others, m, linear):
        """The change of `field`; with `linear`, the change of an adjoint field, whose factors are
        the states."""
        x, y = self.grid.dimensions[:2]
        other = next(iter(others.values()))
        # Every field depends on the other: for one that does not, Devito 4.8.23 makes a loop over
        # time of its own with `save`, and leaves the source out of it.
        change = 0.02 * field + 0.01 * other
        for word in self.words[field.name.lower()]:
            change += {
                "l": lambda: field.laplace * m,
                "x": lambda: getattr(field, f"d{x.name}") * (1 + other if linear else 1),
                "y": lambda: getattr(field, f"d{y.name}2") * m * m,
                "s": lambda: field * devito.cos(other) if linear else devito.sin(field + other),
                "q": lambda: 2 * other * field if linear else field * other / (1 + other * other),
                "m": lambda: m * other * 0.1,
                "d": lambda: (
                    -0.05 * (field - (field.forward if linear else field.backward))
                    if self.order == 2
                    else -0.1 * field
                ),
                "c": lambda: 0.1 * m * field * devito.cos(other),
            }[word]()
        return change

    def compiled(self, kept):
        """The forward operator and the adjoint one, which adds to the gradient."""
        states = self.fields(self.names, 9 if kept else None)
        adjoints = self.fields([name.upper() for name in self.names])
        m, grad, dt = self.function("m"), self.function("grad"), self.grid.stepping_dim.spacing
        src, rec = self.points("src", 9 - self.order), self.points("rec", 9 - self.order)
        forward, back = [], []
        for k, (name, field) in enumerate(states.items()):
            change = self.equation(field, dict(list(states.items())[k - 1 :]), m, False)
            past = 2 * field - field.backward if self.order == 2 else field
            forward.append(Eq(field.forward, past + dt**self.order * change))
            field = adjoints[name.upper()]
            change = self.equation(field, {"": states[name]}, m, True)
            past = 2 * field - field.forward if self.order == 2 else field
            back.append(Eq(field.backward, past + dt**self.order * change))
        u, v = states["u"], adjoints["U"]
        forward += src.inject(field=u.forward, expr=src * dt)
        back += rec.inject(field=v.backward, expr=rec * dt * m)
        step = {"p": u, "l": u.laplace, "x": u.dx, "d": u.dt2 if self.order == 2 else u.dt}[
            self.image
        ]
        back.append(Eq(grad, grad + step * (v if self.wide else v * v)))
        return Operator(forward, name="Forward"), Operator(back, name="Adjoint")


class Case:
    """Numbers for a program: a number of time steps, a first state, a model, a source and data."""

    def __init__(self, program):
        self.program, draw = program, program.draw
        self.steps = draw.choice((1, 2, draw.randint(3, 12), draw.randint(3, 40)))
        self.values = np.random.default_rng(draw.randrange(2**32))
        self.dt = draw.uniform(0.01, 0.05)
        self.m, self.src, self.rec = (
            program.function("m"),
            program.points("src", self.steps),
            program.points("rec", self.steps),
        )
        self.m.data[:] = self.values.uniform(0.5, 1.5, program.grid.shape)
        for points in (self.src, self.rec):
            points.coordinates.data[:] = (
                self.values.uniform(0.2, 0.8, points.coordinates.shape) * program.grid.extent
            )
            points.data[:] = self.values.standard_normal(points.shape)
        self.again()

    def again(self):
        """Another first state, and another last state of the adjoints."""
        shape = (self.program.order, *self.program.grid.shape)
        self.first = {name: self.values.standard_normal(shape) for name in self.program.names}
        self.last = self.values.standard_normal(self.program.grid.shape)

    def begin(self, kept):
        self.states = self.program.fields(
            self.program.names, self.steps + self.program.order if kept else None
        )
        self.adjoints = self.program.fields([name.upper() for name in self.program.names])
        self.grad = self.program.function("grad")
        self.rewind()

    def rewind(self):
        for field in (*self.states.values(), *self.adjoints.values(), self.grad):
            field.data_with_halo[:] = 0.0
        for field in self.adjoints.values():
            field.data[:] = self.last
        for name, field in self.states.items():
            field.data[: self.program.order] = self.first[name]

    def arguments(self, kept):
        """Both operators with their arguments, among which are none that an operator does not
        know."""
        first = self.program.order - 1
        shared = {
            **self.states,
            "dt": self.dt,
            "m": self.m,
            "time_m": first,
            "time_M": first + self.steps - 1,
        }
        shared |= {**self.adjoints, "src": self.src, "rec": self.rec, "grad": self.grad}
        for operator in self.program.operators[kept]:
            known = {parameter.name for parameter in operator.parameters}
            yield operator, {name: value for name, value in shared.items() if name in known}

    def result(self):
        last = [np.array(field.data) for field in self.adjoints.values()]
        return [np.array(self.grad.data), *last]

    def devitos(self):
        """With TimeFunction(save=...)."""
        self.begin(True)
        for operator, arguments in self.arguments(True):
            operator.apply(**arguments)
        return self.result()

    def wrapped(self):
        """The states as a checkpoint and both operators, for a Revolver."""
        self.begin(False)
        operators = [
            devito.CheckpointOperator(operator, **given)
            for operator, given in self.arguments(False)
        ]
        return devito.DevitoCheckpoint(list(self.states.values())), *operators

    def keep_all(self):
        """With copies of the buffers at every step."""
        _, forward, back = self.wrapped()
        copies = []
        for t in range(self.steps):
            forward.apply(t, t + 1)
            copies.append([np.array(field._data) for field in self.states.values()])
        for t in reversed(range(self.steps)):
            for field, copy in zip(self.states.values(), copies[t]):
                field._data[:] = copy
            back.apply(t, t + 1)
        return self.result()

    def keys(self, folder):
        """The number of checkpoints and keys of a drawn configuration."""
        draw, n = self.program.draw, self.steps
        few = {"checkpointing_snaps": draw.randint(1, n)}
        return draw.choice(
            (
                (draw.randint(1, n), {}),
                (None, {}),
                (n + 2, {"range_actions": False}),
                (None, {"checkpointing_algorithm": "zcut", **few}),
                (None, {"checkpointing_algorithm": "uniform", **few}),
                (None, {"checkpointing_algorithm": "store-all"}),
                (None, {"checkpointing_algorithm": "auto", "host_budget": "4M"}),
                (
                    draw.randint(1, n),
                    {"host_budget": "8M", "disk_path": folder, "disk_budget": "50M"},
                ),
            )
        )


def sweep(case, revolver):
    revolver.apply_forward()
    revolver.apply_reverse()
    return case.result()


class Random(unittest.TestCase):
    def same(self, found, expected, what):
        self.assertTrue(all(x.tobytes() == y.tobytes() for x, y in zip(found, expected)), what)

    def near(self, found, expected, what):
        for x, y in zip(found, expected):
            bound = 1e-12 if y.dtype == np.float64 else 1e-4
            self.assertLessEqual(np.abs(x - y).max(), bound * np.abs(y).max(), what)

    def test_programs(self):
        folder, equal = os.getcwd(), 0
        for seed in range(PROGRAMS):
            program = Program(seed)
            for number in range(CASES):
                case = Case(program)
                expected, checkpoints = case.keep_all(), case.keys(folder)
                what = (seed, number, case.steps, checkpoints)
                self.assertTrue(
                    all(np.isfinite(x).all() for x in expected) and np.abs(expected[0]).max() > 0,
                    what,
                )
                theirs = case.devitos()
                self.near(theirs, expected, what)
                equal += all(x.tobytes() == y.tobytes() for x, y in zip(theirs, expected))
                if case.steps > 1:
                    count = program.draw.randint(1, case.steps)
                    self.same(
                        sweep(case, pyrevolve.Revolver(*case.wrapped(), count, case.steps)),
                        expected,
                        what,
                    )
                gpuzip.devito.use(**checkpoints[1])
                revolver = devito.Revolver(*case.wrapped(), checkpoints[0], case.steps)
                self.same(sweep(case, revolver), expected, what)
                if program.draw.random() < 0.3:
                    self.second(case, revolver, what)
        self.assertGreater(equal, 0.5 * PROGRAMS * CASES)
        print(
            f"{PROGRAMS * CASES} cases, {equal} with the bits of TimeFunction(save=...)",
            file=sys.stderr,
        )

    def second(self, case, revolver, what):
        """The same Revolver for another first state, first with an exception in the middle."""
        states, adjoints, grad = case.states, case.adjoints, case.grad
        case.again()
        expected = case.keep_all()
        case.states, case.adjoints, case.grad = states, adjoints, grad
        case.rewind()
        calls, operator = (
            case.program.draw.randint(0, case.steps),
            case.program.draw.choice(("fwd", "rev")),
        )
        wrapped = getattr(revolver, f"{operator}_operator")

        def stops(t_start, t_end, apply=wrapped.apply):
            nonlocal calls
            calls -= 1
            if calls < 0:
                raise KeyError(t_start)
            apply(t_start, t_end)

        wrapped.apply = stops
        try:
            self.same(sweep(case, revolver), expected, what)
        except KeyError:
            with self.assertRaises(gpuzip.StateError):
                revolver.apply_reverse()
        del wrapped.apply
        case.rewind()
        self.same(sweep(case, revolver), expected, what)

    def test_threads(self):
        program = Program(1)
        for _ in range(CASES):
            cases = [Case(program) for _ in range(3)]
            expected, found = [case.keep_all() for case in cases], [None] * 3
            gpuzip.devito.use(
                checkpointing_algorithm="revolve", checkpointing_snaps=program.draw.randint(1, 4)
            )
            revolvers = [devito.Revolver(*case.wrapped(), None, case.steps) for case in cases]

            def work(k):
                found[k] = sweep(cases[k], revolvers[k])

            threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for k in range(3):
                self.assertIsNotNone(found[k])
                self.same(found[k], expected[k], (k, cases[k].steps))


if __name__ == "__main__":
    unittest.main()
