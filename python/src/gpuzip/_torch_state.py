"""The state of a scan in PyTorch: its structure and types, its random numbers, and its tensors as arrays of a session."""

import contextlib
from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ._arrays import fields_of
from .errors import ArgumentError, UnsupportedError

Leaves = List[Any]
Strides = Tuple[int, ...]

# DLPack and __cuda_array_interface__ have no such types: their bits go as integers of the same size.
_AS_INTEGERS = {torch.bool: torch.uint8, torch.bfloat16: torch.int16}

_NO_MEMORY = (
    "leaf {} of the state, of shape {} on {}, has no memory to save: it is empty or sparse, on the device meta, or "
    "in a transform of torch.func; gpuzip.torch.scan differentiates by autograd, with dense tensors as the state"
)


def differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())


def versions(leaves: Leaves) -> List[int]:
    """Numbers that change when a tensor is changed in place; tensors of inference mode have none."""
    try:
        return [leaf._version for leaf in leaves]
    except RuntimeError:
        return [0 if leaf.is_inference() else leaf._version for leaf in leaves]


class Form:
    """Structure, shapes and types of the state, which every time step keeps."""

    def __init__(self, state: Any, leaves: Leaves, structure: Any) -> None:
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, torch.Tensor):
                raise ArgumentError(f"leaf {k} of the state is a {type(leaf).__name__}: make it a tensor")
        self.structure = structure
        self.kinds = [(leaf.shape, leaf.dtype, leaf.device) for leaf in leaves]
        self.differentiable = [differentiable(leaf) for leaf in leaves]
        # A tensor, and a tuple or list of tensors, need no walk through PyTorch's general structure.
        flat = type(state) in (tuple, list) and list(map(id, state)) == list(map(id, leaves))
        self.type = type(state) if flat else None
        self.one = isinstance(state, torch.Tensor)

    def state(self, leaves: Leaves) -> Any:
        """The state with these leaves, in new tuples, lists and dicts."""
        if self.one:
            return leaves[0]
        return tree_unflatten(leaves, self.structure) if self.type is None else self.type(leaves)

    def flat(self, state: Any, t: int) -> Leaves:
        """The leaves of the state that step t returns."""
        if self.one:
            leaves = [state]
        elif self.type is not None and type(state) is self.type and len(state) == len(self.kinds):
            leaves = list(state)
        else:
            return self._checked(state, t)
        for leaf, (shape, dtype, device) in zip(leaves, self.kinds):
            if not isinstance(leaf, torch.Tensor) or leaf.dtype is not dtype or leaf.shape != shape or leaf.device != device:
                return self._checked(state, t)
        return leaves

    def _checked(self, state: Any, t: int) -> Leaves:
        leaves, structure = tree_flatten(state)
        if structure != self.structure:
            raise ArgumentError(f"step {t} returns the structure {structure}, and the state has {self.structure}")
        for k, (leaf, (shape, *kind)) in enumerate(zip(leaves, self.kinds)):
            wanted: Any = (tuple(shape), *kind)
            found: Any = type(leaf).__name__
            if isinstance(leaf, torch.Tensor):
                found = tuple(leaf.shape), leaf.dtype, leaf.device
            if found != wanted:
                raise ArgumentError(f"step {t} returns {found} for leaf {k} of the state, which is {wanted}")
        return list(leaves)


def _order(leaf: Any) -> Tuple[int, ...]:
    """The dimensions in the order in which memory has them if the tensor is dense, as channels_last is; else 0, 1, ..."""
    stride = leaf.stride()
    order = sorted(range(leaf.dim()), key=lambda d: -int(stride[d]))
    return tuple(order if leaf.permute(order).is_contiguous() else range(leaf.dim()))


def _has_memory(leaf: Any) -> bool:
    try:
        return bool(leaf.numel() > 0 and leaf.data_ptr() != 0)
    except RuntimeError:
        return False


class Arrays:
    """The tensors of states as arrays of a session. An array has the values of a tensor in the order in which
    the memory of the initial state's tensor has them: in this order a tensor shares its memory with the session."""

    def __init__(self, initial: Leaves) -> None:
        self.orders = [_order(leaf) for leaf in self._with_memory(initial)]
        arrays = self.tensors(initial)
        self.shapes, self.bytes = [leaf.shape for leaf in initial], [a.numel() * a.element_size() for a in arrays]
        self.empty = [leaf.new_empty(0) for leaf in initial]
        # Strides of the tensors whose memory is that of the session's arrays.
        self.strides: List[Strides] = []
        for array, order in zip(arrays, self.orders):
            stride = array.stride()
            self.strides.append(tuple(stride[order.index(d)] for d in range(len(order))))
        # On the CPU a call changes the addresses in one description of the arrays, and makes no other.
        self.fields = None if any(leaf.is_cuda for leaf in initial) else fields_of(arrays, False)._replace(owners=[])
        self.places = [] if self.fields is None else [self.fields.array[k] for k in range(len(initial))]

    def save(self, leaves: Leaves) -> Tuple[Any, Optional[List[Strides]]]:
        """The arrays to save, and the strides that tensors are to have when they are restored (None: `strides`)."""
        for leaf, stride in zip(leaves, self.strides):
            if leaf.stride() != stride:
                return self.tensors(leaves), [torch.empty_like(leaf, device="meta").stride() for leaf in leaves]
        return self.fields if self.fields is not None and self._point(leaves) else self.tensors(leaves), None

    def new(self) -> Tuple[Leaves, Any]:
        """Tensors for a state without values, and their arrays, to retrieve it."""
        leaves = [e.new_empty_strided(shape, stride) for e, shape, stride in zip(self.empty, self.shapes, self.strides)]
        for place, leaf in zip(self.places, leaves):
            place.data = leaf.data_ptr()
        return leaves, self.tensors(leaves) if self.fields is None else self.fields

    def _point(self, leaves: Leaves) -> bool:
        """Sets the addresses in `fields`. Returns False if these tensors need copies or have no memory."""
        spans = []
        for leaf, place, count in zip(leaves, self.places, self.bytes):
            if leaf.is_conj() or leaf.is_neg() or not _has_memory(leaf):
                return False
            place.data = begin = leaf.data_ptr()
            spans.append((begin, begin + count))
        if len(spans) > 1:
            spans.sort()
        return all(first[1] <= second[0] for first, second in zip(spans, spans[1:]))

    def _with_memory(self, leaves: Leaves) -> Leaves:
        for k, leaf in enumerate(leaves):
            if not _has_memory(leaf):
                raise UnsupportedError(_NO_MEMORY.format(k, tuple(leaf.shape), leaf.device))
        return leaves

    def tensors(self, leaves: Leaves) -> Leaves:
        """The arrays as tensors, which share no memory with each other."""
        arrays = []
        for leaf, order in zip(self._with_memory(leaves), self.orders):
            leaf = leaf.detach().resolve_conj().resolve_neg().permute(order).contiguous()
            arrays.append(leaf.view(_AS_INTEGERS[leaf.dtype]) if leaf.dtype in _AS_INTEGERS else leaf)
        end = 0
        for k in sorted(range(len(arrays)), key=lambda k: int(arrays[k].data_ptr())):
            if arrays[k].data_ptr() < end:
                arrays[k] = arrays[k].clone(memory_format=torch.contiguous_format)
            else:
                end = arrays[k].data_ptr() + arrays[k].numel() * arrays[k].element_size()
        return arrays


def restrided(leaves: Leaves, strides: Optional[List[Strides]]) -> Leaves:
    """The tensors with these strides."""
    if strides is None:
        return leaves
    return [
        leaf
        if leaf.stride() == stride
        else torch.empty_strided(leaf.shape, stride, dtype=leaf.dtype, device=leaf.device).copy_(leaf)
        for leaf, stride in zip(leaves, strides)
    ]


class Random:
    """The states of PyTorch's random number generators, of the CPU and of the GPUs of the tensors."""

    def __init__(self, leaves: Leaves, preserve: bool) -> None:
        self.preserve = preserve
        self.gpus = sorted({leaf.get_device() for leaf in leaves if leaf.is_cuda})

    def get(self) -> Any:
        if self.preserve:
            return torch.get_rng_state(), [torch.cuda.get_rng_state(gpu) for gpu in self.gpus]
        return None

    def equal(self, states: Any, others: Any) -> bool:
        return not self.preserve or all(map(torch.equal, [states[0], *states[1]], [others[0], *others[1]]))

    def set(self, states: Any) -> None:
        if self.preserve:
            torch.set_rng_state(states[0])
            for gpu, state in zip(self.gpus, states[1]):
                torch.cuda.set_rng_state(state, gpu)

    def unchanged(self) -> Any:
        """A block after which the generators are as they were before it."""
        return torch.random.fork_rng(self.gpus, enabled=self.preserve)


def autocast_now() -> List[Any]:
    """Devices, whether they have autocast at this moment, and its types."""
    if hasattr(torch, "get_autocast_dtype"):
        found = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
    else:
        found = [
            ("cpu", torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()),
            ("cuda", torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()),
        ]
    # Without a GPU, PyTorch warns of an autocast for one.
    return [(device, on, dtype) for device, on, dtype in found if device == "cpu" or torch.cuda.is_available()]


def autocast(cache: bool = True) -> Any:
    """Returns a function that makes blocks with the autocast of this moment; without `cache` it keeps no casts."""
    used, cache = autocast_now(), cache and torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        with contextlib.ExitStack() as blocks:
            for device, on, dtype in used:
                blocks.enter_context(torch.autocast(device, enabled=on, dtype=dtype, cache_enabled=cache))
            yield

    return block
