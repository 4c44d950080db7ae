"""The compiled scan of gpuzip.jax: a loop, its forward pass and its reverse pass, as programs of JAX.

Reverse pass, with the tables of `_jax_plan`:

    for each segment, from the last one to the first one:
        for each of its steps, from the last one: the adjoint, from the tape      # or from the state, without a tape
        take a state from a slot
        for each row of the segment before: run steps; put the state into a slot
        run steps to the beginning of the segment before
        for each step of that segment: run it and put its residuals on the tape

The forward pass fills the slots on its way and ends with the last segment on the tape. The loops have bounds from
tables of constants: there is neither a branch nor a call of Python, and XLA changes slots and tape in place.
"""

import functools
import math
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from . import _jax_plan as plans
from .errors import ArgumentError, UnsupportedError

Leaves = List[Any]


def _inexact(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.inexact)


def _bytes(leaves: Sequence[Any]) -> int:
    return sum(math.prod(x.shape) * x.dtype.itemsize for x in leaves)


def _pick(leaves: Sequence[Any], mask: Sequence[bool]) -> Leaves:
    return [leaf for leaf, chosen in zip(leaves, mask) if chosen]


def _merge(mask: Sequence[bool], chosen: Sequence[Any], others: Sequence[Any]) -> Leaves:
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


def _buffer(like: Any, length: int) -> Any:
    """Memory for `length` arrays like `like`, which lies on the devices of a `jax.shard_map` as `like` does."""
    keys = jnp.issubdtype(like.dtype, jax.dtypes.extended)
    return jnp.broadcast_to(like if keys else jnp.zeros_like(like), (length, *like.shape))


def _put(buffers: Leaves, values: Leaves, at: Any) -> Leaves:
    return [lax.dynamic_update_index_in_dim(b, v, at, 0) for b, v in zip(buffers, values)]


def at(buffers: Sequence[Any], at: Any) -> Leaves:
    return [lax.dynamic_index_in_dim(b, at, 0, keepdims=False) for b in buffers]


class Request(NamedTuple):
    """What the caller asks for: bytes of memory, and of host memory for the states, or a plan's two numbers."""

    memory: Optional[int]
    host_memory: Optional[int]
    snapshots: Optional[int]
    tape: int


class _Masks(NamedTuple):
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

    def masks(self, perturbed: Sequence[bool]) -> _Masks:
        """What has an adjoint, if the `perturbed` ones of constants, initial state and inputs have."""
        consts, state, xs = self.parts(perturbed)
        kinds = [_inexact(v.aval) for v in self.jaxpr.outvars]
        while True:
            out = [d and k for d, k in zip(_depends(self.jaxpr, (*consts, *state, *xs)), kinds)]
            more = [a or b for a, b in zip(state, out)]
            if more == state:
                return _Masks(consts, state, xs, out[self.states :])
            state = more

    def pull_back(self, masks: _Masks, consts: Leaves, state: Leaves, x: Leaves) -> Tuple[Leaves, Leaves, Any]:
        """A step's state and outputs, and the function of their adjoints that gives those of constants, state
        and inputs."""

        def differentiable(c: Leaves, s: Leaves, x_: Leaves) -> Any:
            merged = _merge(masks.consts, c, consts), _merge(masks.state, s, state), _merge(masks.xs, x_, x)
            new, y = self.step(*merged)
            return (_pick(new, masks.state), _pick(y, masks.ys)), (new, y)

        chosen = _pick(consts, masks.consts), _pick(state, masks.state), _pick(x, masks.xs)
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


class _Tape:
    """The residuals of steps: values that the adjoint of a step needs from the step. Those that are the same in
    every step are kept once, and those that are inputs of the loop are read there. All come from one trace: JAX
    may find other residuals in the next one."""

    def __init__(self, p: Program, masks: _Masks, consts: Leaves, state: Leaves, xs: Leaves) -> None:
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
        own, same = (_pick(leaves, [source == kind for source in self.source]) for kind in (-2, -1))
        return own, same, new, y

    def pull(self, kept: Leaves, same: Leaves, x: Leaves) -> Any:
        """The function of the adjoints of the step that had these residuals and inputs."""
        own, others = iter(kept), iter(same)
        leaves = [x[s] if s >= 0 else next(others) if s == -1 else next(own) for s in self.source]
        return jax.tree.unflatten(self.tree, leaves)


class _Plan:
    """What the forward pass decides, for the reverse pass."""

    def __init__(self, p: Program, masks: _Masks, consts: Leaves, state: Leaves, xs: Leaves) -> None:
        self.masks, request = masks, p.request
        self.tape_of = _Tape(p, masks, consts, state, xs)
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
        bars, sums = (_pick(new, masks.state), _pick(y, masks.ys)), _pick(consts, masks.consts)
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


class _Static:
    """A node without leaves, by which the forward pass hands a plan to the reverse pass."""

    def __init__(self, value: Any) -> None:
        self.value = value


jax.tree_util.register_pytree_node(_Static, lambda node: ((), node), lambda node, _: node)


# The identity, of which only forward mode can make a derivative: a gradient passes through it.
_gradient = Primitive("gpuzip_gradient")
_gradient.def_impl(lambda x: x)
_gradient.def_abstract_eval(lambda x: x)
batching.defvectorized(_gradient)
mlir.register_lowering(_gradient, lambda _, x: [x])


def _refuse(*_: Any) -> Any:
    raise UnsupportedError(_TWICE)


ad.deflinear2(_gradient, _refuse)

_TWICE = (
    "a reverse-mode derivative of a gradient that gpuzip.jax.scan made: differentiate the gradient in forward mode, "
    "jax.jvp(jax.grad(f), ...) for the product of a Hessian and a vector, jax.jacfwd(jax.grad(f)) for a Hessian; use "
    "jax.lax.scan where a gradient is part of what you differentiate"
)
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def run(p: Program, *leaves: Any) -> Tuple[Leaves, Leaves]:
    consts, state, xs = p.parts(leaves)
    return lax.scan(lambda state, x: p.step(consts, state, x), state, xs, p.n, p.backward)


def _put_host(leaves: Leaves, plan: _Plan) -> Leaves:
    return jax.device_put(leaves, jax.memory.Space.Host) if plan.host else leaves


def _put_device(leaves: Leaves, plan: _Plan) -> Leaves:
    return jax.device_put(leaves, jax.memory.Space.Device) if plan.host else leaves


def _forward(p: Program, *primals: Any) -> Tuple[Any, Any]:
    """The forward pass, which fills the slots on its way to the last segment, and that segment's tape."""
    consts, state, xs = p.parts([array(primal.value) for primal in primals])
    plan = _Plan(p, p.masks([primal.perturbed for primal in primals]), consts, state, xs)
    tape, n = plan.tape_of, p.n
    ys = [_buffer(y, n) for y in p.step(consts, state, at(xs, 0))[1]]
    last, slots = (plan.segments - 1) * plan.tape, []

    def one(k: Any, carry: Any) -> Any:
        state, y = p.step(consts, carry[0], at(xs, p.index(k)))
        return state, _put(carry[1], y, p.index(k))

    def row(j: Any, carry: Any) -> Any:
        state, ys, slots, begin = carry
        state, ys = lax.fori_loop(begin, rows[j, 0], one, (state, ys))
        return state, ys, _put(slots, _put_host(state, plan), rows[j, 1]), rows[j, 0]

    begin: Any = 0
    here = state
    if plan.segments > 1:
        rows, count = jnp.asarray(plan.tables.rows), int(plan.tables.count[0])
        slots = _put_host([jnp.broadcast_to(x, (plan.slots, *x.shape)) for x in state], plan)
        if count:
            here, ys, slots, begin = lax.fori_loop(0, count, row, (here, ys, slots, jnp.int32(0)))
        here, ys = lax.fori_loop(begin, last, one, (here, ys))
    if not plan.taped:
        end, ys = one(last, (here, ys))
        return (end, ys), (_Static(plan), consts, xs, here, slots, [], [])

    def record(k: Any, carry: Any) -> Any:
        state, ys, kept = carry
        residuals, _, state, y = tape.record(consts, state, at(xs, p.index(k)))
        return state, _put(ys, y, p.index(k)), _put(kept, residuals, k - last)

    residuals, same, *_ = tape.record(consts, here, at(xs, 0))
    kept = [_buffer(x, plan.tape) for x in residuals]
    end, ys, kept = lax.fori_loop(last, n, record, (here, ys, kept))
    return (end, ys), (_Static(plan), consts, xs, here, slots, same, kept)


def _reverse(p: Program, kept: Any, cotangents: Any) -> Tuple[Any, ...]:
    static, consts, xs, here, slots, same, kept = kept
    plan: _Plan = static.value
    masks, tape, n = plan.masks, plan.tape_of, p.n
    t = jax.tree.map(jnp.asarray, plan.tables)
    zero = jax.custom_derivatives.SymbolicZero
    after, ys_bar = (_pick(bars, mask) for bars, mask in zip(cotangents, (masks.state, masks.ys)))
    after = [jnp.zeros_like(like) if isinstance(x, zero) else x for x, like in zip(after, _pick(here, masks.state))]
    outputs = list(map(jnp.zeros_like, _pick(p.step(consts, here, at(xs, 0))[1], masks.ys)))

    def bars(k: Any) -> Leaves:
        return [none if isinstance(y, zero) else at([y], p.index(k))[0] for y, none in zip(ys_bar, outputs)]

    def back(k: Any, carry: Any, pull: Any) -> Any:
        adjoint, sums, xs_bar = carry
        more, adjoint, x_bar = pull((adjoint, bars(k)))
        return adjoint, [a + b for a, b in zip(sums, more)], _put(xs_bar, x_bar, p.index(k))

    def record(begin: Any, k: Any, carry: Any) -> Any:
        state, kept = carry
        residuals, _, state, _ = tape.record(consts, state, at(xs, p.index(k)))
        return state, _put(kept, residuals, k - begin)

    def row(j: Any, carry: Any) -> Any:
        here, slots, begin = carry
        here = p.run(consts, xs, here, begin, t.rows[j, 0])
        return here, _put(slots, _put_host(here, plan), t.rows[j, 1]), t.rows[j, 0]

    first_row = np.cumsum(plan.tables.count)
    begins = jnp.asarray(np.r_[first_row, first_row[-1:]].astype(np.int32))

    def segment(i: Any, carry: Any) -> Any:
        """The adjoint of segment `segments - 1 - i`, and what comes before the next one."""
        here, slots, kept, *bars = carry
        begin = (plan.segments - 1 - i) * plan.tape
        if not plan.taped:
            bars = back(begin, bars, p.pull_back(masks, consts, here, at(xs, p.index(begin)))[2])
        else:
            begin, kept, *bars = adjoints(begin, jnp.minimum(begin + plan.tape, n), kept, bars)
        following = jnp.minimum(i + 1, plan.segments - 1)
        to = jnp.maximum(begin - plan.tape, 0)
        here = _put_device(at(slots, t.restore[following]), plan)
        start = t.begin[following]
        if len(plan.tables.rows) > plan.tables.count[0]:
            here, slots, start = lax.fori_loop(begins[i], begins[i + 1], row, (here, slots, start))
        here = p.run(consts, xs, here, start, to)
        if plan.taped:
            _, kept = lax.fori_loop(to, begin, functools.partial(record, to), (here, kept))
        return here, slots, kept, *bars

    def adjoints(begin: Any, end: Any, kept: Leaves, bars: Any) -> Any:
        """The adjoints of the steps that are on the tape, the last one first; returns `begin`, too."""

        def replay(carry: Any) -> Any:
            k, kept, *bars = carry
            k = k - 1
            return k, kept, *back(k, bars, tape.pull(at(kept, k - begin), same, at(xs, p.index(k))))

        # XLA would copy the tape if it could write the next segment's residuals before this loop: the next
        # segment ends where this loop says that it has ended.
        return lax.while_loop(lambda carry: carry[0] > begin, replay, (end, kept, *bars))

    sums = list(map(jnp.zeros_like, _pick(consts, masks.consts)))
    xs_bar = list(map(jnp.zeros_like, _pick(xs, masks.xs)))
    if plan.segments > 1:
        carry = here, slots, kept, after, sums, xs_bar
        *_, after, sums, xs_bar = lax.fori_loop(0, plan.segments, segment, carry)
    else:
        *_, after, sums, xs_bar = adjoints(jnp.int32(0), jnp.int32(n), kept, (after, sums, xs_bar))
    gradient = list(map(_gradient.bind, (*sums, *after, *xs_bar)))
    mask = *masks.consts, *masks.state, *masks.xs
    return tuple(_merge(mask, gradient, [None] * len(mask)))


run.defvjp(_forward, _reverse, symbolic_zeros=True)
