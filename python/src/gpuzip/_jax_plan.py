"""Plans of the compiled scan of gpuzip.jax: when which states and residuals are kept, as tables of integers.

A loop of n time steps is cut into segments of `tape` steps, of which the last one may be shorter. The adjoint
of a segment first computes its steps again and keeps their residuals, the values that the adjoint of a step
needs. The states at the beginnings of segments are kept in `slots` by Revolve, which computes the fewest steps
again (Griewank and Walther, Algorithm 799, ACM TOMS 26(1), 2000), with segments in the place of steps.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np


def _reach(slots: int, sweeps: int) -> int:
    """The most segments that Revolve reverses with `slots` states and each segment run at most `sweeps` times
    before its adjoint: binomial(slots + sweeps, slots)."""
    return math.comb(slots + sweeps, slots) if sweeps >= 0 else 0


def _sweeps(segments: int, slots: int) -> int:
    """The fewest runs of a segment before its adjoint, at most, with which Revolve reverses `segments`."""
    sweeps = 0
    while _reach(slots, sweeps) < segments:
        sweeps += 1
    return sweeps


def advances(segments: int, slots: int) -> int:
    """The segments that Revolve runs forward, counted each time, without their adjoints."""
    sweeps = _sweeps(segments, slots)
    return sweeps * segments - _reach(slots + 1, sweeps - 1)


class Tables(NamedTuple):
    """What happens before the adjoint of each segment, from the last segment to the first one: the state
    `begin` is taken from slot `restore`; for each of `count` rows of `rows`, steps are run up to the state
    `rows[:, 0]`, which is put into slot `rows[:, 1]`; then steps are run up to the segment's first state."""

    restore: Any
    begin: Any
    count: Any
    rows: Any


# Parts of at most so many segments are made once and used wherever the schedule has them again.
_SMALL = 4096


def _revolve(segments: int, slots: int, memo: Dict[Tuple[int, int], Tables]) -> Tables:
    """The tables of Revolve, in segments. The state 0 is in slot 0."""
    found: List[Tables] = []
    parts = [(0, segments, 0)]  # First segment, number of segments, the slot that has its state.
    while parts:
        start, left, slot = parts.pop()
        if left < min(segments, _SMALL):
            key = left, slots - slot
            if key not in memo:
                memo[key] = _revolve(*key, memo)
            part = memo[key]
            found.append(Tables(part.restore + slot, part.begin + start, part.count, part.rows + [start, slot]))
            continue
        first, own, rows = slot, start, []
        while slots - slot > 1 and left > slots - slot + 1:
            free = slots - slot
            sweeps = _sweeps(left, free)
            length = min(_reach(free, sweeps - 1), left - _reach(free - 1, sweeps - 1))
            parts.append((start, length, slot))
            start, left, slot = start + length, left - length, slot + 1
            rows.append([start, slot])
        restore: Any
        begin: Any
        if left <= slots - slot + 1:  # Each state has a slot, but the last one, which is used at once.
            rows += [[start + k, slot + k] for k in range(1, left - 1)]
            restore, begin = np.arange(left)[::-1] + slot, np.arange(left)[::-1] + start
        else:
            restore, begin = np.full(left, slot), np.full(left, start)
        restore[0], begin[0] = first, own
        count = np.r_[len(rows), np.zeros(left - 1, int)]
        found.append(Tables(restore, begin, count, np.reshape(rows, (-1, 2)).astype(int)))
    return Tables(*(np.concatenate(column) for column in zip(*found)))


def tables(n: int, slots: int, tape: int) -> Tables:
    """The tables of a plan, in time steps, as 32-bit integers."""
    found = _revolve(-(-n // tape), slots, {})
    in_steps = found._replace(begin=found.begin * tape, rows=found.rows * [tape, 1])
    return Tables(*(x.astype(np.int32) for x in in_steps))


class Costs(NamedTuple):
    """Bytes of a state and of a step's residuals, and the work of a step, of a step that keeps its residuals, of
    an adjoint from kept residuals, and of an adjoint that computes them, as `work` counts it."""

    state: int
    residuals: int
    step: float
    taped: float
    adjoint: float
    fused: float

    def of(self, n: int, slots: int, tape: int) -> float:
        """The work of the forward and the reverse pass."""
        segments = -(-n // tape)
        again = (advances(segments, slots) - (segments - 1)) * tape
        turns = segments * (_TURN + _TURN_STATES * self.state * _far(4 * self.state))
        if tape == 1:
            return turns + (n + again) * self.step + n * self.fused
        # The forward pass runs all segments but the last one, which it puts on the tape.
        forward = (segments - 1) * tape
        taped = self.taped + self.adjoint + 2 * self.residuals * _far(tape * self.residuals)
        return turns + (forward + again) * self.step + n * taped


def _far(size: int) -> float:
    """The part of `size` bytes that does not stay in a cache near the processor, of some MiB."""
    return size / (size + 2**20)


def choose(n: int, memory: int, host_memory: Optional[int], costs: Costs) -> Tuple[int, int]:
    """The slots and the tape with the least work of all that fit in `memory` bytes, the slots in `host_memory`
    bytes if these are given; (0, 0) if none do."""
    best: Tuple[float, int, int] = (math.inf, 0, 0)
    for tape in _tapes(n):
        segments = -(-n // tape)
        left = memory - (tape * costs.residuals if tape > 1 or n == 1 else 0)
        room = left if host_memory is None else host_memory
        slots = segments - 1 if not costs.state else min(segments - 1, room // costs.state)
        if left >= 0 and (slots >= 1 or segments == 1):
            best = min(best, (costs.of(n, max(slots, 1), tape), max(slots, 1), tape))
    return best[1:]


def _tapes(n: int) -> List[int]:
    """Lengths of segments, in steps of 2 % at least: those that cut n steps into segments of equal length."""
    found, tape = [], n
    while tape > 1:
        found.append(-(-n // -(-n // tape)))
        tape = found[-1] - max(1, found[-1] // 50)
    return [*found, 1]


# What takes time, in the time in which memory moves a byte: an element of an elementwise operation, one of an
# operation that the processor computes by a series, a floating-point operation of a matrix product, and the turn
# from one segment to the next, in itself and for each byte of the state. From four programs on one core of an
# AMD EPYC; a GPU has other values.
_ELEMENT, _SERIES, _PRODUCT, _STEP, _TURN, _TURN_STATES = 1.0, 90.0, 0.7, 600.0, 10_000.0, 8.0
_SERIES_NAMES = frozenset(
    "sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log1p logistic pow erf "
    "erfc erf_inv lgamma digamma cbrt random_bits threefry2x32".split()
)


def work(jaxpr: Any) -> float:
    """The work of a program: each argument is read once and each result written once, since compilers fuse what
    lies between, and each operation counts by its kind."""
    live = {v for v in jaxpr.outvars if not hasattr(v, "val")}
    total = _STEP + sum(map(_bytes, live))
    for equation in reversed(jaxpr.eqns):
        if live.isdisjoint(equation.outvars):
            continue
        live.update(v for v in equation.invars if not hasattr(v, "val"))
        total += _operation(equation)
    return total + sum(_bytes(v) for v in (*jaxpr.constvars, *jaxpr.invars) if v in live)


def _operation(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    inner = [p for value in params.values() for p in (value if isinstance(value, (tuple, list)) else [value])]
    bodies = [work(getattr(p, "jaxpr", p)) for p in inner if hasattr(getattr(p, "jaxpr", p), "eqns")]
    if bodies:
        return max(bodies) * (params["length"] if name == "scan" else 1)
    size = sum(_size(v) for v in equation.outvars)
    if name == "dot_general":
        left = equation.invars[0].aval.shape
        return _PRODUCT * 2 * size * math.prod(left[k] for k in params["dimension_numbers"][0][0])
    if name == "conv_general_dilated":
        kernel = equation.invars[1].aval.shape
        return _PRODUCT * 2 * size * math.prod(kernel) / kernel[params["dimension_numbers"].rhs_spec[0]]
    return size * (_SERIES if name in _SERIES_NAMES else _ELEMENT)


def _size(v: Any) -> int:
    return math.prod(getattr(v.aval, "shape", ()))


def _bytes(v: Any) -> int:
    return _size(v) * v.aval.dtype.itemsize
