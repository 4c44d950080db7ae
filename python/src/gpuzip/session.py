"""Sessions: the states of one adjoint run, saved and restored."""

import ctypes
import os
import re
import weakref
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Deque, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _abi
from . import config as _config
from ._arrays import Fields, fields_of, int32, typestr_of
from ._callbacks import Carrier, least, told
from ._library import Unshared, library
from ._memory import Lease, Memory
from ._records import filled, of_struct
from .actions import _KINDS, Action, action_of
from .config import Config
from .errors import ArgumentError, ConfigError, Error, ShapeError, StateError, check, last_error
from .profile import Profile
from .records import Generation, Stats, Summary
from .streams import handle_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

Arrays = Any
"""One array, or a sequence (tuple or list) of arrays and `Field`s."""

_TERMINATE = _abi.ACTION_TERMINATE
_CLOSED = 1  # A handle that no session has.
_get_action = library.gpuzip_get_action
_byref = ctypes.byref
# A time step and the memory of its state; the session does not hold the `Slot`, which holds the session.
_Given = Tuple[int, Tuple[Memory, ...]]
_NOTHING: _Given = (-1, ())
_action_t = _abi.gpuzip_action_t


def sequence(arrays: Arrays) -> Sequence[Any]:
    """Returns the arrays as a tuple or list."""
    return arrays if isinstance(arrays, (tuple, list)) else (arrays,)


def _expire(given: "_Given", call: str) -> None:
    for memory in given[1]:
        memory._expire(f"the memory of u({given[0]}) was given back by a later {call}: use it before that call")


def _close(handle: int, process: int, _kept: List[Any]) -> None:
    # A forked child cannot finalize the sessions of its parent.
    if os.getpid() == process:
        check(library.gpuzip_finalize(handle))


class Slot(Unshared, Tuple[Memory, ...]):
    """The memory of the fields of one state (zero copy), one `Memory` for each field."""

    _session: "Session"
    _ts: int
    _stream: Any

    @property
    def arrays(self) -> Tuple[Any, ...]:
        """The fields as NumPy arrays."""
        return tuple(memory.array for memory in self)

    def commit(self, stream: Any = None) -> None:
        """Saves the state that the memory holds; the current action is its SAVE. Without `stream`
        it uses the stream that `Session.save_begin` was given."""
        self._session.save_commit(self._ts, stream=self._stream if stream is None else stream)


class Session(Unshared):
    """Saves and restores the states of adjoint runs, and says what to do next.

    ::

        with gpuzip.Session(u, steps=1000, host_budget="4G") as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    step(u, action.ts)
                elif action.type == gpuzip.SAVE:
                    session.save(action.ts, u)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts, u)
                elif action.type == gpuzip.BACKWARD:
                    adjoint_step(u, action.ts)

    `fields` is one array or a tuple or list of arrays: the state. Arrays come by the buffer
    protocol (NumPy, memoryview, array.array, ctypes), by `__cuda_array_interface__` (CuPy, Numba,
    PyTorch, JAX) or by DLPack. An array is in C order; on the host its rows and planes may have
    gaps (`u[4:-4, 4:-4]` has such gaps), which are neither saved nor written. Only shape and type
    of the values are read here: every save and retrieve may name other arrays. A `Field` describes
    a field without an array, or gives it a role.

    `steps` is the number of time steps, n; 0 with `checkpointing_algorithm="online"`, and then
    `end_forward` tells n. `config` is a `Config`, and `keys` are keys of the configuration, which
    win over it. `roles[k] = j + 1` declares field k as the previous time level of field j.

    Without a codec every restored state has the bits that were saved. On the host every save and
    retrieve is complete when it returns. On a GPU the calls return at once, and their work is
    ordered on a stream: on `stream`, or else on the stream that the arrays name, or else on the
    default stream. The session keeps arrays on a GPU alive as long as the library may use them.

    One thread at a time may use a session. Every call releases the interpreter's lock.
    """

    def __init__(
        self,
        fields: Arrays,
        steps: int = 0,
        config: Optional[Config] = None,
        *,
        roles: Sequence[int] = (),
        schedule: Any = None,
        **keys: "Unpack[ConfigKeys]",
    ) -> None:
        arrays = sequence(fields)
        if roles and len(roles) != len(arrays):
            raise ArgumentError(f"roles has {len(roles)} numbers for {len(arrays)} fields")
        made = fields_of(arrays, False, roles=roles)
        config = _config.of(config, keys)
        if config.zero_copy and config.backend == "fields":
            # The session hands out memory, and has to know where that is.
            if not made.memory and not made.device:
                raise ConfigError("zero_copy with fields without memory: set backend to host or cuda")
            config = config.copy(backend="cuda" if made.device else "host")
        self._on_device = made.device if config.backend == "fields" else config.backend == "cuda"
        self._defaults = arrays if made.memory else None
        self._like, self._orders = [found._replace(owner=None) for found in made.found], made.orders
        self._roles = [f.role for f in made.array]
        self._in_flight: Deque[Tuple[int, Optional[int], List[Any]]] = deque()
        self._several_streams = False
        self._ahead = config.max_in_flight or 64
        self._sweeps = max(1, config.sweeps)  # As many as are planned.
        self._it = -1
        # Callbacks that the library may call until the session is finalized, and the schedule.
        self._kept: List[Any] = [schedule]
        self._carrier = Carrier()
        handle = ctypes.c_void_p()
        if schedule is None:
            check(
                library.gpuzip_init(
                    config._struct, int32("steps", steps), made.array, made.count, handle
                )
            )
        else:
            check(
                library.gpuzip_attach(
                    schedule._handle, config._struct, made.array, made.count, handle
                )
            )
        self._handle = handle.value or 0
        self._lease: Optional[Lease] = Lease(self._handle)
        self._closing = self._handle, os.getpid(), self._kept
        self._finalizer = weakref.finalize(self._lease, _close, *self._closing)
        # Zero copy: the memory that is being written to, and the memory that may be read; the flags of the
        # current action; and whether `setup` keeps the memory of the shot before.
        self._begun = self._readable = _NOTHING
        self._flags = 0
        self._stays = schedule is None

    # The loop.

    def __iter__(self) -> Iterator[Action]:
        """The actions of the shot up to TERMINATE, which is not among them. `setup` begins the next
        shot."""
        return self

    def __next__(self) -> Action:
        action = self.get_action()
        if action.type == _TERMINATE:
            raise StopIteration
        return action

    def get_action(self) -> Action:
        """Moves to the next action and returns it, TERMINATE included. A SAVE or RESTORE must be
        served before the next action. After TERMINATE only `setup` is valid."""
        raw = _action_t()
        status = _get_action(self._handle, _byref(raw))
        if status < 0:
            raise last_error(status)
        self._it = it = raw.it
        self._flags = raw.flags
        if self._in_flight:
            self._forget(it)
        return Action(_KINDS[raw.type], raw.ts, raw.ts_end, raw.flags, it)

    def peek(self) -> Action:
        """Returns the action that comes next, and changes nothing. The forward sweep is over when
        that is a BACKWARD with `first_backward`. After TERMINATE this is a `StateError`."""
        raw = _action_t()
        check(library.gpuzip_peek_action(self._handle, raw))
        return action_of(raw)

    def dispatch(self, it: Union[int, Action]) -> None:
        """Moves the session to the current action of its schedule, which must be number `it`: for
        sessions of a `Schedule` that another caller advances. Does nothing if the session is there
        already."""
        number = it.it if isinstance(it, Action) else it
        check(library.gpuzip_dispatch(self._handle, number))
        self._it = number
        self._flags = 0 if isinstance(it, int) else it.flags
        if self._in_flight:
            self._forget(number)

    def end_forward(self) -> None:
        """Ends the forward sweep of a shot that began without a number of steps: the live state,
        of the current FORWARD or SAVE of `ts`, is u(n-1) with n = ts + 1."""
        check(library.gpuzip_end_forward(self._handle))

    def setup(self, steps: Optional[int] = None) -> "Session":
        """Prepares the next shot, with `steps` time steps if given, and returns the session. The
        snapshots and statistics of the shot before are forgotten. A new session needs no `setup`
        before its first shot. With zero copy, arrays of the memory must be gone where it may move: with
        another number of steps, a new plan or a shared schedule."""
        if self._in_flight:
            self.synchronize()
        self._expire("setup")
        if not self._stays or steps is not None:
            self._let_go()
        if steps is None:
            check(library.gpuzip_setup(self._handle))
        else:
            check(library.gpuzip_setup_steps(self._handle, int32("steps", steps)))
        self._stays = self._kept[0] is None
        self._it = -1
        return self

    # States.

    def save(self, ts: int, *arrays: Any, stream: Any = None) -> None:
        """Saves u(ts), which `arrays` hold, or without arrays those given to the session. The
        current action is SAVE of `ts`.

        On the host the arrays have been read on return, and `stream` is None. On a GPU the arrays
        are read in the order of `stream`: an address, an object with `__cuda_stream__`, or a stream
        of PyTorch, CuPy or Numba; by default the stream that the arrays name. A stream must stay
        valid until the next save or retrieve.
        """
        fields = self._fields(arrays, False, stream)
        status = library.gpuzip_save(self._handle, int32("ts", ts), fields.array, fields.count, fields.stream)
        if status < 0:
            raise self._failed(status, fields)
        self._expire("save")
        if self._on_device or fields.device:
            self._keep(fields.stream, fields.owners)

    def retrieve(self, ts: int, *arrays: Any, stream: Any = None) -> None:
        """Overwrites `arrays`, or without arrays those given to the session, with u(ts). The
        current action is RESTORE of `ts`. The arrays must not be read-only.

        On the host the arrays have been written on return. On a GPU they are written in the order
        of `stream`, as for `save`. A lossy codec keeps its bound for every value, zeros included:
        set zeros that your time steps read and never compute again after the call.
        """
        fields = self._fields(arrays, True, stream)
        status = library.gpuzip_retrieve(
            self._handle, int32("ts", ts), fields.array, fields.count, fields.stream
        )
        if status < 0:
            raise self._failed(status, fields)
        self._expire("retrieve")
        if self._on_device or fields.device:
            self._keep(fields.stream, fields.owners)

    def export(self, folder: "str | os.PathLike[str]", ts: int, *arrays: Any, stream: Any = None) -> None:
        """Writes u(ts), which `arrays` hold, or without arrays those given to the session, as files of NumPy
        into `folder`, which is made if it is missing: `NAME-000000012.npy` for each field, NAME as given to
        `name_fields`, or field0, field1, ... A state that this shot has written is not written again. On return
        the arrays have been read; `stream` is as for `save`. A file has the extents of an array in order
        "C" without ones in front, at most three, and types that the C interface does not know as integers
        of their bytes (`view` gives them back)."""
        fields = self._fields(arrays, False, stream)
        given = os.fsencode(folder)
        status = library.gpuzip_export(self._handle, given, int32("ts", ts), fields.array, fields.count, fields.stream)
        if status < 0:
            raise self._failed(status, fields)

    def name_fields(self, *names: str) -> None:
        """Gives the fields names, one for each field in their order, which the texts of errors and the files
        of `export` tell."""
        texts = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
        check(library.gpuzip_name_fields(self._handle, texts, len(names)))

    def rewind(self) -> "Session":
        """Begins another reverse sweep over the states of this shot, after TERMINATE, and returns the
        session. `Config(sweeps=k)` plans for k sweeps. The next action is a RESTORE."""
        check(library.gpuzip_rewind(self._handle))
        return self

    def synchronize(self) -> None:
        """Blocks until all saves and retrieves so far have read and written their arrays. Needed
        only for arrays on a GPU that are used outside their stream."""
        check(library.gpuzip_synchronize(self._handle))
        self._in_flight.clear()

    # Zero copy.

    def save_begin(self, ts: int, stream: Any = None) -> Slot:
        """Zero copy: returns memory to compute u(ts) in, one `Memory` for each field; `arrays` of the
        result are NumPy arrays of it. Needs `zero_copy=True`.

        The current action is the FORWARD to `ts` with `next_is_save`, or the SAVE of `ts`. Work on
        `stream` may write to the memory from now on, but for the previous time level of an action with
        `shared_level`, which is read-only; `commit` of the result must follow, at the SAVE. The memory
        stays readable until the next save or retrieve.
        """
        given = handle_of(stream)
        data = (ctypes.c_void_p * len(self._like))()
        check(library.gpuzip_save_begin(self._handle, int32("ts", ts), data, len(data), given))
        if self._begun[0] != ts:
            _expire(self._begun, "save_begin")
            self._begun = ts, self._memory(data, given, False)
        return self._slot(self._begun, given)

    def save_commit(self, ts: int, stream: Any = None) -> None:
        """Saves u(ts), which work on `stream` has computed in the memory of `save_begin`. The
        current action is SAVE of `ts`. The memory must not be written to any more: it is read-only."""
        check(library.gpuzip_save_commit(self._handle, int32("ts", ts), handle_of(stream)))
        begun, self._begun = self._begun, _NOTHING
        self._expire("save")
        for memory in begun[1]:
            memory._freeze()
        self._readable = begun

    @contextmanager
    def slot(self, ts: int, stream: Any = None) -> Iterator[Slot]:
        """At the SAVE of `ts`: `save_begin`, and `save_commit` at the end of the block unless the
        block raised."""
        slot = self.save_begin(ts, stream)
        yield slot
        slot.commit()

    def retrieve_acquire(self, ts: int, stream: Any = None, writable: bool = False) -> Slot:
        """Zero copy: returns memory that holds u(ts) until the next save or retrieve; it need not
        be given back. The current action is RESTORE of `ts`.

        The memory is read-only unless `writable`. Write to it only where the action has `last_use`, or
        where all snapshots are compressed (`summary().compressor` is not 0 and `raw_slots` is 0). The
        previous time level of an action with `shared_level` is read-only.
        """
        given = handle_of(stream)
        data = (ctypes.c_void_p * len(self._like))()
        check(library.gpuzip_retrieve_acquire(self._handle, int32("ts", ts), data, len(data), given))
        self._expire("retrieve")
        self._readable = ts, self._memory(data, given, not writable)
        return self._slot(self._readable, given)

    def retrieve_release(self, ts: int, stream: Any = None) -> None:
        """Gives the memory of `retrieve_acquire` back early, so that the library fetches the next
        snapshot into it. The work on it must be done or enqueued on `stream`."""
        check(library.gpuzip_retrieve_release(self._handle, int32("ts", ts), handle_of(stream)))
        _expire(self._readable, "retrieve_release")
        self._readable = _NOTHING

    @contextmanager
    def acquire(self, ts: int, stream: Any = None, writable: bool = False) -> Iterator[Slot]:
        """`retrieve_acquire`, and `retrieve_release` at the end of the block."""
        slot = self.retrieve_acquire(ts, stream, writable)
        try:
            yield slot
        finally:
            self.retrieve_release(ts, stream)

    # Callbacks instead of a loop.

    def run_forward(self, forward: Callable[..., Any], *arrays: Any, **functions: Any) -> None:
        """Runs the forward sweep of a shot, up to its first BACKWARD: calls `forward(ts, ts_end,
        flags)` for every FORWARD, and saves and restores `arrays`, or without arrays those given to
        the session.

        `functions` are `locate(type, ts)`, which returns the arrays that hold u(ts) (`type` SAVE)
        or are to be overwritten with it (RESTORE), for programs that swap buffers;
        `observe(type, ts, flags)`, called after every save and restore; and `stream`.

        An exception in a function ends the run and is raised here; `setup` then begins the next
        shot. A function that returns a number other than 0 or None ends the run with a
        `CallbackError`.
        """
        self._run(library.gpuzip_run_forward, arrays, forward=forward, **functions)

    def run_reverse(self, forward: Callable[..., Any], backward: Optional[Callable[..., Any]], *arrays: Any, **functions: Any) -> None:
        """Runs the rest of a shot: calls `backward(ts, flags)` for every BACKWARD, and `forward` for
        every FORWARD. With `adjoint_every` the function `backward_range(ts, ts_end, flags)` among
        `functions` is called instead, and `backward` may be None. Otherwise as `run_forward`."""
        self._run(library.gpuzip_run_reverse, arrays, forward=forward, backward=backward, **functions)

    def run(self, forward: Callable[..., Any], backward: Optional[Callable[..., Any]], *arrays: Any, **functions: Any) -> None:
        """Runs a whole shot: `run_forward` and `run_reverse`."""
        known = {k: v for k, v in functions.items() if k != "backward_range"}
        self.run_forward(forward, *arrays, **known)
        self.run_reverse(forward, backward, *arrays, **functions)

    # What was decided, and what was done.

    def stats(self) -> Stats:
        """Returns counts, bytes and seconds of this session since its last `setup`."""
        return filled(Stats, _abi.gpuzip_stats_t, lambda raw: library.gpuzip_stats(self._handle, raw))

    def summary(self) -> Summary:
        """Returns what was decided for this session: schedule, plan, memory, predicted time; `print` shows it with
        units."""
        return filled(
            Summary, _abi.gpuzip_summary_t, lambda raw: library.gpuzip_summary(self._handle, raw)
        )

    def fingerprint(self) -> int:
        """Returns a 64-bit number that is equal for equal schedules, to compare between ranks."""
        value = ctypes.c_uint64()
        check(library.gpuzip_fingerprint(self._handle, value))
        return value.value

    def agree(self, minimum: Callable[[int], int]) -> None:
        """Gives all ranks that compute one grid together one schedule: the schedule of the rank
        with the fewest snapshots. `minimum(value)` returns the least value of all ranks, such as
        `lambda value: comm.allreduce(value, op=MPI.MIN)`; it is called 5 times on every rank. Every
        rank makes the call before the first action; a rank without a session calls `gpuzip.agree`.
        """
        carrier = Carrier()
        function = least(carrier, _abi.gpuzip_least_t, minimum)
        carrier.check(library.gpuzip_agree(self._handle, function, None))

    # Profiles.

    def autotune(self) -> None:
        """Measures a profile during the next shot. Call it before the first action of that shot.
        After the shot, `profile` has the result, and the file `profile_path` if it is set."""
        check(library.gpuzip_autotune(self._handle))
        self._stays = False

    @property
    def profile(self) -> Profile:
        """The profile that the session measured last, or was given. Assigning a profile makes a new
        plan with it, before the first action or after TERMINATE for the next shot; all ranks assign
        equal bytes."""
        count = ctypes.c_uint64()
        check(library.gpuzip_profile_export(self._handle, None, 0, count))
        data = ctypes.create_string_buffer(count.value)
        check(library.gpuzip_profile_export(self._handle, data, count.value, count))
        return Profile(data.raw[: count.value])

    @profile.setter
    def profile(self, profile: Union[Profile, bytes]) -> None:
        data = bytes(profile)
        check(library.gpuzip_profile_import(self._handle, data, len(data)))
        self._stays = False

    def profile_steps(self, forward_ms: Sequence[float], backward_ms: Sequence[float]) -> None:
        """Gives the time steps of each part of the sweep times of their own, in milliseconds: the
        sweep is divided into `len(forward_ms)` parts of equal length, at most 4096. Empty
        sequences: every step takes the mean. Makes a new plan."""
        if len(forward_ms) != len(backward_ms):
            raise ArgumentError(
                f"forward_ms has {len(forward_ms)} parts, and backward_ms has {len(backward_ms)}"
            )
        parts = len(forward_ms)
        numbers = ctypes.c_double * parts
        check(
            library.gpuzip_profile_steps(
                self._handle, parts, numbers(*forward_ms), numbers(*backward_ms)
            )
        )
        self._stays = False

    # Restart files.

    def persist_open(
        self,
        rank: int = 0,
        ranks: int = 1,
        minimum: Optional[Callable[[int], int]] = None,
    ) -> None:
        """Opens the folder `persist_dir` for restart files. With several ranks, all ranks make the
        calls of restart files together, and `minimum(value)` returns the least value of all
        ranks; it is called until the session is finalized."""
        options = _abi.gpuzip_persist_options_t()
        options.struct_size = ctypes.sizeof(options)
        options.rank, options.ranks = rank, ranks
        if minimum is not None:
            options.agree_min = least(self._carrier, _abi.gpuzip_least_t, minimum)
            self._kept.append(options.agree_min)
        self._carrier.check(library.gpuzip_persist_open(self._handle, options))

    def persist_stage(self, name: str, run: Callable[[str, Generation], Any], priority: int = 0) -> None:
        """Adds a stage to those that every generation passes when it is on the disk, in the order of
        rising `priority`: `run(file, generation)` is called in a thread of the library, while the
        program goes on, for example to copy the file to an object store. It must not use the session.
        What it raises is printed, the generation passes no further stage, and it counts all the same.
        `name` is the stage's name in the key `persist_stages`. Call it between `persist_open` and the
        first `persist_write`."""
        stage = told(_abi.gpuzip_persist_stage_t, lambda file, raw: run(file, of_struct(Generation, raw)))
        self._kept.append(stage)
        register = library.gpuzip_persist_stage_register
        self._carrier.check(register(self._handle, name.encode(), priority, stage, None))

    def persist_due(self) -> int:
        """Returns DUE_NO (0), DUE_YES (1) if the time that restart files may take permits to write
        now, or DUE_STOP (2) if a stop was requested: then write, wait and end the run."""
        due = ctypes.c_int32()
        self._carrier.check(library.gpuzip_persist_due(self._handle, due))
        return due.value

    def persist_write(
        self, shot: int, arrays: Mapping[str, Any], within: Optional[Mapping[str, Any]] = None, stream: Any = None
    ) -> None:
        """Writes a generation of restart files, from which a run goes on with shot `shot`.

        `arrays` change between shots only, such as an image summed over shots; `within` change
        during a shot, such as a wavefield, and are stored by generations within a shot only. Names
        are at most 80 bytes of UTF-8. On return the library has read the arrays.
        """
        made, count, given, _owners = self._named(arrays, within, False, stream)
        self._carrier.check(library.gpuzip_persist_write(self._handle, shot, made, count, given))

    def persist_wait(self) -> None:
        """Waits until the last generation is on the disk, and raises its error if it is not."""
        self._carrier.check(library.gpuzip_persist_wait(self._handle))

    def persist_clone(self, folder: "str | os.PathLike[str]") -> None:
        """Puts the last generation, when it is on the disk, into a folder of its own, where it stays when
        the run removes it: other runs begin with it."""
        self._carrier.check(library.gpuzip_persist_clone(self._handle, os.fsencode(folder)))

    def persist_find(self) -> Optional[Generation]:
        """Returns the newest generation that every rank can read completely, or None."""
        found = filled(
            Generation,
            _abi.gpuzip_generation_t,
            lambda raw: self._carried(library.gpuzip_persist_find(self._handle, raw)),
        )
        return found if found.generation else None

    def persist_read(
        self, arrays: Mapping[str, Any], within: Optional[Mapping[str, Any]] = None, stream: Any = None
    ) -> None:
        """Goes on from the generation that `persist_find` found: fills the arrays, by their names,
        and moves the session to where it was. Call it before the first action, and without
        `setup`."""
        made, count, given, owners = self._named(arrays, within, True, stream)
        self._carrier.check(library.gpuzip_persist_read(self._handle, made, count, given))
        self._stays = False
        if self._on_device:
            self._keep(given, owners)

    # The end.

    def finalize(self) -> None:
        """Frees the session after its transfers are done. Every later call is a `HandleError`. An
        error of the last shot that no call has reported yet is raised here; the session is freed
        all the same. Where arrays of its memory (zero copy) are alive, it is freed with the last of
        them."""
        self._expire("finalize")
        lease, self._lease = self._lease, None
        if lease is None:
            return
        handle, held = self._handle, weakref.ref(lease)
        is_open = self._finalizer.detach() is not None
        del lease
        holder = held()
        try:
            if holder is not None and is_open:
                self._handle = _CLOSED
                self._finalizer = weakref.finalize(holder, _close, *self._closing)
            elif is_open:
                check(library.gpuzip_finalize(handle))
        finally:
            self._in_flight.clear()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> None:
        try:
            self.finalize()
        except Error:
            # An exception of the block must not be hidden.
            if kind is None:
                raise

    # Helpers.

    def _fields(self, arrays: Sequence[Any], writable: bool, stream: Any) -> Fields:
        if len(arrays) == 1 and type(arrays[0]) is Fields:
            # An adapter's description of arrays on the host, in which it changes the addresses.
            return arrays[0]
        if not arrays:
            if self._defaults is None:
                raise ArgumentError("the session was made without arrays: name the arrays of the state")
            arrays = self._defaults
        elif len(arrays) == 1 and isinstance(arrays[0], (tuple, list)):
            arrays = arrays[0]
        # Another number of arrays is an error of the library, which says so.
        if len(arrays) != len(self._roles):
            return fields_of(arrays, writable, stream)
        return fields_of(arrays, writable, stream, self._roles, self._orders)

    def _failed(self, status: int, fields: Fields) -> BaseException:
        """The exception of a save or retrieve. Beside extents, which are in the order n1, n2, n3, it has shapes."""
        error = last_error(status)
        named = re.search(r": field (\d+)\b", str(error))
        if isinstance(error, ShapeError) and named and fields.count == len(self._like):
            given, wanted = fields.found[int(named[1])], self._like[int(named[1])]
            error.args = (
                f"{error}. The array has the shape {given.shape} and the type {typestr_of(given)}, the session's "
                f"{wanted.shape} and {typestr_of(wanted)}",
            )
        return error

    def _keep(self, stream: Optional[int], owners: List[Any]) -> None:
        """Keeps arrays alive that the GPU reads or writes in the order of `stream`."""
        queue = self._in_flight
        self._several_streams = bool(queue) and (self._several_streams or stream != queue[-1][1])
        queue.append((self._it, stream, owners))
        # The library counts actions on the stream of the last call only: with several streams,
        # waiting is the one way to know that the GPU has done with an array.
        if self._several_streams and len(queue) > 4 * self._ahead:
            self.synchronize()

    def _forget(self, it: int) -> None:
        """Lets go of arrays that the GPU has done with: of actions that are `max_in_flight` or more
        before action `it`, if all calls named one stream."""
        queue = self._in_flight
        while not self._several_streams and queue and queue[0][0] <= it - self._ahead:
            queue.popleft()

    def _memory(self, data: Any, stream: Optional[int], readonly: bool) -> Tuple[Memory, ...]:
        # The previous time level is that of the snapshot before.
        shared = self._flags & _abi.FLAG_SHARED_LEVEL
        return tuple(
            Memory(address or 0, like, readonly or bool(shared and role), self._on_device, stream, self._lease, order)
            for address, like, role, order in zip(data, self._like, self._roles, self._orders)
        )

    def _slot(self, given: _Given, stream: Optional[int]) -> Slot:
        slot = Slot(given[1])
        slot._session, slot._ts, slot._stream = self, given[0], stream
        return slot

    def _expire(self, call: str) -> None:
        """Ends the time in which memory that was handed out may be used."""
        if self._begun[1] or self._readable[1]:
            _expire(self._begun, call)
            _expire(self._readable, call)
            self._begun = self._readable = _NOTHING

    def _let_go(self) -> None:
        """Fails if there are arrays of memory that the library may free before the session ends."""
        if self._lease is None:
            return
        held = weakref.ref(self._lease)
        self._finalizer.detach()
        self._lease = None
        holder = held()
        self._lease = holder or Lease(self._handle)
        self._finalizer = weakref.finalize(self._lease, _close, *self._closing)
        if holder is not None:
            raise StateError(
                "setup may free the session's memory, and arrays of it are in use: delete them before (del), "
                "and what was made of them"
            )

    def _run(self, call: Any, arrays: Sequence[Any], stream: Any = None, **functions: Any) -> None:
        fields = self._fields(arrays, True, stream)
        carrier = Carrier()
        callbacks = _abi.gpuzip_callbacks_t()
        callbacks.struct_size = ctypes.sizeof(callbacks)
        located: List[Any] = []
        locate = functions.pop("locate", None)
        if locate is not None:

            def set_data(kind: int, ts: int, target: Any, count: int) -> int:
                found = self._fields(sequence(locate(_KINDS[kind], ts)), kind != _abi.ACTION_SAVE, stream)
                located.append(found.owners)
                if not self._on_device:
                    del located[:-1]
                if found.count != count:
                    raise ShapeError(f"locate returned {found.count} fields of {count}")
                for k in range(count):
                    of, to = found.array[k], target[k]
                    if any(getattr(of, m) != getattr(to, m) for m in ("n1", "n2", "n3", "type")):
                        raise ShapeError(
                            f"locate returned an array of shape {found.found[k].shape} as field {k}, whose "
                            f"shape is {self._like[k].shape}, or an array of other values"
                        )
                    target[k].data = found.array[k].data
                    target[k].pitch2, target[k].pitch3 = found.array[k].pitch2, found.array[k].pitch3
                return 0

            callbacks.locate = carrier.wrap(_abi.gpuzip_locate_t, set_data)
        observe = functions.pop("observe", None)
        if observe is not None:
            callbacks.observe = carrier.wrap(
                _abi.gpuzip_observe_t, lambda kind, ts, flags: observe(_KINDS[kind], ts, flags)
            )
        for name, function in functions.items():
            if name not in ("forward", "backward", "backward_range"):
                raise TypeError(f"there is no callback {name!r}")
            if function is not None:
                kind = {field[0]: field[1] for field in _abi.gpuzip_callbacks_t._fields_}[name]
                setattr(callbacks, name, carrier.wrap(kind, function))
        try:
            carrier.check(call(self._handle, callbacks, fields.array, fields.count, fields.stream))
        finally:
            if self._on_device or fields.device:
                self._keep(fields.stream, [fields.owners, located])

    def _named(
        self, arrays: Mapping[str, Any], within: Optional[Mapping[str, Any]], writable: bool, stream: Any
    ) -> Tuple[Any, int, Optional[int], List[Any]]:
        items = [(name, array, 0) for name, array in arrays.items()]
        items += [(name, array, 1) for name, array in (within or {}).items()]
        fields = fields_of([array for _, array, _ in items], writable, stream)
        made = (_abi.gpuzip_array_t * len(items))()
        for k, (name, _, scope) in enumerate(items):
            if "\0" in name:
                raise ArgumentError(f"the name {name!r} of an array has a NUL")
            made[k].name, made[k].field, made[k].scope = name.encode(), fields.array[k], scope
            made[k].field.role = 0
        return made, len(items), fields.stream, fields.owners

    def _carried(self, status: int) -> int:
        self._carrier.check(status)
        return status
