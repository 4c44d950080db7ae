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
    if not np.isfinite(table.time[0, len(costs) - 1][-1]):
        enough = sum(cost.saved for cost in costs) + 2 * max([inputs, *(cost.output for cost in costs)])
        least = _least(costs, inputs, memory, max(enough, memory + 1))
        raise BudgetError(f"memory = {memory} bytes: a gradient of these layers needs {least} bytes")
    return Order(table.order(0, len(costs) - 1, memory // unit), float(table.time[0, len(costs) - 1][-1]))


def _least(costs: Sequence[Cost], inputs: int, low: int, high: int) -> int:
    """Bytes that are enough, at most 1 % above the least number."""
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        unit = max(1, -(-middle // PARTS))
        time = _Table(costs, inputs, middle // unit, unit).time
        low, high = (low, middle) if np.isfinite(time[0, len(costs) - 1][-1]) else (middle, high)
    return high


class _Table:
    """`time[s, t][m]`: the least seconds of layers s to t and of their adjoints within m units of memory, beside the
    input of layer s. `choice[s, t][m]` is s if layer s is recorded, and else the layer whose input is stored next."""

    def __init__(self, costs: Sequence[Cost], inputs: int, units: int, unit: int) -> None:
        self.costs, n = costs, len(costs)
        self.saved = [-(-max(cost.saved, cost.output) // unit) for cost in costs]
        # Of the input of layer k, and of its adjoint.
        self.size = [-(-bytes_ // unit) for bytes_ in (inputs, *(cost.output for cost in costs))]
        self.time: Any = {}
        self.choice: Any = {}
        self.units, self.room = units, np.arange(units + 1)
        before = np.concatenate([[0.0], np.cumsum([cost.forward for cost in costs])])
        for length in range(n):
            for s in range(n - length):
                t = s + length
                adjoint = self.size[t + 1]
                record = self.record(s, t)
                times, layers = [np.where(self.room >= self.need(s, t, adjoint), record, np.inf)], [s]
                # The least room in which layers s to k - 1 run without being recorded.
                run = adjoint + self.size[s + 1]
                for k in range(s + 1, t + 1):
                    run = max(run, adjoint + (self.size[k - 1] if k - 1 > s else 0) + self.size[k])
                    time = before[k] - before[s] + self.shifted(self.time[k, t], self.size[k]) + self.time[s, k - 1]
                    times.append(np.where(self.room >= run, time, np.inf))
                    layers.append(k)
                best = np.argmin(times, axis=0)
                self.time[s, t] = np.array(times)[best, self.room]
                self.choice[s, t] = np.array(layers)[best]

    def need(self, s: int, t: int, adjoint: int) -> int:
        """The room in which layer s is recorded and later differentiated, without the layers after it."""
        return self.saved[s] + max(adjoint, self.size[s + 1] + self.size[s])

    def record(self, s: int, t: int) -> Any:
        cost = self.costs[s].forward + self.costs[s].backward
        return cost + (self.shifted(self.time[s + 1, t], self.saved[s]) if s < t else np.zeros(self.units + 1))

    def shifted(self, time: Any, taken: int) -> Any:
        """`time` where `taken` units of the memory are in use."""
        return np.concatenate([np.full(min(taken, self.units + 1), np.inf), time[: max(self.units + 1 - taken, 0)]])

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
