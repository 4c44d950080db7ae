"""Stacks of unequal modules in PyTorch, of whose results and saved tensors a memory holds what a plan has chosen."""

import contextlib
import time
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._chains import ADJOINT, LOAD, RECORD, STORE, Cost, Order, plan
from ._torch_graph import eager, gradients, refuse_others
from ._torch_state import Leaves, Random, autocast, autocast_now, differentiable, versions
from .config import budget
from .errors import ArgumentError, UnsupportedError


class Layers(torch.nn.Sequential):
    """`torch.nn.Sequential` whose gradient needs at most `memory`, a number of bytes or a text such as "2G".

    The modules run one after another, each with the result of the one before: a tensor, or tensors in tuples,
    lists and dicts. The forward pass keeps of their results, and of the tensors that their adjoints read, what
    makes the gradient quickest within the memory; the reverse pass computes the others again. The memory counts
    results, tensors that adjoints read, and adjoints of results; not the input, parameters and their gradients,
    and what a module needs only while it runs. A `BudgetError` says how much is enough if `memory` is not.

    The first call with an input of a shape and type measures the modules, twice forward and reverse; `costs`, a
    `Cost` for each module, replaces that. `order(x)` returns the plan.

    A gradient has the bits that it has by `torch.nn.Sequential`; under autocast, by one without a cache. With
    `preserve_rng_state` a module draws the same random numbers whenever it runs. Buffers of modules, such as the
    running statistics of BatchNorm, change as by one forward pass. A gradient of a gradient is an
    `UnsupportedError`. A second reverse sweep (`retain_graph=True`) begins with a forward pass.
    """

    def __init__(self, *modules: Any, memory: Any, costs: Sequence[Cost] = (), preserve_rng_state: bool = True) -> None:
        super().__init__(*modules)
        if not len(self):
            raise ArgumentError("gpuzip.torch.Layers needs at least one module")
        if costs and len(costs) != len(self):
            raise ArgumentError(f"costs has {len(costs)} items for {len(self)} modules")
        self.memory = budget(memory)
        self.preserve_rng_state = preserve_rng_state
        self._costs, self._orders = list(costs), {}  # type: ignore[var-annotated]

    @eager
    def forward(self, x: Any) -> Any:
        leaves, tree = tree_flatten(x)
        params = list({id(p): p for p in self.parameters() if p.requires_grad}.values())
        if not torch.is_grad_enabled() or not any(getattr(leaf, "requires_grad", False) for leaf in (*leaves, *params)):
            return super().forward(x)
        structure: List[Any] = []
        after = _Chain.apply(_Run(self, self.order(x), leaves, tree), len(leaves), structure, *leaves, *params)
        return tree_unflatten(list(after), structure[0])

    @eager
    def order(self, x: Any) -> Order:
        """What the plan for an input like `x` does, and the seconds that it predicts."""
        leaves, tree = tree_flatten(x)
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                raise ArgumentError(f"leaf {k} of the input is a {type(leaf).__name__}: make it a tensor")
        kinds = [(tuple(leaf.shape), leaf.stride(), leaf.dtype, leaf.device, leaf.requires_grad) for leaf in leaves]
        grads = [(p.requires_grad, p.dtype, p.device) for p in self.parameters()]
        key = repr((tree, kinds, grads, [m.training for m in self.modules()], autocast_now()))
        if key not in self._orders:
            costs = self._costs or measure(list(self), x)
            self._orders[key] = plan(costs, _bytes(leaves), self.memory)
        order: Order = self._orders[key]
        return order


def _bytes(leaves: Leaves) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves)


def _storage(leaf: Any) -> Tuple[int, int]:
    """Address and bytes of the memory that a tensor keeps."""
    try:
        memory = leaf.untyped_storage() if hasattr(leaf, "untyped_storage") else leaf.storage()
        return int(memory.data_ptr()), int(memory.nbytes())
    except (RuntimeError, NotImplementedError):  # Sparse tensors have no storage.
        return id(leaf), leaf.numel() * leaf.element_size()


def measure(modules: Sequence[Any], x: Any) -> List[Cost]:
    """The costs of modules that run one after another, from the input `x`; less of two measurements each."""
    leaves, tree = tree_flatten(x)
    state, costs = [leaf.detach() for leaf in leaves], []
    random = Random(leaves, True)
    with random.unchanged(), autocast(False)():
        for k, module in enumerate(modules):
            begin, found = random.get(), []
            for _ in range(2):
                random.set(begin)
                cost, after, tree_after = _measured(k, module, state, tree)
                found.append(cost)
            state, tree = after, tree_after
            costs.append(Cost(*map(min, zip(*found))))
    return costs


def _measured(k: int, module: Any, leaves: Leaves, tree: Any) -> Tuple[Cost, Leaves, Any]:
    """The cost of module k, its result and the result's structure."""
    state = [leaf.detach().requires_grad_(differentiable(leaf)) for leaf in leaves]
    fixed = {_storage(leaf)[0] for leaf in (*state, *module.parameters(), *module.buffers())}
    kept: Dict[int, int] = {}

    def pack(leaf: Any) -> Any:
        place, count = _storage(leaf)
        if place not in fixed:
            kept[place] = count
        return leaf

    with torch.enable_grad(), _Buffers(module).block():
        fixed.update(_storage(leaf)[0] for leaf in module.buffers())
        begin = _now(state)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda leaf: leaf):
            after, tree = _called(k, module, state, tree)
        forward = _now(state) - begin
        results = [leaf for leaf in after if leaf.requires_grad]
        weights, by = (
            [torch.ones_like(leaf) for leaf in results],
            [leaf for leaf in (*state, *module.parameters()) if leaf.requires_grad],
        )
        begin = _now(state)
        if results and by:
            gradients(tuple(results), tuple(weights), tuple(by))
        backward = _now(state) - begin
    kept.update(map(_storage, after))
    return Cost(forward, backward, _bytes(after), sum(kept.values())), [leaf.detach() for leaf in after], tree


def _now(leaves: Leaves) -> float:
    if any(leaf.is_cuda for leaf in leaves):
        torch.cuda.synchronize()
    return time.perf_counter()


def _called(k: int, module: Any, state: Leaves, tree: Any) -> Tuple[Leaves, Any]:
    """The result of module k and its structure."""
    before = versions(state)
    try:
        after, tree = tree_flatten(module(tree_unflatten(state, tree)))
    except RuntimeError as reason:
        if "leaf Variable that requires grad" in str(reason):
            raise ArgumentError(_IN_PLACE.format(k)) from reason
        raise
    if versions(state) != before:
        raise ArgumentError(_IN_PLACE.format(k))
    for j, leaf in enumerate(after):
        if not isinstance(leaf, torch.Tensor):
            raise ArgumentError(f"module {k} returns a {type(leaf).__name__} as leaf {j}: make it a tensor")
    return list(after), tree


_IN_PLACE = (
    "module {} changes its input in place, from which gpuzip.torch.Layers may compute again: use inplace=False, or make "
    "one torch.nn.Sequential of this module and the one before"
)


class _Buffers:
    """Copies of a module's buffers, such as running statistics, at one moment."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.copies = [buffer.clone() for _, _, buffer in self.places()]

    def places(self) -> List[Any]:
        found = [(part._buffers, name, buffer) for part in self.module.modules() for name, buffer in part._buffers.items()]
        return [place for place in found if place[2] is not None]

    @contextlib.contextmanager
    def block(self) -> Iterator[None]:
        """A block in which the module has buffers of its own, with the values of that moment."""
        places = self.places()
        try:
            for (buffers, name, _), copy in zip(places, self.copies):
                buffers[name] = copy.clone()
            yield
        finally:
            for buffers, name, buffer in places:
                buffers[name] = buffer


class _Run:
    """One call: what its forward and reverse passes need."""

    def __init__(self, layers: Layers, order: Order, x: Leaves, tree: Any) -> None:
        self.modules, self.order, self.tree = list(layers), order, tree
        # The parameters by which one differentiates, of each module.
        self.params = [{id(p): p for p in module.parameters() if p.requires_grad} for module in self.modules]
        self.random, self.autocast = Random(x, layers.preserve_rng_state), autocast(False)
        self.begin = self.random.get()
        self.buffers: Dict[int, _Buffers] = {}  # Of the modules that have run, at the beginning of their first run.

    def compute(self, k: int, state: Leaves, tree: Any) -> Tuple[Leaves, Any]:
        """The result of module k and its structure."""
        blocks: Any = contextlib.nullcontext()
        if k in self.buffers:
            blocks = self.buffers[k].block()
        else:
            self.buffers[k] = _Buffers(self.modules[k])
        with blocks:
            return _called(k, self.modules[k], state, tree)

    def forward(self, x: Leaves) -> "_Sweep":
        sweep = _Sweep(self, x)
        with self.autocast():
            sweep.until_adjoint()
        return sweep

    def reverse(self, sweeps: "List[_Sweep]", x: Leaves, cotangents: Sequence[Any]) -> Tuple[Leaves, Dict[int, Any]]:
        """Returns the adjoints of the input `x`, and those of the parameters by id. `sweeps` has the sweep of the
        forward pass: of threads that take it, one finds it."""
        adjoint, sums = list(cotangents), {}  # type: ignore[var-annotated]
        with self.autocast(), self.random.unchanged():
            try:
                sweep = sweeps.pop()
            except IndexError:
                self.random.set(self.begin)
                sweep = _Sweep(self, x)
                sweep.until_adjoint()
            for k in range(len(self.modules) - 1, -1, -1):
                adjoint = sweep.adjoint(k, adjoint, sums)
                sweep.until_adjoint()
        return adjoint, sums


class _Sweep:
    """One forward pass, and what it has stored for one reverse pass."""

    def __init__(self, run: _Run, x: Leaves) -> None:
        self.run, self.actions = run, iter(run.order.actions)
        self.state, self.tree = [leaf.detach() for leaf in x], run.tree
        self.stored: Dict[int, Any] = {}  # Inputs of modules, their structures, and the random number generators.
        self.recorded: Dict[int, Tuple[Leaves, Leaves]] = {}  # Inputs and results of modules, with a graph.

    def until_adjoint(self) -> None:
        """Does what the order wants up to the next adjoint."""
        for name, k in self.actions:
            if name == ADJOINT:
                return
            if name == LOAD:
                self.state, self.tree, generators = self.stored.pop(k)
                self.run.random.set(generators)
                continue
            if name == STORE:
                self.stored[k] = self.state, self.tree, self.run.random.get()
            state = [leaf.detach().requires_grad_(name == RECORD and differentiable(leaf)) for leaf in self.state]
            self.state = []
            with torch.set_grad_enabled(name == RECORD):
                after, self.tree = self.run.compute(k, state, self.tree)
            if name == RECORD:
                refuse_others(after, _OTHERS.format(k, "{}"), self.run.params[k], set(map(id, state)))
                self.recorded[k] = state, after
            self.state = [leaf.detach() for leaf in after]

    def adjoint(self, k: int, adjoint: Leaves, sums: Dict[int, Any]) -> Leaves:
        """The adjoint of module k, which adds to the parameters' adjoints `sums` in the order of a plain stack: a
        parameter that has an adjoint already is a result of its own, with this adjoint."""
        state, after = self.recorded.pop(k)
        params = self.run.params[k]
        results, weights = [], []
        for leaf, weight in zip(after, adjoint):
            if weight is not None and leaf.requires_grad:
                results.append(leaf)
                weights.append(weight)
        by = {id(leaf): leaf for leaf in state if leaf.requires_grad}
        by.update(params)
        if not results or not by:
            return [None] * len(state)
        for key in params:
            if key in sums:
                results.append(params[key])
                weights.append(sums[key])
        found = dict(zip(by, gradients(tuple(results), tuple(weights), tuple(by.values()))))
        before = [found.pop(id(leaf), None) for leaf in state]
        sums.update((key, total) for key, total in found.items() if total is not None)
        return before


_OTHERS = (
    "module {} reads a tensor of shape {} that requires a gradient and is neither its argument nor its parameter: "
    "make it a torch.nn.Parameter of the module, or detach it"
)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, count: int, structure: List[Any], *leaves: Any) -> Any:
        sweep = run.forward(list(leaves[:count]))
        # The result must not be held by its own graph.
        after, sweep.state = sweep.state, []
        structure.append(sweep.tree)
        ctx.run, ctx.sweeps, ctx.count, ctx.params = run, [sweep], count, list(map(id, leaves[count:]))
        # PyTorch frees these with the graph, and says so if they are changed in place until then.
        ctx.save_for_backward(*leaves)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(leaf for leaf in after if not differentiable(leaf)))
        return tuple(after)

    @staticmethod
    @eager
    def backward(ctx: Any, *cotangents: Any) -> Any:
        if torch.is_grad_enabled():
            raise UnsupportedError("gradients of gradients: gpuzip.torch.Layers has none; leave out create_graph=True")
        adjoint, sums = ctx.run.reverse(ctx.sweeps, list(ctx.saved_tensors[: ctx.count]), cotangents)
        return (None, None, None, *adjoint, *(sums.get(key) for key in ctx.params))
