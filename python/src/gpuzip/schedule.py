"""Schedules: the order of actions of an adjoint run, without a session or shared by several."""

import ctypes
import io
import itertools
import os
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Iterator, List, Optional, Tuple, Union

from . import _abi
from . import config as _config
from ._arrays import int32
from ._drawing import Drawn, Picture, picture
from ._files import new_file
from ._library import Unshared, library
from ._records import filled
from .actions import TERMINATE, Action, ActionType, action_of
from .config import Config
from .errors import ArgumentError, ScheduleError, check
from .process import algorithm_name
from .records import Summary
from .session import Arrays, Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

Path = Union[str, "os.PathLike[str]"]


def _release(handle: int, process: int) -> None:
    if os.getpid() == process:
        check(library.gpuzip_schedule_release(handle))


class Schedule(Drawn, Unshared):
    """The actions that reverse `steps` time steps.

    `Schedule(1000, checkpointing_algorithm="revolve", checkpointing_snaps=10)` is a schedule of its
    own; `config` and `keys` are as for `Session`. Iterating gives the actions, TERMINATE included,
    from the current one on; `rewind` goes back to the start. Without sessions, algorithm `auto` is
    Revolve with GPUZIP's number of snapshots. A notebook shows the drawing of a schedule that was made in this way.

    A schedule shared by several sessions, one for each device: `attach` makes the sessions, the
    loop runs over the schedule, and `Session.dispatch` makes each session follow.
    """

    def __init__(self, steps: int = 0, config: Optional[Config] = None, **keys: "Unpack[ConfigKeys]") -> None:
        handle = ctypes.c_void_p()
        config = _config.of(config, keys)
        check(library.gpuzip_schedule_create(config._struct, int32("steps", steps), handle))
        self._own(handle)
        self._made = steps, config.copy()

    # Steps and configuration, if the schedule was not that of a session.
    _made: Optional[Tuple[int, Config]] = None

    def _own(self, handle: ctypes.c_void_p) -> None:
        self._handle = handle.value or 0
        self._finalizer = weakref.finalize(self, _release, self._handle, os.getpid())

    @classmethod
    def of(cls, session: Session) -> "Schedule":
        """Returns the schedule that a session follows."""
        schedule = cls.__new__(cls)
        handle = ctypes.c_void_p()
        check(library.gpuzip_get_schedule(session._handle, handle))
        schedule._own(handle)
        return schedule

    @classmethod
    def read(cls, path: Path, **keys: "Unpack[ConfigKeys]") -> "Schedule":
        """Reads a trace: a file with one `<timestep> <ACTION>` per line, in the format of GPUZIP
        2.x. A trace that does not reverse its steps is a `ScheduleError`."""
        with open(path) as file:
            steps = sum(1 for line in file if line.split()[1:] in (["BACKWARD"], ["FIRSTURN"]))
        keys["checkpointing_algorithm"], keys["trace_file_path"] = "trace", path
        return cls(steps, **keys)

    def attach(self, fields: Arrays, config: Optional[Config] = None, **keys: "Unpack[ConfigKeys]") -> Session:
        """Makes a session that follows this schedule; arguments as for `Session`."""
        return Session(fields, 0, config, schedule=self, **keys)

    def __iter__(self) -> Iterator[Action]:
        while True:
            action = self.get_action()
            yield action
            if action.type == TERMINATE:
                return

    def get_action(self) -> Action:
        """Moves to the next action and returns it. After TERMINATE only `rewind` is valid."""
        raw = _abi.gpuzip_action_t()
        check(library.gpuzip_schedule_get_action(self._handle, raw))
        return action_of(raw)

    def peek(self) -> Action:
        """Returns the action that comes next, and changes nothing."""
        raw = _abi.gpuzip_action_t()
        check(library.gpuzip_schedule_peek_action(self._handle, raw))
        return action_of(raw)

    def rewind(self) -> "Schedule":
        """Goes back to before the first action, and returns the schedule. Its sessions then need
        `setup`."""
        check(library.gpuzip_schedule_rewind(self._handle))
        return self

    def summary(self) -> Summary:
        """Returns the counts of the actions; the members about a plan are 0."""
        return filled(
            Summary,
            _abi.gpuzip_summary_t,
            lambda raw: library.gpuzip_schedule_summary(self._handle, raw),
        )

    def fingerprint(self) -> int:
        """Returns a 64-bit number that is equal for equal schedules."""
        value = ctypes.c_uint64()
        check(library.gpuzip_schedule_fingerprint(self._handle, value))
        return value.value

    def actions(self) -> List[Action]:
        """Returns all actions, TERMINATE included, and rewinds the schedule."""
        self.rewind()
        try:
            return list(self)
        finally:
            self.rewind()

    def write(self, path: Path) -> None:
        """Writes the schedule as a trace, for `Schedule.read` and for the keys
        `checkpointing_algorithm = trace` and `trace_file_path`. Rewinds the schedule."""
        write_trace(path, self.actions())

    def _picture(self) -> Picture:
        decided = self.summary()
        if not decided.steps:
            raise ArgumentError("a schedule without a number of time steps has no drawing: give `steps`")
        sweeps = decided.backward_steps // decided.steps
        # Another schedule of the same actions, where there can be one, so that this one stays at its action.
        other = self if self._made is None else Schedule(*self._made)
        # Iterating ends at the TERMINATE of each reverse sweep.
        actions = itertools.chain.from_iterable(itertools.repeat(other.rewind(), sweeps))
        try:
            return picture(actions, algorithm_name(decided.algorithm), decided.steps, decided.snapshots, sweeps)
        finally:
            other.rewind()

    def _repr_svg_(self) -> Optional[str]:
        # Reading the actions of a session's schedule would rewind it.
        return None if self._made is None else super()._repr_svg_()

    def svg(self) -> str:
        """Returns the drawing as the text of an SVG file. More than 20,000 lines are an `ArgumentError`. Rewinds a
        schedule of `Schedule.of`, as `plot` does."""
        return super().svg()

    def release(self) -> None:
        """Gives the schedule back. Sessions that follow it keep it alive."""
        self._finalizer()

    def __enter__(self) -> "Schedule":
        return self

    def __exit__(self, *_reason: Any) -> None:
        self.release()


def write_trace(path: Path, actions: Iterable[Any]) -> None:
    """Writes actions as a trace: `Action`s, or pairs of a time step and the name of an action. The
    file is never written through a link of another user."""
    with io.TextIOWrapper(new_file(path)) as file:
        for action in actions:
            if isinstance(action, Action):
                if action.ts_end != action.ts:
                    raise ScheduleError(
                        f"action {action.it} covers the steps {action.ts} to {action.ts_end}: a trace "
                        "has one step per line; make the schedule without range_actions and "
                        "adjoint_every"
                    )
                file.write(f"{action.ts} {action.type.name}\n")
            else:
                ts, name = action
                file.write(f"{ts} {name.name if isinstance(name, ActionType) else name}\n")


def validate(actions: Iterable[Any]) -> Summary:
    """Proves by replay that `actions`, as for `write_trace`, reverse their steps, and returns their
    counts. A sequence that does not is a `ScheduleError` or `ParseError` that names the line, from
    1."""
    handle, path = tempfile.mkstemp(suffix=".trace")
    os.close(handle)
    try:
        write_trace(path, actions)
        with Schedule.read(path) as schedule:
            return schedule.summary()
    finally:
        os.unlink(path)
