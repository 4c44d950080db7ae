"""The parts of the compiled scan of gpuzip.jax: a loop of steps on lists of leaves, the residuals of steps, and the
plan that says which states and residuals are kept."""

import math
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
from jax import lax

from . import _jax_plan as plans
from .errors import ArgumentError

Leaves = List[Any]


def inexact(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.inexact)


def _bytes(leaves: Sequence[Any]) -> int:
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in leaves)


def pick(leaves: Sequence[Any], mask: Sequence[bool]) -> Leaves:
    return [leaf for leaf, chosen in zip(leaves, mask) if chosen]


def merge(mask: Sequence[bool], chosen: Sequence[Any], others: Sequence[Any]) -> Leaves:
    """The list whose elements where `mask` holds are `chosen`, and else those of `others` at the same place."""
    values = iter(chosen)
    return [next(values) if here else other for here, other in zip(mask, others)]


def _depends(jaxpr: Any, marked: Sequence[bool]) -> List[bool]:
    """Which results of a jaxpr depend on the marked ones of its arguments."""
    found = {v for v, m in zip((*jaxpr.constvars, *jaxpr.invars), marked) if m}
    for equation in jaxpr.eqns:
        if any(not hasattr(v, "val") and v in found for v in equation.invars):
            found.update(equation.outvars)
    return [not hasattr(v, "val") and v in found for v in jaxpr.outvars]


def buffer(like: Any, length: int) -> Any:
    """Memory for `length` arrays like `like`, which lies on the devices of a `jax.shard_map` as `like` does."""
    keys = jnp.issubdtype(like.dtype, jax.dtypes.extended)
    return jnp.broadcast_to(like if keys else jnp.zeros_like(like), (length, *like.shape))


def put(buffers: Leaves, values: Leaves, at: Any) -> Leaves:
    return [lax.dynamic_update_index_in_dim(b, v, at, 0) for b, v in zip(buffers, values)]


def at(buffers: Sequence[Any], at: Any) -> Leaves:
    return [lax.dynamic_index_in_dim(b, at, 0, keepdims=False) for b in buffers]


class Request(NamedTuple):
    """What the caller asks for: bytes of memory, and of host memory for the states, or a plan's two numbers."""

    memory: Optional[int]
    host_memory: Optional[int]
    snapshots: Optional[int]
    tape: int


class Masks(NamedTuple):
    """Which constants, leaves of the state, inputs and outputs of a step have adjoints."""

    consts: List[bool]
    state: List[bool]
    xs: List[bool]
    ys: List[bool]


class Program:
    """A loop of `n` steps on lists of leaves: constants, which each step reads, states, inputs and outputs. The
    first step has the last input and output where the loop runs `backward`."""

    def __init__(self, jaxpr: Any, n: int, backward: bool, states: int, request: Request) -> None:
        self.jaxpr, self.n, self.backward, self.request = jaxpr, n, backward, request
        self.consts, self.states = len(jaxpr.constvars), states

    def parts(self, leaves: Sequence[Any]) -> Tuple[Leaves, Leaves, Leaves]:
        end = self.consts + self.states
        return list(leaves[: self.consts]), list(leaves[self.consts : end]), list(leaves[end:])

    def index(self, k: Any) -> Any:
        """Where the inputs and outputs of step k are."""
        return self.n - 1 - k if self.backward else k

    def step(self, consts: Leaves, state: Leaves, x: Leaves) -> Tuple[Leaves, Leaves]:
        out = jax.core.eval_jaxpr(self.jaxpr, consts, *state, *x)
        return [strong(a, b.dtype) for a, b in zip(out, state)], list(map(array, out[self.states :]))

    def run(self, consts: Leaves, xs: Leaves, state: Leaves, begin: Any, end: Any) -> Leaves:
        """From the state `begin` to the state `end`."""
        one = lambda k, state: self.step(consts, state, at(xs, self.index(k)))[0]
        return lax.fori_loop(begin, end, one, state)

    def masks(self, perturbed: Sequence[bool]) -> Masks:
        """What has an adjoint, if the `perturbed` ones of constants, initial state and inputs have."""
        consts, state, xs = self.parts(perturbed)
        kinds = [inexact(v.aval) for v in self.jaxpr.outvars]
        while True:
            out = [d and k for d, k in zip(_depends(self.jaxpr, (*consts, *state, *xs)), kinds)]
            more = [a or b for a, b in zip(state, out)]
            if more == state:
                return Masks(consts, state, xs, out[self.states :])
            state = more

    def pull_back(self, masks: Masks, consts: Leaves, state: Leaves, x: Leaves) -> Tuple[Leaves, Leaves, Any]:
        """A step's state and outputs, and the function of their adjoints that gives those of constants, state
        and inputs."""

        def differentiable(c: Leaves, s: Leaves, x_: Leaves) -> Any:
            merged = merge(masks.consts, c, consts), merge(masks.state, s, state), merge(masks.xs, x_, x)
            new, y = self.step(*merged)
            return (pick(new, masks.state), pick(y, masks.ys)), (new, y)

        chosen = pick(consts, masks.consts), pick(state, masks.state), pick(x, masks.xs)
        _, pull, (new, y) = jax.vjp(differentiable, *chosen, has_aux=True)
        return new, y, pull


def array(leaf: Any) -> Any:
    return leaf if isinstance(leaf, jax.Array) else jnp.asarray(leaf)


def strong(leaf: Any, dtype: Any) -> Any:
    """The leaf with a type of its own, as loops need it: a Python number has JAX's weak type."""
    leaf = array(leaf)
    if leaf.dtype == dtype and not getattr(leaf, "weak_type", False):
        return leaf
    return lax.convert_element_type(leaf, dtype)


class Tape:
    """The residuals of steps: values that the adjoint of a step needs from the step. Those that are the same in
    every step are kept once, and those that are inputs of the loop are read there. All come from one trace: JAX
    may find other residuals in the next one."""

    def __init__(self, p: Program, masks: Masks, consts: Leaves, state: Leaves, xs: Leaves) -> None:
        self.tree: Any = None

        def step(consts: Leaves, state: Leaves, x: Leaves) -> Any:
            new, y, pull = p.pull_back(masks, consts, state, x)
            leaves, self.tree = jax.tree.flatten(pull)
            return leaves, new, y

        traced, kinds = jax.make_jaxpr(step, return_shape=True)(consts, state, at(xs, 0))
        self.run, self.kinds = traced, jax.tree.structure(kinds)
        count, jaxpr = len(kinds[0]), traced.jaxpr
        fixed = len(jaxpr.constvars) + len(consts)
        variant = _depends(jaxpr, [False] * fixed + [True] * (len(state) + len(xs)))
        inputs = jaxpr.invars[len(consts) + len(state) :]
        # The number of an input, -1 for a value that is the same in every step, and -2 for the others.
        self.source = [
            next((k for k, w in enumerate(inputs) if v is w), -2 if depends else -1)
            for v, depends in zip(jaxpr.outvars[:count], variant)
        ]
        self.bytes = _bytes([leaf for leaf, source in zip(kinds[0], self.source) if source == -2])

    def record(self, consts: Leaves, state: Leaves, x: Leaves) -> Tuple[Leaves, Leaves, Leaves, Leaves]:
        """A step: its residuals, those that are the same in every step, its state and its outputs."""
        out = jax.core.eval_jaxpr(self.run.jaxpr, self.run.consts, *consts, *state, *x)
        leaves, new, y = self.kinds.unflatten(out)
        own, same = (pick(leaves, [source == kind for source in self.source]) for kind in (-2, -1))
        return own, same, new, y

    def pull(self, kept: Leaves, same: Leaves, x: Leaves) -> Any:
        """The function of the adjoints of the step that had these residuals and inputs."""
        own, others = iter(kept), iter(same)
        leaves = [x[s] if s >= 0 else next(others) if s == -1 else next(own) for s in self.source]
        return jax.tree.unflatten(self.tree, leaves)


class Plan:
    """What the forward pass decides, for the reverse pass."""

    def __init__(self, p: Program, masks: Masks, consts: Leaves, state: Leaves, xs: Leaves) -> None:
        self.masks, request = masks, p.request
        self.tape_of = Tape(p, masks, consts, state, xs)
        self.host = request.host_memory is not None
        if request.memory is None:
            self.slots, self.tape = request.snapshots or 1, min(request.tape, p.n)
            need = min(self.slots, p.n) * _bytes(state)
            if self.host and request.host_memory < need:  # type: ignore[operator]
                raise ArgumentError(f"host_memory={request.host_memory} bytes: these states have {need} bytes")
        else:
            costs = plans.Costs(_bytes(state), self.tape_of.bytes, *self.works(p, consts, state, xs))
            self.slots, self.tape = plans.choose(p.n, request.memory, request.host_memory, costs)
            if not self.tape:
                given = f"memory={request.memory}" + f", host_memory={request.host_memory}" * self.host
                raise ArgumentError(_TOO_LITTLE.format(given, costs.state, costs.residuals))
        self.segments = -(-p.n // self.tape)
        # Segments of one step keep no residuals: the adjoint of the step computes them.
        self.taped = self.tape > 1 or self.segments == 1
        self.slots = max(1, min(self.slots, self.segments - 1))
        self.tables = plans.tables(p.n, self.slots, self.tape)

    def works(self, p: Program, consts: Leaves, state: Leaves, xs: Leaves) -> Iterator[float]:
        """The work of the four programs that `plans.Costs` lists."""
        tape, masks = self.tape_of, self.masks

        def adjoint(pull: Any, bars: Any, sums: Leaves) -> Any:
            more, *others = pull(bars)
            return [a + b for a, b in zip(sums, more)], others

        def fused(consts: Leaves, state: Leaves, x: Leaves, bars: Any, sums: Leaves) -> Any:
            return adjoint(p.pull_back(masks, consts, state, x)[2], bars, sums)

        x = jax.eval_shape(lambda xs: at(xs, 0), xs)
        *kept, new, y = jax.eval_shape(tape.record, consts, state, x)
        bars, sums = (pick(new, masks.state), pick(y, masks.ys)), pick(consts, masks.consts)
        for function, arguments in (
            (lambda *a: p.step(*a)[0], (consts, state, x)),
            (lambda *a: tape.record(*a)[::2], (consts, state, x)),
            (lambda kept, same, x, *bars: adjoint(tape.pull(kept, same, x), *bars), (*kept, x, bars, sums)),
            (fused, (consts, state, x, bars, sums)),
        ):
            yield plans.work(jax.make_jaxpr(function)(*arguments).jaxpr)


_TOO_LITTLE = (
    "{} bytes: a state of this loop has {} bytes (and the residuals of a step {}): give at least memory for one state"
)
