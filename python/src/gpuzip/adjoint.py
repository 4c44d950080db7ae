"""`adjoint`: the adjoint of a loop over time steps of NumPy, with the states kept by a session."""

import hashlib
import os
import sys
from fnmatch import fnmatch
from numbers import Number
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Union

from . import _abi
from . import config as _config
from ._arrays import int32
from .actions import BACKWARD, FORWARD, RESTORE, SAVE
from .config import Config
from .errors import ArgumentError, ArrayError, ConfigError, ShapeError, StateError
from .progress import progress as _progress
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

Step = Callable[[Any, int], None]
AdjointStep = Callable[[Any, int, Any], None]


class Stopped(SystemExit):
    """`adjoint` has stopped at the request of `request_stop` or of a signal, and the restart files hold the run. A
    program that does not catch it ends with the status 3."""

    def __init__(self, folder: str) -> None:
        super().__init__(3)
        self.folder = folder

    def __str__(self) -> str:
        return f"the run was stopped; its restart files are in {self.folder}"


class _Arrays:
    """A single array, a list or a dict of arrays, and copies of what was given."""

    def __init__(self, name: str, given: Any) -> None:
        self.name = name
        self.keys: List[Any] = [None]
        if isinstance(given, Mapping):
            self.keys = list(given)
        elif isinstance(given, (list, tuple)):
            self.keys = list(range(len(given)))
        if not self.keys:
            raise ArgumentError(f"{name} has no arrays")
        copies = [self._copy(key, given if key is None else given[key]) for key in self.keys]
        self.value: Any = copies
        if isinstance(given, Mapping):
            self.value = dict(zip(self.keys, copies))
        elif self.keys == [None]:
            self.value = copies[0]

    def label(self, key: Any) -> str:
        return self.name if key is None else f"{self.name}[{key!r}]"

    def _copy(self, key: Any, array: Any) -> Any:
        if not all(hasattr(array, name) for name in ("shape", "dtype", "copy", "__setitem__")):
            raise ArrayError(f"{self.label(key)} is a {type(array).__name__}: give arrays of NumPy")
        return array.copy()

    def arrays(self) -> List[Any]:
        """The arrays, of which a step may have replaced some."""
        if self.keys == [None]:
            return [self.value]
        if len(self.value) != len(self.keys):
            raise ShapeError(f"a step has changed the number of arrays of {self.name} from {len(self.keys)} to {len(self.value)}")
        found = [self.value[key] for key in self.keys]
        if len(set(map(id, found))) < len(found):
            raise ArrayError(f"a step has put one array into two places of {self.name}: put a copy into one of them")
        return found

    def fill(self, given: Any, what: str) -> None:
        """Writes `given`, arrays in the form of these, into these."""
        if given is None:
            raise TypeError(f"{what} returned None: it must return the adjoint of u(n), in the form of the state")
        if isinstance(self.value, dict):
            if not isinstance(given, Mapping):
                raise TypeError(f"{what} is a {type(given).__name__}, and the state is a dict: give a dict with its keys")
            missing = [key for key in self.keys if key not in given]
            if missing:
                raise ShapeError(f"{what} has no array {missing[0]!r}, and the state has")
        if isinstance(self.value, (dict, list)) and len(given) != len(self.keys):
            raise ShapeError(f"{what} has {len(given)} arrays, and {self.name} has {len(self.keys)}")
        for key, array in zip(self.keys, self.arrays()):
            values = given if key is None else given[key]
            if getattr(values, "shape", None) != array.shape:
                raise ShapeError(
                    f"{what} has {getattr(values, 'shape', type(values).__name__)} where {self.label(key)} has the shape "
                    f"{array.shape}"
                )
            array[...] = values


def _call(changes: str, function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a step, which changes its argument `changes` in place and returns None."""
    result = function(*arguments)
    if result is not None:
        name = getattr(function, "__name__", type(function).__name__)
        raise TypeError(
            f"{name} returned a {type(result).__name__}: it must change its argument `{changes}` and return None; "
            f'write {changes}["u"][...] = values, or {changes}[...] = values for a single array'
        )


class _Restart:
    """The restart files of a run, which is shot 0 of its folder."""

    def __init__(self, session: Session, config: Config, run: str, parts: Mapping[str, Any]) -> None:
        for name, array in parts["keep"].items():
            if isinstance(array, Number):
                raise ArrayError(
                    f"keep[{name!r}] is a {type(array).__name__}, which no step can change in place: keep an array of one "
                    "value, such as numpy.zeros(1)"
                )
        self.session, self.folder, self.parts = session, config.persist_dir, parts
        # The name of this array tells runs apart: the library refuses files that have another one.
        self.run: Dict[str, Any] = {f"run {run}": bytearray(8)}
        session.persist_open()
        found = session.persist_find()
        self.goes_on = bool(found and found.it >= 0)
        if found and found.it >= 0:  # else of the start of the run
            try:
                session.persist_read(self.run, self._within())
            except ShapeError as reason:
                raise StateError(
                    f"the restart files in {self.folder} are not of this run: its initial state or the arrays of `keep` "
                    f"were others. Remove the folder, or set another persist_dir. ({reason})"
                ) from reason

    def _within(self) -> Dict[str, Any]:
        found = {}
        for name, part in self.parts.items():
            pairs = zip(part.keys, part.arrays()) if isinstance(part, _Arrays) else part.items()
            found.update({f"{name} {key}": array for key, array in pairs})
        return found

    def after(self) -> None:
        """After each action: writes if it is time to."""
        due = self.session.persist_due()
        if due == _abi.DUE_NO:
            return
        self.session.persist_write(0, self.run, self._within())
        if due == _abi.DUE_STOP:
            self.session.persist_wait()
            stopped = Stopped(self.folder)
            print(f"gpuzip.adjoint: {stopped}", file=sys.stderr)  # The interpreter prints nothing.
            raise stopped

    def end(self) -> None:
        """After the run: removes its generations, so that the next call begins anew."""
        self.session.persist_wait()
        for name in os.listdir(self.folder):
            if fnmatch(name, "gpuzip-r000000-g*.gen"):
                os.remove(os.path.join(self.folder, name))


def _identity(arrays: _Arrays) -> str:
    """Names a run by its initial state."""
    digest = hashlib.blake2b(digest_size=16)
    for key, array in zip(arrays.keys, arrays.arrays()):
        digest.update(f"{key} {array.shape} {array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


class _Exported:
    """The states that are still to be written as files of NumPy."""

    def __init__(self, folder: Any, every: Optional[int], states: Optional[Iterable[int]], n: int) -> None:
        if folder is None and (every is not None or states is not None):
            raise ArgumentError("export_every and export_states are for files of NumPy: give export_dir, too")
        if folder is not None and (every is None) == (states is None):
            raise ArgumentError("export_dir: give export_every=k, or the time steps as export_states=[...]")
        if states is not None and not isinstance(states, Iterable):
            raise ArgumentError(f"export_states = {states!r}: give a list of time steps, such as [{states!r}]")
        if every is not None and int32("export_every", every) < 1:
            raise ArgumentError(f"export_every = {every}: every k-th state is written, with k at least 1")
        given = () if states is None else states
        given = given if every is None else range(0, n + 1, every)
        self.folder, self.due = folder, {int32("export_states", ts) for ts in given}
        beyond = [ts for ts in self.due if not 0 <= ts <= n]
        if beyond:
            raise ArgumentError(f"export_states has {beyond[0]}: the states are u(0) to u({n})")

    def passed(self, session: Session, ts: int, arrays: List[Any]) -> None:
        """Writes u(ts), which `arrays` hold, the first time."""
        if ts in self.due:
            session.export(self.folder, ts, *arrays)
            self.due.discard(ts)


def _configured(config: Optional[Config], keys: Mapping[str, Any], memory: Any, budget: str) -> Config:
    config = _config.of(config, keys)
    if memory is not None:
        if getattr(config, budget):
            raise ConfigError(f"memory is {budget}: give one of them")
        found: Dict[str, Any] = {budget: _config.budget(memory)}
        config = config.copy(**found)
    for key in ("zero_copy", "adjoint_every", "sweeps"):
        if getattr(config, key) > (0 if key == "zero_copy" else 1):
            raise ConfigError(f"{key} = {getattr(config, key)}: gpuzip.adjoint has no loop for it; write one with gpuzip.Session")
    return config


def adjoint(
    step: Step,
    adjoint_step: AdjointStep,
    state: Any,
    n: int,
    *,
    final_adjoint: Any = None,
    memory: Union[int, str, None] = None,
    keep: Optional[Mapping[str, Any]] = None,
    progress: bool = False,
    export_dir: "str | os.PathLike[str] | None" = None,
    export_every: Optional[int] = None,
    export_states: Optional[Iterable[int]] = None,
    config: Optional[Config] = None,
    **keys: "Unpack[ConfigKeys]",
) -> Any:
    """Returns the adjoint of the initial state of `n` time steps, in the form of `state`.

    `state` is the initial state u(0): an array of NumPy, or a list or a dict of arrays; of a tuple a list is made. It is
    copied, and stays as it is.

    `step(state, t)` changes `state` from u(t) to u(t+1), for t = 0, ..., n-1, and returns None. It writes into the arrays,
    or puts others of the same shapes and types into the list or dict; these belong to the run then, which overwrites
    them. A step is computed more than once and does the same each time.

    `adjoint_step(state, t, adjoint)` changes `adjoint`, in the same way, from the adjoint of u(t+1) to that of u(t), where
    `state` is u(t). It is called once for each t = n-1, ..., 0, after all n steps. What it sums up beside, such as the
    gradient by a model, lies in arrays of your program.

    `final_adjoint` is the adjoint of u(n), in the form of `state`, or a function of u(n) that returns it; by default
    zeros. The adjoint has the shapes and types of the state.

    `memory` is the number of bytes that snapshots may take, such as "2G" (`host_budget`); in addition the run has the
    state, its adjoint and, before the first adjoint step, a copy of the state. `config` and `keys` are as for `Session`.
    `progress` shows a bar of the package tqdm. With the key `check=3` a step that reads something outside `state` is
    found: docs/faq.md.

    With `export_dir` the run writes states into this folder, as files of NumPy, when it computes them first: every k-th
    one with `export_every=k`, or u(t) for each t in `export_states`, of 0, ..., n. For names and shapes see
    `Session.export`; of a dict the keys are the names. Another call writes its states in their place.

    With the key `persist_dir` the run writes restart files into this folder, and the same call goes on from them. `keep`
    names the arrays that `step`, `adjoint_step` and `final_adjoint` write beside their arguments: they are stored and
    restored, too. A run that goes on after u(n) does not call `final_adjoint` again. These arrays must be changed in
    place: `g += x`, since `g = g + x` makes another array, which is not stored. A number is an array with one value.
    Files of a run with another initial state or other arrays are a `StateError`; of other models gpuzip knows
    nothing. A requested stop raises `Stopped`, after a line on stderr. A run that ends removes its generations; two
    small files, a journal and a lock, stay.
    """
    n = int32("n", n)
    if n < 1:
        raise ArgumentError(f"n = {n}: there must be at least one time step")
    live, back = _Arrays("state", state), _Arrays("adjoint", state)
    on_device = any(hasattr(array, "__cuda_array_interface__") for array in live.arrays())
    budget = "device_budget" if on_device else "host_budget"
    config = _configured(config, keys, memory, budget)
    exported = _Exported(export_dir, export_every, export_states, n)
    if keep and not config.persist_dir:
        raise ArgumentError("keep is for restart files: give persist_dir, too, or leave keep out")
    for array in back.arrays():
        array[...] = 0
    with _config.given_as_memory(None if memory is None else budget), Session(live.arrays(), n, config) as session:
        if all(isinstance(key, str) and 0 < len(key.encode()) <= 80 for key in live.keys):
            session.name_fields(*live.keys)
        files = None
        if config.persist_dir:
            parts = {"state": live, "adjoint": back, "keep": keep or {}}
            files = _Restart(session, config, _identity(live), parts)
        if not files or not files.goes_on:
            exported.passed(session, 0, live.arrays())
        for action in _progress(session) if progress else session:
            if action.type == FORWARD:
                for t in range(action.ts - 1, action.ts_end):
                    _call("state", step, live.value, t)
                    exported.passed(session, t + 1, live.arrays())
            elif action.type == SAVE:
                session.save(action.ts, *live.arrays())
            elif action.type == RESTORE:
                session.retrieve(action.ts, *live.arrays())
            elif action.type == BACKWARD:
                if action.first_backward:
                    _turn(step, live, n, final_adjoint, back, lambda: exported.passed(session, n, live.arrays()))
                _call("adjoint", adjoint_step, live.value, action.ts, back.value)
            if files:
                files.after()
        if files:
            files.end()
    return back.value


def _turn(step: Step, live: _Arrays, n: int, final: Any, back: _Arrays, passed: Callable[[], None]) -> None:
    """Computes u(n), where it calls `passed`, sets its adjoint, and leaves u(n-1) in `live`."""
    kept = [array.copy() for array in live.arrays()]
    _call("state", step, live.value, n - 1)
    passed()
    if final is not None:
        back.fill(final(live.value) if callable(final) else final, "final_adjoint")
    for array, values in zip(live.arrays(), kept):
        array[...] = values
