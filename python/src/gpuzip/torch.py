"""Gradients of long loops in PyTorch: a loop over time steps whose reverse pass has its states from gpuzip."""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._arrays import int32
from ._reads import CONSTANTS, reads
from .actions import FORWARD, RESTORE, SAVE
from .errors import ArgumentError, UnsupportedError
from .session import Session

Leaves = List[Any]

_saved = object()  # Stands for a parameter that is a tensor, which PyTorch keeps.

# DLPack and __cuda_array_interface__ have no such types: their bits go as integers of the same size.
_AS_INTEGERS = {torch.bool: torch.uint8, torch.bfloat16: torch.int16}

_NO_MEMORY = (
    "leaf {} of the state, of shape {} on {}, has no memory to save: it is empty or sparse, on the device meta, or "
    "in a transform of torch.func; gpuzip.torch.scan differentiates by autograd, with dense tensors as the state"
)


def _has_memory(leaf: Any) -> bool:
    try:
        return leaf.numel() > 0 and leaf.data_ptr() != 0
    except RuntimeError:
        return False


def _field(leaf: Any) -> Any:
    """The tensor as an array of a session, in C order; a contiguous tensor shares its memory."""
    leaf = leaf.detach().resolve_conj().resolve_neg().contiguous()
    return leaf.view(_AS_INTEGERS[leaf.dtype]) if leaf.dtype in _AS_INTEGERS else leaf


def _fields(leaves: Leaves) -> Leaves:
    """The tensors as arrays of a session, which share no memory with each other."""
    for k, leaf in enumerate(leaves):
        if not _has_memory(leaf):
            raise UnsupportedError(_NO_MEMORY.format(k, tuple(leaf.shape), leaf.device))
    fields, end = [_field(leaf) for leaf in leaves], 0
    for k in sorted(range(len(fields)), key=lambda k: int(fields[k].data_ptr())):
        if fields[k].data_ptr() < end:
            fields[k] = fields[k].clone()
        else:
            end = fields[k].data_ptr() + fields[k].numel() * fields[k].element_size()
    return fields


def _differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def _kind(leaf: Any) -> Tuple[Any, ...]:
    return tuple(leaf.shape), leaf.dtype, leaf.device


def _versions(leaves: Leaves) -> List[int]:
    """Numbers that change when a tensor is changed in place; tensors of inference mode have none."""
    return [0 if leaf.is_inference() else leaf._version for leaf in leaves]


def _watched(step: Callable[..., Any], params: Leaves) -> Dict[Tuple[str, int], Any]:
    """What the steps read beside state and t, by name: numbers and texts, tensors with the numbers of
    their changes in place, and bytes of NumPy's arrays."""
    found: Dict[Tuple[str, int], Any] = {}
    given = [(f"parameter {k}", leaf) for k, leaf in enumerate(params) if isinstance(leaf, torch.Tensor)]
    for name, value in (*given, *reads(step, lambda value: isinstance(value, (torch.Tensor, *_ARRAYS)))):
        key = name, sum(known == name for known, _ in found) if (name, 0) in found else 0
        if isinstance(value, torch.Tensor):
            # A detached tensor shares the number of changes, and keeps no graph alive.
            found[key] = value.detach(), id(value) if value.layout != torch.strided else value.data_ptr(), _versions([value])
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
        if not same and not (inside and isinstance(old, (bool, int, str, type(None)))):
            raise ArgumentError(_CHANGED.format(key[0]))


_CHANGED = (
    "{} has changed since the forward sweep began: gpuzip.torch.scan computes states again, and they would be "
    "others; make what the steps change a part of the state, change other values after the reverse sweep only, "
    "and use modules that count, such as BatchNorm, in eval mode or without running statistics"
)


class _Loop:
    """The time step as a function of lists of tensors."""

    def __init__(self, step: Callable[..., Any], n: int, state_tree: Any, params_tree: Any) -> None:
        self.step, self.n, self.state_tree, self.params_tree = step, n, state_tree, params_tree

    def advance(self, leaves: Leaves, t: int, params: Leaves) -> Leaves:
        """The state t + 1."""
        state, named = tree_unflatten(leaves, self.state_tree), tree_unflatten(params, self.params_tree)
        versions = _versions(leaves)
        after, tree = tree_flatten(self.step(state, t, *named))
        if tree != self.state_tree:
            raise ArgumentError(f"step {t} returns the structure {tree}, and the state has {self.state_tree}")
        for k, (leaf, old) in enumerate(zip(after, leaves)):
            if not isinstance(leaf, torch.Tensor) or _kind(leaf) != _kind(old):
                found = _kind(leaf) if isinstance(leaf, torch.Tensor) else type(leaf).__name__
                raise ArgumentError(f"step {t} returns {found} for leaf {k} of the state, which is {_kind(old)}")
        if versions != _versions(leaves):
            raise ArgumentError(f"step {t} changes its state in place: return new tensors")
        return list(after)


class _Random:
    """The states of PyTorch's random number generators, of the CPU and of the GPUs of the state."""

    def __init__(self, leaves: Leaves, preserve: bool) -> None:
        self.preserve = preserve
        self.gpus = sorted({leaf.get_device() for leaf in leaves if leaf.is_cuda})

    def get(self) -> Any:
        if self.preserve:
            return torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in self.gpus]
        return None

    def set(self, states: Any) -> None:
        if self.preserve:
            torch.set_rng_state(states[0])
            for gpu, state in zip(self.gpus, states[1]):
                torch.cuda.set_rng_state(state, gpu)

    def unchanged(self) -> Any:
        """A block after which the generators are as they were before it."""
        return torch.random.fork_rng(self.gpus, enabled=self.preserve)


def _autocast() -> Any:
    """Returns a function that makes blocks with the autocast of this moment."""
    if hasattr(torch, "get_autocast_dtype"):
        found = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
    else:
        found = [
            ("cpu", torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()),
            ("cuda", torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()),
        ]
    # Without a GPU, PyTorch warns of an autocast for one.
    used = [(device, on, dtype) for device, on, dtype in found if device == "cpu" or torch.cuda.is_available()]
    cache = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        with contextlib.ExitStack() as blocks:
            for device, on, dtype in used:
                blocks.enter_context(torch.autocast(device, enabled=on, dtype=dtype, cache_enabled=cache))
            yield

    return block


class _Sweep:
    """One forward sweep, and the session that has its states until the reverse sweep."""

    def __init__(self, loop: _Loop, state: Leaves, preserve_rng_state: bool, config: Dict[str, Any]) -> None:
        self.loop, self.kinds = loop, [_kind(leaf) for leaf in state]
        # For each leaf of the initial state, the first leaf that is the same tensor.
        self.first = [list(map(id, state)).index(id(leaf)) for leaf in state]
        self.state: Leaves = []
        self.params: Leaves = []
        self.session: Optional[Session] = Session(_fields(state), loop.n, **config)
        self.unused = [None]  # Of threads that take it, one finds it.
        self.random, self.autocast = _Random(state, preserve_rng_state), _autocast()
        self.watched: Dict[Any, Any] = {}
        self.saved: Dict[int, Any] = {}  # The random number generators at the saved states.

    def forward(self, state: Leaves, params: Leaves) -> Tuple[Leaves, Leaves]:
        """Returns the states n - 1 and n. `generators` are the random number generators at n - 1."""
        self.state, self.params = state, params
        watched = _watched(self.loop.step, params)
        self.until_backward()
        before, self.generators = self.state, self.random.get()
        self.state, self.params = [], []
        after = self.loop.advance(before, self.loop.n - 1, params)
        self.watched = _watched(self.loop.step, params)
        _refuse_changes(watched, self.watched, True)
        return before, after

    def until_backward(self) -> None:
        """Does what the schedule wants up to the next BACKWARD, whose state is then `state`."""
        assert self.session is not None
        for action in self.session:
            if action.type == FORWARD:
                for t in range(action.ts - 1, action.ts_end):
                    self.state = self.loop.advance(self.state, t, self.params)
            elif action.type == SAVE:
                self.session.save(action.ts, _fields(self.state))
                self.saved[action.ts] = self.random.get()
            elif action.type == RESTORE:
                self.state = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in self.kinds]
                self.session.retrieve(action.ts, _fields(self.state))
                self.random.set(self.saved.pop(action.ts) if action.last_use else self.saved[action.ts])
            elif action.ts_end > action.ts:
                raise UnsupportedError("adjoint_every: gpuzip.torch.scan does the adjoint of every time step by itself")
            else:
                return

    def reverse(self, state: Leaves, params: Leaves, cotangents: Sequence[Any]) -> Tuple[Leaves, Leaves]:
        """Returns the adjoints of the initial state and of the parameters."""
        try:
            self.unused.pop()
        except IndexError:
            raise ArgumentError(
                "a reverse sweep of gpuzip.torch.scan runs once, also with retain_graph=True: "
                "call gpuzip.torch.scan again"
            ) from None
        session = self.session
        assert session is not None
        self.state, self.params = state, params
        adjoint: Leaves = list(cotangents)
        sums: Leaves = [None] * len(params)
        try:
            watched, self.watched = self.watched, {}
            _refuse_changes(watched, _watched(self.loop.step, params), False)
            with session, self.autocast(), self.random.unchanged():
                self.random.set(self.generators)
                for t in range(self.loop.n - 1, -1, -1):
                    if t < self.loop.n - 1:
                        self.until_backward()
                    adjoint, sums = self.pull_back(t, adjoint, sums)
            _refuse_changes(watched, _watched(self.loop.step, params), True)
        finally:
            self.session, self.state, self.params = None, [], []
        return adjoint, sums

    def pull_back(self, t: int, adjoint: Leaves, sums: Leaves) -> Tuple[Leaves, Leaves]:
        """The adjoint of time step t, which adds to the parameters' adjoints `sums`. The parameters are
        results of their own, with the adjoints `sums`: PyTorch then adds up in the order in which it
        does so for a plain loop."""
        state = [leaf.detach().requires_grad_(_differentiable(leaf)) for leaf in self.state]
        if t == 0:
            state = [state[k] for k in self.first]
        with torch.enable_grad():
            after = self.loop.advance(state, t, self.params)
        self.state = []  # The state t - 1 comes from the session.
        _refuse_others(after, [*state, *self.params])
        results = [(leaf, weight) for leaf, weight in zip(after, adjoint) if weight is not None and leaf.requires_grad]
        results += [(param, total) for param, total in zip(self.params, sums) if total is not None]
        by = {id(leaf): leaf for leaf in (*state, *self.params) if getattr(leaf, "requires_grad", False)}
        if not results or not by:
            return [None] * len(state), sums
        leaves, weights = zip(*results)
        found = dict(zip(by, torch.autograd.grad(leaves, list(by.values()), weights, allow_unused=True)))
        # A tensor that is two leaves has its adjoint once.
        return [found.pop(id(leaf), None) for leaf in state], [found.pop(id(param), None) for param in self.params]


def _refuse_others(results: Leaves, known: Leaves) -> None:
    """Raises an error if the results depend on a tensor to be differentiated that is not known."""
    nodes, seen = [leaf.grad_fn for leaf in results], {None}
    while nodes:
        node = nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if type(node).__name__ == "AccumulateGrad" and not any(node.variable is leaf for leaf in known):
            raise ArgumentError(_OTHERS.format(tuple(node.variable.shape)))
        nodes += [before for before, _ in node.next_functions]


_OTHERS = (
    "step reads a tensor of shape {} that requires a gradient and is not among its arguments: pass it to "
    "gpuzip.torch.scan as one of `params`, or detach it"
)


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sweep: _Sweep, *leaves: Any) -> Any:
        count = len(sweep.kinds)
        before, after = sweep.forward(list(leaves[:count]), list(leaves[count:]))
        ctx.sweep = sweep
        ctx.params = [_saved if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves[count:]]
        # PyTorch frees these with the graph, and says so if they are changed in place until then.
        ctx.save_for_backward(*before, *(leaf for leaf in leaves[count:] if isinstance(leaf, torch.Tensor)))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(leaf for leaf in after if not _differentiable(leaf)))
        # Each result is a tensor of its own.
        return tuple(leaf.view_as(leaf) if id(leaf) in map(id, after[:k]) else leaf for k, leaf in enumerate(after))

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            raise UnsupportedError("gradients of gradients: gpuzip.torch.scan has none; leave out create_graph=True")
        count, saved = len(cotangents), ctx.saved_tensors
        tensors = iter(saved[count:])
        params = [
            next(tensors).detach().requires_grad_(needed) if param is _saved else param
            for param, needed in zip(ctx.params, ctx.needs_input_grad[1 + count :])
        ]
        adjoint, sums = ctx.sweep.reverse(list(saved[:count]), params, cotangents)
        return (None, *adjoint, *sums)


def scan(
    step: Callable[..., Any], state: Any, n: int, *params: Any, preserve_rng_state: bool = True, **config: Any
) -> Any:
    """Returns the state after `n` time steps: `step(state, t, *params)` returns the state t + 1 of
    state t, for t = 0, ..., n - 1.

    `state` is a tensor, or tensors in tuples, lists and dicts; it keeps its structure, shapes, types and
    devices, and `step` does not change it in place. `params` are such, too, and may hold other values.
    Autograd differentiates by the initial state and by `params`, and by no other tensor: an
    `ArgumentError` says where `step` reads one that requires a gradient. The forward pass keeps as
    many states as the session's configuration allows (`config`, the keys of `gpuzip.Session`, such as
    `checkpointing_snaps=10` or `host_budget="4 GiB"`), and the reverse pass computes the others again. Where
    no gradient is required no state is kept.

    The step runs under the autocast of the call in both passes, and with `preserve_rng_state` draws the same
    random numbers whenever it computes a time step. A gradient of a gradient is an `UnsupportedError`, and a
    second reverse sweep (`retain_graph=True`) an `ArgumentError`. It raises the errors of `gpuzip.Session`, too.
    """
    n = int32("n", n)
    if n < 1:
        raise ArgumentError(f"n is {n}: gpuzip.torch.scan needs at least one time step")
    leaves, state_tree = tree_flatten(state)
    named, params_tree = tree_flatten(params)
    for k, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            raise ArgumentError(f"leaf {k} of the state is a {type(leaf).__name__}: make it a tensor")
    loop = _Loop(step, n, state_tree, params_tree)
    if torch.is_grad_enabled() and any(getattr(leaf, "requires_grad", False) for leaf in (*leaves, *named)):
        leaves = _Scan.apply(_Sweep(loop, leaves, preserve_rng_state, config), *leaves, *named)
        return tree_unflatten(list(leaves), state_tree)
    for t in range(loop.n):
        leaves = loop.advance(leaves, t, named)
        _refuse_others(leaves, [])
    return tree_unflatten(leaves, state_tree)
