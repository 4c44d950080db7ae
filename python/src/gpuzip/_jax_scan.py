"""The forward and the reverse pass of the compiled scan of gpuzip.jax, as programs of JAX.

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
from typing import Any, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _jax_linear as linear
from ._jax_program import Leaves, Masks, Plan, Program, array, at, buffer, inexact, merge, pick, put


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def run(p: Program, *leaves: Any) -> Tuple[Leaves, Leaves]:
    consts, state, xs = p.parts(leaves)
    return lax.scan(lambda state, x: p.step(consts, state, x), state, xs, p.n, p.backward)


def _put_host(leaves: Leaves, plan: Plan) -> Leaves:
    return jax.device_put(leaves, jax.memory.Space.Host) if plan.host else leaves


def _put_device(leaves: Leaves, plan: Plan) -> Leaves:
    return jax.device_put(leaves, jax.memory.Space.Device) if plan.host else leaves


class _Static:
    """A node without leaves, by which the forward pass hands a plan to the reverse pass."""

    def __init__(self, value: Any) -> None:
        self.value = value


jax.tree_util.register_pytree_node(_Static, lambda node: ((), node), lambda node, _: node)


class _Linear:
    """The derivative of a loop at what its forward pass kept."""

    def __init__(self, p: Program, plan: Plan, kept: Any, state: Leaves, ends: Leaves) -> None:
        self.p, self.plan = p, plan
        # Slot 0 has the initial state.
        self.leaves, self.tree = jax.tree.flatten((kept, [] if kept[4] else state))
        self.kinds = [jax.typeof(end) for end in ends]

    def tangents(self, leaves: Any, dots: Any) -> Any:
        """Of the last state and the outputs, from those of constants, initial state and inputs."""
        (_, consts, xs, _, slots, *_), state = jax.tree.unflatten(self.tree, leaves)
        state = _put_device(at(slots, 0), self.plan) if slots else state
        masks = self.plan.masks
        mask = *masks.consts, *masks.state, *masks.xs
        whole = *consts, *state, *xs
        return jax.jvp(lambda *x: self.plain(mask, x, whole), tuple(pick(whole, mask)), tuple(dots))[1]

    def plain(self, mask: Any, chosen: Any, whole: Any) -> Any:
        """The last state and the outputs, as far as they have derivatives, by a plain scan."""
        masks, p = self.plan.masks, self.p
        consts, state, xs = p.parts(merge(mask, chosen, whole))
        last, ys = lax.scan(lambda state, x: p.step(consts, state, x), state, xs, p.n, p.backward)
        return *pick(last, masks.state), *pick(ys, masks.ys)

    def adjoints(self, leaves: Any, bars: Any) -> Any:
        kept, _ = jax.tree.unflatten(self.tree, leaves)
        count = sum(self.plan.masks.state)
        return _reverse(self.p, kept, (list(bars[:count]), list(bars[count:])))


def _forward(p: Program, leaves: Any, perturbed: Any) -> Tuple[Any, Any]:
    """The forward pass, which fills the slots on its way to the last segment, and that segment's tape."""
    consts, state, xs = p.parts(list(map(array, leaves)))
    plan = Plan(p, p.masks(perturbed), consts, state, xs)
    tape, n = plan.tape_of, p.n
    ys = [buffer(y, n) for y in p.step(consts, state, at(xs, 0))[1]]
    last, slots = (plan.segments - 1) * plan.tape, []

    def one(k: Any, carry: Any) -> Any:
        state, y = p.step(consts, carry[0], at(xs, p.index(k)))
        return state, put(carry[1], y, p.index(k))

    def row(j: Any, carry: Any) -> Any:
        state, ys, slots, begin = carry
        state, ys = lax.fori_loop(begin, rows[j, 0], one, (state, ys))
        return state, ys, put(slots, _put_host(state, plan), rows[j, 1]), rows[j, 0]

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
        return state, put(ys, y, p.index(k)), put(kept, residuals, k - last)

    residuals, same, *_ = tape.record(consts, here, at(xs, 0))
    kept = [buffer(x, plan.tape) for x in residuals]
    end, ys, kept = lax.fori_loop(last, n, record, (here, ys, kept))
    return (end, ys), (_Static(plan), consts, xs, here, slots, same, kept)


def _reverse(p: Program, kept: Any, cotangents: Any) -> Tuple[Any, ...]:
    """The adjoints of constants, initial state and inputs, from those of the last state and the outputs."""
    static, consts, xs, here, slots, same, kept = kept
    plan: Plan = static.value
    masks, tape, n = plan.masks, plan.tape_of, p.n
    t = jax.tree.map(jnp.asarray, plan.tables)
    after, ys_bar = cotangents  # None for those that are 0.
    after = [jnp.zeros_like(like) if x is None else x for x, like in zip(after, pick(here, masks.state))]
    outputs = list(map(jnp.zeros_like, pick(p.step(consts, here, at(xs, 0))[1], masks.ys)))

    def bars(k: Any) -> Leaves:
        return [none if y is None else at([y], p.index(k))[0] for y, none in zip(ys_bar, outputs)]

    def back(k: Any, carry: Any, pull: Any) -> Any:
        adjoint, sums, xs_bar = carry
        more, adjoint, x_bar = pull((adjoint, bars(k)))
        return adjoint, [a + b for a, b in zip(sums, more)], put(xs_bar, x_bar, p.index(k))

    def record(begin: Any, k: Any, carry: Any) -> Any:
        state, kept = carry
        residuals, _, state, _ = tape.record(consts, state, at(xs, p.index(k)))
        return state, put(kept, residuals, k - begin)

    def row(j: Any, carry: Any) -> Any:
        here, slots, begin = carry
        here = p.run(consts, xs, here, begin, t.rows[j, 0])
        return here, put(slots, _put_host(here, plan), t.rows[j, 1]), t.rows[j, 0]

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

    sums = list(map(jnp.zeros_like, pick(consts, masks.consts)))
    xs_bar = list(map(jnp.zeros_like, pick(xs, masks.xs)))
    if plan.segments > 1:
        carry = here, slots, kept, after, sums, xs_bar
        *_, after, sums, xs_bar = lax.fori_loop(0, plan.segments, segment, carry)
    else:
        *_, after, sums, xs_bar = adjoints(jnp.int32(0), jnp.int32(n), kept, (after, sums, xs_bar))
    return tuple(map(linear.guard, (*sums, *after, *xs_bar)))


def _derivative(p: Program, primals: Any, tangents: Any) -> Any:
    """The loop, and its derivative as a linear function of the tangents that are not zero."""
    zero = jax.custom_derivatives.SymbolicZero
    perturbed = [not isinstance(t, zero) for t in tangents]
    (end, ys), kept = _forward(p, primals, perturbed)
    masks: Masks = kept[0].value.masks
    mask = *masks.consts, *masks.state, *masks.xs
    dots = [jnp.zeros_like(x) if isinstance(t, zero) else t for x, t in zip(pick(primals, mask), pick(tangents, mask))]
    ends = [*pick(end, masks.state), *pick(ys, masks.ys)]
    call = _Linear(p, kept[0].value, kept, p.parts(list(map(array, primals)))[1], ends)
    found = linear.bind(call, call.leaves, dots)
    none = [jax.custom_derivatives.zero_from_primal(x, symbolic_zeros=True) for x in (*end, *ys)]
    whole = merge((*masks.state, *masks.ys), found, none)
    # A reverse pass over the loops of the forward pass would begin with these.
    end, ys = ([linear.guard(x) if inexact(x) else x for x in leaves] for leaves in (end, ys))
    return (end, ys), (whole[: len(end)], whole[len(end) :])


run.defjvp(_derivative, symbolic_zeros=True)
