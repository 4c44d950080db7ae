"""Gradients of long loops in PyTorch: a loop over time steps whose reverse pass has its states from gpuzip."""

import contextlib
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._arrays import int32
from ._chains import Cost  # noqa: F401
from ._layers import Layers, measure  # noqa: F401
from ._reads import CONSTANTS, reads
from ._torch_graph import eager, gradients, refuse_others
from ._torch_state import Arrays, Form, Leaves, Random, autocast, differentiable, restrided, versions
from .actions import FORWARD, RESTORE, SAVE
from .config import budget, given_as_memory, of, without_restart
from .errors import ArgumentError, UnsupportedError
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

_saved = object()  # Stands for a parameter that is a tensor, which PyTorch keeps.


def _watched(step: Callable[..., Any], params: Leaves) -> Dict[Tuple[str, int], Any]:
    """What the steps read beside state and t, by name: numbers and texts, tensors with the numbers of
    their changes in place, and bytes of NumPy's arrays."""
    found: Dict[Tuple[str, int], Any] = {}
    given = [(f"parameter {k}", leaf) for k, leaf in enumerate(params) if isinstance(leaf, torch.Tensor)]
    # PyTorch keeps the parameters until the graph is freed.
    found.update(
        {(name, 0): (None, leaf.layout == torch.strided and leaf.data_ptr(), versions([leaf])) for name, leaf in given}
    )
    for name, value in reads(step, lambda value: isinstance(value, (torch.Tensor, *_ARRAYS))):
        key = name, sum(known == name for known, _ in found) if (name, 0) in found else 0
        if isinstance(value, torch.Tensor):
            # A detached tensor shares the number of changes, and keeps no graph alive.
            found[key] = value.detach(), id(value) if value.layout != torch.strided else value.data_ptr(), versions([value])
        elif isinstance(value, _ARRAYS):
            found[key] = value.tobytes()
        elif isinstance(value, CONSTANTS):
            found[key] = value
    return found


_ARRAYS = (np.ndarray, np.generic)


def _refuse_changes(before: Dict[Any, Any], after: Dict[Any, Any], inside: bool) -> None:
    """Raises an error if a value has changed. `inside` a sweep a step may count its calls."""
    for key, old in before.items():
        new = after.get(key)
        if isinstance(old, tuple):
            same = isinstance(new, tuple) and old[1:] == new[1:]
        else:
            same = old is new or (type(old) is type(new) and old == new)
        if not same and not (inside and isinstance(old, _COUNTS)):
            raise ArgumentError(_CHANGED.format(key[0]))


_COUNTS = (bool, int, str, type(None))

_CHANGED = (
    "{} has changed since the forward sweep began: gpuzip.torch.scan computes states again, and they would be "
    "others; make what the steps change a part of the state, change other values after the reverse sweep only, "
    "and use modules that count, such as BatchNorm, in eval mode or without running statistics"
)


_OTHERS = (
    "step reads a tensor of shape {} that requires a gradient and is not among its arguments: pass it to "
    "gpuzip.torch.scan as one of `params`, or detach it"
)


class _Loop:
    """The time step as a function of lists of tensors."""

    def __init__(self, step: Callable[..., Any], n: int, form: Form, params_tree: Any) -> None:
        self.step, self.n, self.form, self.params_tree = step, n, form, params_tree

    def named(self, params: Leaves) -> Any:
        """The arguments of the step after state and t."""
        return tree_unflatten(params, self.params_tree)

    def advance(self, leaves: Leaves, t: int, named: Any) -> Leaves:
        """The state t + 1, where neither state nor parameters require a gradient."""
        after = self.after(leaves, t, named)
        for leaf in after:
            if leaf.requires_grad:
                refuse_others(after, _OTHERS)
                return [leaf.detach() for leaf in after]
        return after

    def after(self, leaves: Leaves, t: int, named: Any) -> Leaves:
        """The state t + 1."""
        before = versions(leaves)
        after = self.form.flat(self.step(self.form.state(leaves), t, *named), t)
        if versions(leaves) != before:
            raise ArgumentError(f"step {t} changes its state in place: return new tensors")
        return after

    def refuse_changes(self, named: Any, params: Leaves) -> None:
        """Raises an error if steps have changed the tuples, lists and dicts of their parameters."""
        found, tree = tree_flatten(named)
        if tree != self.params_tree or any(a is not b for a, b in zip(found, params)):
            raise ArgumentError(_CHANGED.format("a tuple, list or dict among the parameters"))


def _detached(leaves: Leaves) -> Leaves:
    """The parameters or the state, with tensors that require no gradient. A result of a step that requires one tells
    of another tensor; and autocast keeps no casts of such tensors, which have no graph where one is recorded."""
    tensors = {id(leaf): leaf.detach() for leaf in leaves if isinstance(leaf, torch.Tensor)}
    return [tensors.get(id(leaf), leaf) for leaf in leaves]


class _Run:
    """One forward sweep, and the session that has its states for as many reverse sweeps as are planned."""

    def __init__(self, sweep: "_Sweep", state: Leaves, params: Leaves) -> None:
        self.loop, self.random, self.first = sweep.loop, sweep.random, sweep.first
        self.leaves = [k for k, wanted in enumerate(self.loop.form.differentiable) if wanted]
        self.arrays = Arrays(state)
        self.session = Session(self.arrays.tensors(state), self.loop.n, **{"range_actions": True, **sweep.config})
        self.planned, self.done = self.session._sweeps, 0
        self.state, self.params = _detached(state), _detached(params)
        self.named = self.loop.named(self.params)
        self.saved: Dict[int, Any] = {}  # Strides and random number generators of the saved states.
        with torch.enable_grad():
            self.until_backward()
        self.generators = self.random.get()

    def until_backward(self) -> None:
        """Does what the schedule wants up to the next BACKWARD, whose state is then `state`, or to the end."""
        session, saved = self.session, self.saved
        for action in session:
            if action.type == FORWARD:
                for t in range(action.ts - 1, action.ts_end):
                    self.state = self.loop.advance(self.state, t, self.named)
            elif action.type == SAVE:
                arrays, strides = self.arrays.save(self.state)
                session.save(action.ts, arrays)
                saved[action.ts] = strides, self.random.get()
            elif action.type == RESTORE:
                self.state, arrays = self.arrays.new()
                session.retrieve(action.ts, arrays)
                strides, generators = saved.pop(action.ts) if action.last_use else saved[action.ts]
                self.state = restrided(self.state, strides)
                self.random.set(generators)
            elif action.ts_end > action.ts:
                raise UnsupportedError("adjoint_every: gpuzip.torch.scan does the adjoint of every time step by itself")
            else:
                return

    def reverse(self, params: Leaves, cotangents: Sequence[Any]) -> Tuple[Leaves, Leaves]:
        """Returns the adjoints of the initial state and of the parameters."""
        adjoint: Leaves = list(cotangents)
        named = self.loop.named(params)
        # A parameter that is given twice has its adjoint once.
        by = tuple({id(param): param for param in params if getattr(param, "requires_grad", False)}.values())
        sums: Leaves = [None] * len(by)
        with contextlib.ExitStack() as closes, torch.enable_grad():
            closes.enter_context(self.session)
            self.random.set(self.generators)
            if self.done:
                self.session.rewind()
                self.until_backward()
            for t in range(self.loop.n - 1, -1, -1):
                adjoint, sums = self.pull_back(t, adjoint, named, by, sums)
                self.until_backward()
            self.loop.refuse_changes(self.named, self.params)
            self.loop.refuse_changes(named, params)
            self.done += 1
            if self.done < self.planned:
                closes.pop_all()  # The session stays open for the next sweep.
        found = dict(zip(map(id, by), sums))
        return adjoint, [found.pop(id(param), None) for param in params]

    def pull_back(self, t: int, adjoint: Leaves, named: Any, params: Tuple[Any, ...], sums: Leaves) -> Tuple[Leaves, Leaves]:
        """The adjoint of time step t, which adds to the adjoints `sums` of the parameters `params`. The parameters
        are results of their own, with the adjoints `sums`: PyTorch then adds up in the order in which it does so for
        a plain loop."""
        state = [leaf.detach() for leaf in self.state]
        self.state = []  # The state t - 1 comes from the session.
        leaves = self.leaves
        if t == 0:
            # A tensor that is two leaves has its adjoint once.
            state = [state[k] for k in self.first]
            leaves = [k for k in leaves if self.first[k] == k]
        for k in leaves:
            state[k].requires_grad = True
        after, before = self.loop.after(state, t, named), [None] * len(state)
        results, weights = [], []
        for leaf, weight in zip(after, adjoint):
            if weight is not None and leaf.requires_grad:
                results.append(leaf)
                weights.append(weight)
        by = (*(state[k] for k in leaves), *params)
        if not results or not by:
            return before, sums
        for leaf, weight in zip(params, sums):
            if weight is not None:
                results.append(leaf)
                weights.append(weight)
        found = gradients(tuple(results), tuple(weights), by)
        for k, slope in zip(leaves, found):
            before[k] = slope
        return before, list(found[len(leaves) :])


class _Sweep:
    """One call of `scan`: its forward sweep, and what its reverse sweeps need."""

    def __init__(self, loop: _Loop, state: Leaves, preserve_rng_state: bool, config: Dict[str, Any]) -> None:
        self.loop, self.config = loop, config
        # For each leaf of the initial state, the first leaf that is the same tensor.
        self.first = [list(map(id, state)).index(id(leaf)) for leaf in state]
        # Tensors without memory that count the changes of the initial state in place.
        self.counters = [leaf.detach() for leaf in state]
        for counter in self.counters:
            counter.data = counter.new_empty(0)
        self.versions = versions(self.counters)
        # A run that is to begin its first reverse sweep, and one that has done some of its sweeps. Of threads that
        # take a run, one finds it.
        self.begun: List[_Run] = []
        self.rest: List[_Run] = []
        self.graph: Any = None
        self.random, self.autocast = Random(state, preserve_rng_state), autocast()
        self.begin = self.random.get()

    def forward(self, state: Leaves, params: Leaves) -> Tuple[Leaves, Leaves]:
        """Returns the states n - 1 and n."""
        watched = _watched(self.loop.step, params)
        run = _Run(self, state, params)
        before, run.state = run.state, []
        with torch.enable_grad():
            after = self.loop.advance(before, self.loop.n - 1, run.named)
        if self.random.equal(self.begin, self.random.get()):
            # No step draws random numbers.
            self.random = run.random = Random([], False)
            run.saved = {ts: (strides, None) for ts, (strides, _) in run.saved.items()}
        self.begun.append(run)
        self.loop.refuse_changes(run.named, run.params)
        self.watched = _watched(self.loop.step, params)
        _refuse_changes(watched, self.watched, True)
        return before, after

    def until_freed(self) -> Any:
        """A tensor to be saved in the graph. Where PyTorch frees it, no reverse sweep follows."""
        memory = np.zeros(1)
        self.graph = weakref.finalize(memory, self.rest.clear)
        return torch.from_numpy(memory)

    def reverse(self, state: Leaves, before: Leaves, params: Leaves, cotangents: Sequence[Any]) -> Tuple[Leaves, Leaves]:
        """Returns the adjoints of the initial state `state` and of the parameters; `before` is the state n - 1."""
        watched = _watched(self.loop.step, params)
        _refuse_changes(self.watched, watched, False)
        try:
            with self.autocast(), self.random.unchanged():
                run = self.taken(state, before, params)
                found = run.reverse(params, cotangents)
                if run.done < run.planned and self.graph.alive and not self.rest:
                    self.rest.append(run)
        finally:
            after = _watched(self.loop.step, params)
            self.watched = {key: after.get(key) if isinstance(old, _COUNTS) else old for key, old in self.watched.items()}
        _refuse_changes(watched, after, True)
        return found

    def taken(self, state: Leaves, before: Leaves, params: Leaves) -> _Run:
        """The run of the forward sweep while it has reverse sweeps left, or that of a forward sweep once more."""
        with contextlib.suppress(IndexError):
            return self.rest.pop()
        with contextlib.suppress(IndexError):
            run = self.begun.pop()
            run.state = before
            return run
        if versions(self.counters) != self.versions:
            raise ArgumentError(
                "the initial state has been changed in place: after the reverse sweeps that `sweeps` has planned, one if "
                "it is not set, gpuzip.torch.scan computes from it again (retain_graph=True)"
            )
        self.random.set(self.begin)
        return _Run(self, state, params)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sweep: _Sweep, *leaves: Any) -> Any:
        count = len(sweep.first)
        state, params = list(leaves[:count]), list(leaves[count:])
        before, after = sweep.forward(state, params)
        ctx.sweep = sweep
        ctx.params = [_saved if isinstance(leaf, torch.Tensor) else leaf for leaf in params]
        # PyTorch frees these with the graph, and says so if they are changed in place until then. It does not
        # say so of the tensors `data`: the first reverse sweep does not need the initial state.
        tensors = [leaf for leaf in params if isinstance(leaf, torch.Tensor)]
        ctx.save_for_backward(*(leaf.data for leaf in state), *before, *tensors, sweep.until_freed())
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(leaf for leaf in after if not differentiable(leaf)))
        # Each result is a tensor of its own.
        return tuple(leaf.view_as(leaf) if id(leaf) in map(id, after[:k]) else leaf for k, leaf in enumerate(after))

    @staticmethod
    @eager
    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            raise UnsupportedError("gradients of gradients: gpuzip.torch.scan has none; leave out create_graph=True")
        count, saved = len(cotangents), ctx.saved_tensors
        tensors = iter(saved[2 * count :])
        params = [
            next(tensors).detach().requires_grad_(needed) if param is _saved else param
            for param, needed in zip(ctx.params, ctx.needs_input_grad[1 + count :])
        ]
        adjoint, sums = ctx.sweep.reverse(list(saved[:count]), list(saved[count : 2 * count]), params, cotangents)
        return (None, *adjoint, *sums)


def _budget(memory: Any, leaves: Leaves, config: Dict[str, Any]) -> Tuple[Dict[str, Any], Optional[str]]:
    """The configuration with `memory` as the budget of the memory in which the state is, and the key of that budget."""
    if memory is None:
        return config, None
    key = "device_budget" if any(leaf.is_cuda for leaf in leaves) else "host_budget"
    if key in config:
        raise ArgumentError(f"memory is {key} where the state is: give one of them")
    return {**config, key: budget(memory)}, key


@eager
def scan(
    step: Callable[..., Any],
    state: Any,
    n: int,
    *params: Any,
    memory: Any = None,
    preserve_rng_state: bool = True,
    **config: "Unpack[ConfigKeys]",
) -> Any:
    """Returns the state after `n` time steps: `step(state, t, *params)` returns the state t + 1 of
    state t, for t = 0, ..., n - 1.

    `state` is a tensor, or tensors in tuples, lists and dicts; it keeps its structure, shapes, types and
    devices, and `step` does not change it in place. `params` are such, too, and may hold other values.
    Autograd differentiates by the initial state and by `params`, and by no other tensor: an
    `ArgumentError` says where `step` reads one that requires a gradient. The forward pass keeps as
    many states as `memory`, such as "2G", has room for (`host_budget` of a state on the CPU, `device_budget` of one
    on a GPU), or as the session's configuration allows (`config`, the keys of `gpuzip.Session`, such as
    `checkpointing_snaps=10`), and the reverse pass computes the others again. Where no gradient is required
    no state is kept.

    The step runs under the autocast of the call in both passes, and with `preserve_rng_state` draws the same
    random numbers whenever it computes a time step. With `sweeps=k` among the keys, k reverse sweeps
    (`retain_graph=True`) share the states of one forward sweep; the next one begins with a forward sweep. A
    gradient of a gradient is an `UnsupportedError`. It raises the errors of `gpuzip.Session`, too.
    """
    n = int32("n", n)
    if n < 1:
        raise ArgumentError(f"n is {n}: gpuzip.torch.scan needs at least one time step")
    (leaves, tree), (named, params_tree) = tree_flatten(state), tree_flatten(params)
    form = Form(state, leaves, tree)
    session_keys, of_memory = _budget(memory, leaves, dict(config))
    keys = {key: value for key, value in session_keys.items() if key not in ("config", "roles")}
    without_restart("gpuzip.torch.scan", of(session_keys.get("config"), keys))
    loop = _Loop(step, n, form, params_tree)
    if torch.is_grad_enabled() and any(getattr(leaf, "requires_grad", False) for leaf in (*leaves, *named)):
        with given_as_memory(of_memory):
            leaves = _Scan.apply(_Sweep(loop, leaves, preserve_rng_state, session_keys), *leaves, *named)
        return form.state(list(leaves))
    arguments = loop.named(named)
    for t in range(loop.n):
        leaves = (loop.advance if torch.is_grad_enabled() else loop.after)(leaves, t, arguments)
    loop.refuse_changes(arguments, named)
    return form.state(leaves)
