"""Random programs for the adapters of JAX and PyTorch: a time step of either package, drawn
from a seed, as a function, a closure, a method or a partial function, with states of many
types, shapes and structures."""

import collections
import contextlib
import functools
import random
import threading
from unittest import mock

import gpuzip

SHAPES = [(3,), (2, 3), (1,), (5, 1), (2, 1, 3), (), (2, 2, 1, 2), (17,)]
Pair = collections.namedtuple("Pair", "first second rest")
# How u, v and what comes with them make a state, and their way back.
STRUCTURES = {
    "one": (lambda a, b, rest: a, lambda s: (s, s, ())),
    "tuple": (lambda a, b, rest: (a, b, *rest), lambda s: (s[0], s[1], s[2:])),
    "nested": (
        lambda a, b, rest: {"z": [a], "b": (b,), "more": {"c": list(rest)}},
        lambda s: (s["z"][0], s["b"][0], tuple(s["more"]["c"])),
    ),
    "named": (lambda a, b, rest: Pair(a, [b], tuple(rest)), lambda s: (s[0], s[1][0], s[2])),
}


class Program:
    """`math` is the package's module of functions, `array(values, type)` makes its arrays from
    nested lists, and `cast(x, type)` converts them; types are NumPy's names."""

    def __init__(self, seed, math, array, cast):
        self.draw, self.math, self.seed, self.cast = random.Random(seed), math, seed, cast
        draw = self.draw
        self.type = draw.choice(("float64", "float64", "complex128", "float32"))
        self.shape = draw.choice(SHAPES)
        kind = draw.choice(sorted(STRUCTURES))
        self.join, self.split = STRUCTURES[kind]
        # Integers, truth values and other floating-point numbers beside the differentiated state.
        self.rest = "" if kind == "one" else draw.choice(("", "", "i", "b", "l", "ibl"))
        self.words = [
            [draw.choice("asmkcqpt") for _ in range(draw.randint(1, 4))] for _ in range(2)
        ]
        self.make = array
        self.kind = draw.choice(("method", "closure", "partial", "object"))
        self.parts = {"rate": [0.0]}
        self.change()

    @property
    def bound(self):
        """Of the error relative to the greatest value."""
        return 1e-5 if self.type == "float32" else 1e-12

    def array(self):
        def nested(shape):
            if shape:
                return [nested(shape[1:]) for _ in range(shape[0])]
            number = self.draw.uniform(0.3, 1.2)
            return (
                complex(number, self.draw.uniform(-0.1, 0.1))
                if self.type == "complex128"
                else number
            )

        return self.make(nested(self.shape), self.type)

    def inputs(self):
        """The initial state and two parameters; the second is a dict."""
        return tuple(self.array() for _ in range(4))

    def change(self):
        """Changes what the step reads."""
        self.dt, self.parts["rate"][0] = self.draw.uniform(0.05, 0.5), self.draw.uniform(0.5, 1.0)
        self.table = self.array()

    def begin(self, a, b, c):
        rest = {
            "i": lambda: self.make(0, "int32"),
            "b": lambda: self.make([True, False], "bool"),
            "l": lambda: self.cast(self.math.real(c), "float32"),
        }
        return self.join(a, b, [rest[kind]() for kind in self.rest])

    def beside(self, u, rest):
        """One step of what comes with u and v; u has a part of it. Every number is exact."""
        found, math = [], self.math
        for kind, x in zip(self.rest, rest):
            if kind == "i":
                u, x = u * (1.0 + 0.01 * self.cast(x % 3, self.type)), x + 1
            elif kind == "b":
                u, x = math.where(x[0], u, 0.9 * u), math.logical_not(x)
            else:
                u, x = u + 0.01 * self.cast(x, self.type), x * 0.5
            found.append(x)
        return u, found

    def advance(self, state, t, c, more):
        u, v, rest = self.split(state)
        d, math = more["d"], self.math
        for word in self.words[0] + self.words[1] * (self.seed % 2):
            w = {
                "a": lambda: u + self.dt * v,
                "s": lambda: math.sin(u) * c,
                "m": lambda: u * self.parts["rate"][0] + d * 0.1,
                "k": lambda: u * c + self.dt * d * v,
                "c": lambda: math.tanh(u + self.table),
                "q": lambda: u / (1.0 + v * v),
                "p": lambda: u * math.exp(-self.dt * c * c),
                "t": lambda: u * 0.9 + 0.01 * t * self.table,
            }[word]()
            u, v = w, u
        u, rest = self.beside(u, rest)
        return self.join(u, v, rest)

    def step(self):
        if self.kind == "method":
            return self.advance
        if self.kind == "partial":
            return functools.partial(lambda scale, *x: self.advance(*x), 1.0)
        if self.kind == "object":
            return Callable(self)
        program = self
        return lambda state, t, c, more: program.advance(state, t, c, more)

    def loss(self, scan, n, a, b, c, d, **config):
        last = scan(self.step(), self.begin(a, b, c), n, c, {"d": d, "again": c}, **config)
        u, v, _ = self.split(last)
        return self.math.sum(self.math.real(u * u)) + self.math.sum(self.math.real(v * d))

    def config(self, longest=12):
        """A number of time steps up to `longest`, and a configuration of the session."""
        n, draw = self.draw.randint(1, longest), self.draw
        algorithm = draw.choice(("revolve", "zcut", "uniform", "store-all", "auto"))
        keys = {"checkpointing_algorithm": algorithm, "range_actions": draw.random() < 0.5}
        if algorithm == "auto":
            keys["host_budget"] = draw.choice(("64K", "1M"))
        elif algorithm != "store-all":
            keys["checkpointing_snaps"] = draw.randint(1, n)
        # A generator of its own: the programs do not depend on it.
        sweeps = random.Random(repr((self.seed, n, keys))).randint(-1, 3)
        if sweeps >= 0:
            keys["sweeps"] = sweeps
        return n, keys


class Callable:
    def __init__(self, program):
        self.program = program

    def __call__(self, state, t, c, more):
        return self.program.advance(state, t, c, more)


def loop(step, state, n, *params):
    for t in range(n):
        state = step(state, t, *params)
    return state


class Stop(Exception):
    """What `interrupted` raises."""


@contextlib.contextmanager
def interrupted(draw):
    """A block in which a step, or saving or restoring a state, fails at a drawn call, or never."""
    name, left = draw.choice(("save", "retrieve", "get_action", "advance")), [draw.randint(0, 12)]
    kind = Program if name == "advance" else gpuzip.Session
    method = getattr(kind, name)

    def failing(self, *arguments, **named):
        left[0] -= 1
        if left[0] < 0:
            raise Stop(name)
        return method(self, *arguments, **named)

    with mock.patch.object(kind, name, failing):
        yield


def together(works):
    """Runs functions in threads, and raises an exception of theirs."""
    raised = []

    def run(work):
        try:
            work()
        except BaseException as reason:
            raised.append(reason)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reason in raised:
        raise reason
