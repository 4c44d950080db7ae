"""Random programs for the adapters of JAX and PyTorch: a time step of either package, drawn from a seed, as
a function, a closure, a method or a partial function."""

import functools
import random

SHAPES = [(3,), (2, 3), (1,), (5, 1), (2, 1, 3), ()]
STRUCTURES = {
    "one": (lambda a, b: a, lambda s: (s, s)),
    "tuple": (lambda a, b: (a, b), lambda s: s),
    "nested": (lambda a, b: {"a": [a], "b": (b,)}, lambda s: (s["a"][0], s["b"][0])),
}


class Program:
    """`math` is the package's module of functions, `array(values, shape)` makes its arrays."""

    def __init__(self, seed, math, array):
        self.draw, self.math, self.seed = random.Random(seed), math, seed
        draw = self.draw
        self.shape = draw.choice(SHAPES)
        self.join, self.split = STRUCTURES[draw.choice(sorted(STRUCTURES))]
        self.words = [[draw.choice("asmkcqpt") for _ in range(draw.randint(1, 4))] for _ in range(2)]
        self.dt, self.parts = draw.uniform(0.05, 0.5), {"rate": [draw.uniform(0.5, 1.0)]}
        self.table = array(self.numbers(), self.shape)
        self.kind = draw.choice(("method", "closure", "partial", "object"))
        self.array = array

    def numbers(self):
        size = functools.reduce(lambda a, b: a * b, self.shape, 1)
        return [self.draw.uniform(0.3, 1.2) for _ in range(size)]

    def inputs(self):
        """The initial state and two parameters; the second is a dict."""
        a, b, c, d = (self.array(self.numbers(), self.shape) for _ in range(4))
        return a, b, c, d

    def change(self):
        """Changes what the step reads."""
        self.dt, self.parts["rate"][0] = self.draw.uniform(0.05, 0.5), self.draw.uniform(0.5, 1.0)
        self.table = self.array(self.numbers(), self.shape)

    def advance(self, state, t, c, more):
        u, v = self.split(state)
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
        return self.join(u, v)

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
        u, v = self.split(scan(self.step(), self.join(a, b), n, c, {"d": d, "again": c}, **config))
        return self.math.sum(u * u) + self.math.sum(v * d)

    def config(self, longest=12):
        """A number of time steps up to `longest`, and a configuration of the session."""
        n, draw = self.draw.randint(1, longest), self.draw
        algorithm = draw.choice(("revolve", "zcut", "uniform", "store-all"))
        keys = {"checkpointing_algorithm": algorithm, "range_actions": draw.random() < 0.5}
        if algorithm != "store-all":
            keys["checkpointing_snaps"] = draw.randint(1, n)
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
