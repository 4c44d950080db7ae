"""PyRevolve's API on gpuzip: programs of PyRevolve run with their import changed.

A `Revolver` takes a `Checkpoint`, two `Operator`s and numbers as in PyRevolve. A gpuzip session,
`Revolver.session`, saves the states. Further keywords of every `Revolver` are keys of the configuration,
such as `host_budget="4 GiB"`, and win over what PyRevolve's arguments say.
"""

import contextlib
import threading
from collections import namedtuple
from functools import partial
from math import comb
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from . import codec
from ._buffers import Buffered, Located
from .actions import BACKWARD, FORWARD, RESTORE, SAVE, TERMINATE
from .actions import Action as Step
from .config import Config
from .errors import ArgumentError, StateError, UnsupportedError
from .plan import budgets_of
from .schedule import Schedule
from .session import Session


class Operator:
    """Computes time steps: `apply(t_start, t_end)` does the steps t_start -> t_start+1, ..., up to
    t_end; the reverse operator does the adjoint of one step."""

    def apply(self, **kwargs: Any) -> None:
        pass


class Checkpoint:
    """Names the arrays of a state: `get_data(t)` returns the arrays that hold u(t), and
    `get_data_location(t)` those that u(t) is restored into. gpuzip takes shapes and types from the
    arrays, and does not read `size` and `dtype`."""

    def get_data(self, timestep: int) -> Any:
        raise NotImplementedError("a Checkpoint needs a method get_data(timestep)")

    def get_data_location(self, timestep: int) -> Any:
        return self.get_data(timestep)


class Buffers(Checkpoint):
    """A Checkpoint for operators that compute out of place: they are called with `apply(t_start, t_end,
    inbuffer, outbuffer)`, and their buffers are gpuzip's.

    `initial`, an array or a list of arrays, holds u(0) when `apply_forward` is called; the buffers have
    its form. The forward operator reads u(t_start) in `inbuffer`, and writes u(t_end) to `outbuffer`. The
    reverse operator finds u(t_start) in `inbuffer`, and u(t_end) in `outbuffer`. `inbuffer` is only read.
    Buffers are valid during the call.

    Sessions have `zero_copy` unless the key is given: buffers are then the memory of snapshots, and only
    u(0) is copied. For arrays on a GPU, `asarray` makes them of a `gpuzip.Memory`: `cupy.asarray`.
    """

    def __init__(self, initial: Any, asarray: Optional[Callable[[Any], Any]] = None) -> None:
        self._is_one = not isinstance(initial, (tuple, list))
        self._initial, self._asarray = [initial] if self._is_one else list(initial), asarray
        self._states: Optional[Buffered] = None

    def get_data(self, timestep: int) -> Any:
        """The arrays of the live state: after `apply_forward` of u(n), before it of u(0)."""
        return self._initial if self._states is None else self._states.live

    def states(self, revolver: Any) -> Buffered:
        """The states of this revolver's runs."""
        self._states = Buffered(revolver, self._initial, self._asarray, self._is_one)
        return self._states


CompressedObject = namedtuple("CompressedObject", "data shape dtype")


def _keys(params: Dict[str, Any]) -> Dict[str, Any]:
    """The keys of the configuration for PyRevolve's `compression_params`."""
    given = dict(params)
    scheme = given.pop("scheme", None)
    if scheme == "blosc":
        given.pop("chunk_size", None)
        scheme = "lossless"
    if scheme == "zfp" and "zfp_bit_rate" not in given:
        given.pop("parallel", None)
        bound = given.pop("tolerance", 1e-7)
        return {"compressor": "dct", "error_bound_mode": "absolute", "error_bound": bound, **given}
    return {"compressor": scheme or "none", **given}


def _compress(scheme: Optional[str], params: Dict[str, Any], array: Any) -> CompressedObject:
    stream = codec.encode(np.ascontiguousarray(array), **_keys({**params, "scheme": scheme}))
    return CompressedObject(stream, array.shape, array.dtype)


def _decompress(_params: Any, compressed: CompressedObject) -> Any:
    array = np.empty(compressed.shape, compressed.dtype)
    codec.decode(compressed.data, array)
    return array


compressors_available = [None, "blosc", "zfp"]
compressors = {scheme: partial(_compress, scheme) for scheme in compressors_available}
decompressors = {scheme: _decompress for scheme in compressors_available}
Coder = Tuple[Callable[[Any], Any], Callable[[Any], Any]]


def init_compression(params: Dict[str, Any]) -> Coder:
    """Returns the functions that compress and decompress an array."""
    given = dict(params)
    scheme = given.pop("scheme", None)
    if scheme == "custom":
        into, back = given.pop("compressor"), given.pop("decompressor")
        return partial(into, given), partial(back, given)
    return partial(_compress, scheme, given), partial(_decompress, given)


class Storage:
    """A level in host memory for `n_ckp` states; gpuzip plans without the costs `wd` and `rd`. `save` and
    `load` keep states without a `Revolver`."""

    disk: Any = None

    def __init__(self, size_ckp: int, n_ckp: int, dtype: Any, *_: Any, coder: Optional[Coder] = None, **__: Any):
        self.n_ckp = n_ckp
        self._coder = coder or init_compression({})
        self._kept: Dict[int, List[Any]] = {}

    def save(self, key: int, data_pointers: Any) -> None:
        self._kept[key] = [self._coder[0](array) for array in data_pointers]

    def load(self, key: int, locations: Any) -> None:
        for array, kept in zip(locations, self._kept[key]):
            array[...] = self._coder[1](kept)


def BytesStorage(size_ckp: int, n_ckp: int, dtype: Any, compression: Coder, *_: Any, **__: Any) -> Storage:
    """A level in host memory, for states that `compression`, of `init_compression`, codes."""
    return Storage(size_ckp, n_ckp, dtype, coder=compression)


NumpyStorage = Storage


class DiskStorage(Storage):
    """A level on disk, in the folder `filedir`. The files have no names, whatever `singlefile` says,
    and are gone when the session ends."""

    def __init__(
        self, size_ckp: int, n_ckp: int, dtype: Any, profiler: Any = None, filedir: Any = None, *_: Any, **named: Any
    ) -> None:
        super().__init__(size_ckp, n_ckp, dtype)
        if named.get("keepfiles"):
            raise UnsupportedError("keepfiles is True: gpuzip's files of snapshots have no names; leave it out")
        self.disk = filedir or "./"


class _Objects(Storage):
    """A schedule of gpuzip whose states are objects of Python, which a custom compressor makes."""

    def __init__(self, steps: int, keys: Dict[str, Any], coder: Optional[Coder]) -> None:
        super().__init__(0, 0, None, coder=coder)
        self.schedule = Schedule(steps, **keys)
        self.peek, self.setup, self.summary = self.schedule.peek, self.schedule.rewind, self.schedule.summary

    def get_action(self) -> Step:
        self.action = self.schedule.get_action()
        return self.action

    def retrieve(self, key: int, locations: Any) -> None:
        self.load(key, locations)
        if self.action.last_use:
            del self._kept[key]


class BaseRevolver:
    """What all revolvers share. `session` is made by `apply_forward`, or when it is first read."""

    def __init__(
        self, checkpoint: Any, fwd_operator: Any, rev_operator: Any, n_checkpoints: Optional[int],
        n_timesteps: int, timings: Any = None, profiler: Any = None, compression_params: Any = None,
        storage_list: Any = (), **config: Any,
    ) -> None:  # fmt: skip
        if n_timesteps is None or n_timesteps < 1:
            raise ArgumentError(
                f"n_timesteps is {n_timesteps}: a Revolver needs at least one time step; for a run of "
                'unknown length use gpuzip.Session with checkpointing_algorithm="online"'
            )
        if profiler is not None:
            raise UnsupportedError("profiler is not None: Revolver.session.stats() has counts and times")
        if Config(**config).adjoint_every > 1:
            raise UnsupportedError("adjoint_every: a Revolver calls its reverse operator for every step")
        self.checkpoint, self.fwd_operator, self.rev_operator = checkpoint, fwd_operator, rev_operator
        self.n_checkpoints, self.n_timesteps, self.timings = n_checkpoints, n_timesteps, timings
        self.storage_list, self.config, params = list(storage_list), config, compression_params or {}
        self._coder = init_compression(params) if params.get("scheme") == "custom" else None
        self._codec = {} if self._coder else _keys(params)
        self._session: Any = None
        self._states: Any = checkpoint.states(self) if isinstance(checkpoint, Buffers) else Located(self)
        self._first: Any = None
        self.in_place = False
        self._begun = False
        self._reversible = False
        self._alone = threading.Lock()

    def _levels(self, arrays: Any) -> Dict[str, Any]:
        """The keys for levels on disk; their host budget is for staging buffers and the other levels."""
        on_disk = [level for level in self.storage_list if level.disk]
        if not on_disk:
            return {}
        in_memory = sum(level.n_ckp for level in self.storage_list if not level.disk)
        folders = ":".join({str(level.disk) for level in on_disk})
        return {"disk_path": folders, **budgets_of(arrays, in_memory, sum(level.n_ckp for level in on_disk))}

    @property
    def session(self) -> Any:
        """The `gpuzip.Session` that stores the states, with the arrays of `get_data(0)`; for states of a
        custom compressor or without arrays, and for one time step, a schedule stands in for it."""
        if self._session is None:
            keys = {"range_actions": True, **self.config}
            if self.n_checkpoints is not None:
                keys = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": self.n_checkpoints, **keys}
            self._first = arrays = self._states.fields() if self.n_timesteps > 1 else []
            if self._coder or not arrays:
                self._session = _Objects(self.n_timesteps, keys, self._coder)
            else:
                keys = {**self._codec, **self._levels(arrays), **keys}
                if isinstance(self._states, Buffered):
                    keys = self._in_slots(keys)
                    self.in_place = Config(**keys).zero_copy
                self._session = Session(arrays, self.n_timesteps, **keys)
        return self._session

    def _in_slots(self, keys: Dict[str, Any]) -> Dict[str, Any]:
        """The keys with which snapshots in host memory are the operators' buffers, where nothing else says
        where snapshots are."""
        says = ("device_budget", "host_budget", "disk_budget", "backend")
        keys = {"compressor": "none", "zero_copy": True, **keys}
        in_slots = Config(**keys).zero_copy and keys["compressor"] == "none"
        on_host = not any(hasattr(array, "__cuda_array_interface__") for array in self.checkpoint.get_data(0))
        if in_slots and on_host and keys.get("checkpointing_snaps") and not any(key in keys for key in says):
            keys = {"cache_capacity": max(2, keys["checkpointing_snaps"]), **keys}
        return keys

    @property
    def ratio(self) -> float:
        """Forward steps up to the last state that an adjoint step needs, per time step."""
        return float(self.session.summary().forward_steps / self.n_timesteps)

    @contextlib.contextmanager
    def _sweep(self) -> Iterator[None]:
        """A block that no other sweep runs beside. What follows an exception in it is not reversible."""
        if not self._alone.acquire(blocking=False):
            raise StateError(
                "a Revolver does one sweep at a time: use one for each thread, and none in its operators"
            )
        try:
            self._reversible = False
            yield
        finally:
            self._alone.release()

    def apply_forward(self) -> None:
        """Computes u(1), ..., u(n) and saves states on the way. Every call begins a run."""
        with self._sweep():
            self._first = None
            if self._begun:
                self._states.leave()
                self._session.setup()
            session, self._begun = self.session, True
            self._states.begin(session, self._first)
            self._first = None
            while session.peek().type != BACKWARD:
                self._serve(session.get_action())
            self._states.finish(self.n_timesteps)
            self._reversible = True

    def apply_reverse(self) -> None:
        """Calls the reverse operator for the steps n-1 -> n, ..., 0 -> 1, once for each `apply_forward`."""
        reversible = self._reversible
        with self._sweep():
            if not reversible:
                raise StateError(
                    "apply_reverse follows an apply_forward that came to its end, and runs once: call "
                    "apply_forward, from the initial state; after an exception, too"
                )
            action = self.session.get_action()
            while action.type != TERMINATE:
                self._serve(action)
                action = self.session.get_action()

    def _serve(self, action: Step) -> None:
        """Does one action. FORWARDs wait until an action needs their state."""
        if action.type == SAVE:
            self._states.save(action.ts)
        elif action.type == RESTORE:
            self._states.restore(action.ts)
        elif action.type == BACKWARD:
            self._states.reverse(action.ts)


def adjust(timesteps: int) -> int:
    """PyRevolve's number of checkpoints: about as many as each step is computed times. Revolve with c
    checkpoints reverses (c + r)! / (c! r!) steps, each computed at most r times."""
    if timesteps == 1:
        return 1
    snaps = reps = next(k for k in range(timesteps + 1) if comb(2 * k, k) >= timesteps)
    more = 0
    while comb(snaps + reps, reps) >= timesteps:
        more = 1 if snaps > reps else 0
        snaps, reps = (snaps - 1, reps) if more else (snaps, reps - 1)
    return max(1, snaps + more)


class SingleLevelRevolver(BaseRevolver):
    """Revolve with `n_checkpoints` states in host memory, or on disk. Without `n_checkpoints`,
    PyRevolve chooses the number, or gpuzip does if there are keys of the configuration."""

    def __init__(
        self, checkpoint: Any, fwd_operator: Any, rev_operator: Any, n_checkpoints: Optional[int],
        n_timesteps: int, timings: Any = None, profiler: Any = None, compression_params: Any = None,
        diskstorage: bool = False, filedir: Any = "./", singlefile: bool = True, **config: Any,
    ) -> None:  # fmt: skip
        if n_checkpoints is None and not config and n_timesteps:
            n_checkpoints = adjust(n_timesteps)
        levels = [DiskStorage(0, n_checkpoints or n_timesteps, None, filedir=filedir)] if diskstorage else []
        super().__init__(
            checkpoint, fwd_operator, rev_operator, n_checkpoints, n_timesteps, timings, profiler,
            compression_params, levels, **config,
        )  # fmt: skip


class DiskRevolver(SingleLevelRevolver):
    """Revolve with states on disk."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "diskstorage": True})


class MultiLevelRevolver(BaseRevolver):
    """Revolve with as many states as all levels of `storage_list` hold. gpuzip plans without the costs
    `uf`, `ub` and `up`."""

    def __init__(
        self, checkpoint: Any, fwd_operator: Any, rev_operator: Any, n_timesteps: int, storage_list: Any,
        timings: Any = None, profiler: Any = None, uf: float = 1, ub: float = 1, up: float = 1, **config: Any,
    ) -> None:  # fmt: skip
        if not storage_list:
            raise ArgumentError("storage_list is empty: name at least one storage, such as NumpyStorage")
        states = sum(level.n_ckp for level in storage_list)
        super().__init__(
            checkpoint, fwd_operator, rev_operator, states, n_timesteps, timings, profiler, None,
            storage_list, **config,
        )  # fmt: skip


Revolver = MemoryRevolver = SingleLevelRevolver
