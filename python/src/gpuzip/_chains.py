"""The quickest order in which to compute and differentiate a chain of unequal layers within a memory.

The dynamic program is that of O. Beaumont, L. Eyraud-Dubois, J. Herrmann, A. Joly and A. Shilova, "Optimal
checkpointing for heterogeneous chains: how to train deep neural networks with limited memory" (Inria RR-9302,
2019), which names its program rotor. It is optimal among the orders that hold what they have stored, the input of
a layer or all that its adjoint reads, until the adjoint of this layer.
"""

from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

from .errors import BudgetError

PARTS = 500  # Parts of the memory in which the program counts: sizes are rounded up to whole parts.


class Cost(NamedTuple):
    """What a layer costs."""

    forward: float
    """Seconds of the layer."""

    backward: float
    """Seconds of its adjoint."""

    output: int
    """Bytes of its result."""

    saved: int
    """Bytes that its adjoint reads, without the layer's input and parameters and with its result."""


# What to do with a layer. Its input is the result of the layer before, or is stored.
RUN = "run"  # Computes the layer.
STORE = "store"  # Stores the input, and computes the layer.
RECORD = "record"  # Computes the layer, and holds all that its adjoint reads.
LOAD = "load"  # Goes back to the layer's stored input.
ADJOINT = "adjoint"  # Computes the adjoint of the layer, and frees what was held for it.


class Order(NamedTuple):
    actions: List[Tuple[str, int]]
    """Names of what to do, and numbers of layers from 0."""

    seconds: float
    """The predicted time."""


def plan(costs: Sequence[Cost], inputs: int, memory: int) -> Order:
    """The quickest order within `memory` bytes. They are for results of layers, what adjoints read, and adjoints
    of results; the input of the first layer, of `inputs` bytes, is not among them, and its adjoint is. A
    `BudgetError` says how many bytes are enough."""
    unit = max(1, -(-memory // PARTS))
    table = _Table(costs, inputs, memory // unit, unit)
    if not np.isfinite(table.time[0][-1][-1]):
        enough = sum(cost.saved for cost in costs) + 2 * max([inputs, *(cost.output for cost in costs)])
        least = _least(costs, inputs, memory, max(enough, memory + 1))
        raise BudgetError(f"memory = {memory} bytes: a gradient of these layers needs {least} bytes")
    return Order(table.order(0, len(costs) - 1, memory // unit), float(table.time[0][-1][-1]))


def _least(costs: Sequence[Cost], inputs: int, low: int, high: int) -> int:
    """Bytes that are enough, at most 1 % above the least number."""
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        unit = max(1, -(-middle // PARTS))
        time = _Table(costs, inputs, middle // unit, unit).time
        low, high = (low, middle) if np.isfinite(time[0][-1][-1]) else (middle, high)
    return high


class _Table:
    """`time[s][t - s][m]`: the least seconds of layers s to t and of their adjoints within m units of memory, beside
    the input of layer s. `choice[s, t][m]` is s if layer s is recorded, and else the layer whose input is stored next."""

    def __init__(self, costs: Sequence[Cost], inputs: int, units: int, unit: int) -> None:
        n = len(costs)
        self.units, room = units, np.arange(units + 1)
        self.saved = [-(-max(cost.saved, cost.output) // unit) for cost in costs]
        # Of the input of layer k, and of its adjoint.
        self.size = [-(-count // unit) for count in (inputs, *(cost.output for cost in costs))]
        self.time = [np.full((n - s, units + 1), np.inf) for s in range(n)]
        self.choice: Any = {}
        # `stored[t][k]`: the time of layers k to t beside the input of k, which takes memory.
        stored = [np.full((t + 1, units + 1), np.inf) for t in range(n)]
        before = np.concatenate([[0.0], np.cumsum([cost.forward for cost in costs])])
        for length in range(n):
            for s in range(n - length):
                t = s + length
                times = np.empty((length + 1, units + 1))
                times[0] = costs[s].forward + costs[s].backward
                if s < t:
                    times[0] += self.beside(self.saved[s], self.time[s + 1][t - s - 1])
                    # Layers s to k - 1 run without being recorded. There is room for that: the adjoint of such a
                    # layer needs its input and its result twice each, and the adjoint of layer t the result of t
                    # twice; a layer that runs needs each of the three once.
                    run = before[s + 1 : t + 1, None] - before[s]
                    times[1:] = run + stored[t][s + 1 :] + self.time[s][: t - s]
                # The adjoint of the result of t is there while s is recorded, and that of s's own result later.
                times[0][room < self.saved[s] + max(self.size[t + 1], self.size[s + 1] + self.size[s])] = np.inf
                best = np.argmin(times, axis=0)
                self.time[s][t - s] = times[best, room]
                self.choice[s, t] = (s + best).astype(np.int32)
                stored[t][s] = self.beside(self.size[s], self.time[s][t - s])

    def beside(self, taken: int, time: Any) -> Any:
        """`time` where `taken` units of the memory are in use."""
        found = np.full(self.units + 1, np.inf)
        found[min(taken, self.units + 1) :] = time[: max(self.units + 1 - taken, 0)]
        return found

    def order(self, s: int, t: int, room: int) -> List[Tuple[str, int]]:
        found: List[Tuple[str, int]] = []
        todo: List[Any] = [(s, t, room)]
        while todo:
            item = todo.pop()
            if isinstance(item[0], str):
                found.append(item)
                continue
            s, t, room = item
            k = int(self.choice[s, t][room])
            if k == s:
                found.append((RECORD, s))
                todo.append((ADJOINT, s))
                todo += [(s + 1, t, room - self.saved[s])] if s < t else []
            else:
                found += [(STORE, s), *((RUN, j) for j in range(s + 1, k))]
                todo += [(s, k - 1, room), (LOAD, s), (k, t, room - self.size[k])]
        return found
