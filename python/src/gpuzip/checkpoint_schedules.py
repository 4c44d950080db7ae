"""Schedules of gpuzip for programs of the package checkpoint_schedules, and its schedules for gpuzip.

`GpuzipSchedule` is a `CheckpointSchedule` with the actions of a gpuzip schedule, and `actions` returns the
actions of any `CheckpointSchedule` as gpuzip's, for `gpuzip.write_trace` and `gpuzip.validate`.
"""

from itertools import accumulate
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from checkpoint_schedules import (
    CheckpointSchedule,
    Copy,
    EndForward,
    EndReverse,
    Forward,
    Move,
    Reverse,
    StorageType,
)

from .actions import BACKWARD, FORWARD, RESTORE, SAVE, TERMINATE, Action, ActionType
from .config import Config
from .errors import ArgumentError, ConfigError, ScheduleError, StateError, UnsupportedError
from .plan import budgets_of, plan
from .process import algorithm_name
from .records import Summary
from .schedule import Schedule
from .session import Session

# The keys that change the actions of a schedule, and its log.
_KEYS = {
    "adjoint_every", "cache_capacity", "checkpointing_algorithm", "checkpointing_snaps", "log_level", "range_actions",
    "schedule_chunk", "snapshot_rule", "strict", "trace_file_path", "uniform_reading",
}  # fmt: skip
_COUNTS = ("forward_steps", "saves", "restores", "max_live", "actions")
# The keys that change them where `fields` tell the bytes of a state.
_KEYS_OF_PLANS = (_KEYS - {"cache_capacity"}) | {"device_reserve", "disk_budget", "host_budget", "profile_path"}


class GpuzipSchedule(CheckpointSchedule):
    """The actions of gpuzip that reverse `max_n` time steps.

    `config` are keys of the configuration, such as `checkpointing_algorithm="revolve"` and
    `checkpointing_snaps=10`, as for `gpuzip.Schedule`. A state that gpuzip saves is forward restart data
    (`write_ics`). At most `ram` of these are in RAM at a time, those that are written and read most
    often, and the others on DISK; None: all are in RAM. RAM also has the data of one adjoint step at a
    time. One adjoint calculation is permitted.

    With `fields`, an array or `gpuzip.Field` or a list of them that has the shape of a state, the schedule
    and the storage of each state are those of the plan of a session with these `fields`: `host_budget` is
    for the states in RAM, `disk_budget` for those on DISK, and `summary` has the bytes of both.

    A schedule that saves a state and leaves it without a time step, which checkpoint_schedules cannot
    express, is an `UnsupportedError`. After an exception within an adjoint calculation the next one
    is a `StateError`: pyadjoint would repeat the part before the exception only.
    """

    def __init__(self, max_n: int, *, ram: Optional[int] = None, fields: Any = None, **config: Any) -> None:
        super().__init__(max_n)
        if max_n is None:
            raise ArgumentError("max_n is None: schedules of gpuzip need the number of time steps")
        if ram is not None and ram < 0:
            raise ArgumentError(f"ram = {ram}: use a number of states from 0 on, or None for all states")
        if ram is not None and fields is not None:
            raise ArgumentError(f"ram = {ram} with fields: the plan says which states are in RAM; leave one of both out")
        for key in Config(**config).changed():
            if key not in (_KEYS if fields is None else _KEYS_OF_PLANS):
                of = "" if fields is None else " with fields"
                raise ConfigError(f"{key} has no effect on a GpuzipSchedule{of}, whose states pyadjoint stores: leave it out")
        config["range_actions"] = True
        if fields is None:
            with Schedule(max_n, **config) as schedule:
                self._steps = _read(schedule.actions())
                self._summary = schedule.summary()
            self._on_disk = _lightest(_lives(self._steps), ram)
        else:
            self._summary = plan(fields, max_n, backend="host", **config)
            self._steps = _read(_planned(fields, max_n, config, self._summary))
            self._on_disk = _longest(_lives(self._steps), self._summary)
        self._exhausted = False
        # Adjoint steps that are left in the calculation in progress, and whether one is being done.
        self._left, self._doing = 0, False

    def summary(self) -> Summary:
        """Returns gpuzip's counts. Time steps computed by checkpoint_schedules' actions are `max_n` more
        than `forward_steps`: each adjoint step has one that writes its data."""
        return self._summary

    def _iterator(self) -> Iterator[Any]:
        storage: Dict[int, Any] = {}
        saving: Any = None
        for action in self._steps:
            ts = action.ts
            if action.type == SAVE:
                if not action.last_use:
                    storage[ts] = saving = StorageType.DISK if action.it in self._on_disk else StorageType.RAM
            elif action.type == FORWARD:
                self._n = action.ts_end
                yield Forward(ts - 1, self._n, saving is not None, False, saving or StorageType.WORK)
                saving = None
            elif action.type == RESTORE:
                self._n = ts
                yield (Move if action.last_use else Copy)(ts, storage[ts], StorageType.WORK)
            elif action.type == BACKWARD:
                self._n = ts + 1
                # Working memory would do, but there pyadjoint drops what the step started from, and its
                # adjoint then reads the values of the control at which the tape was recorded.
                yield Forward(ts, ts + 1, False, True, StorageType.RAM)
                if action.first_backward:
                    yield EndForward()
                yield Move(ts, StorageType.RAM, StorageType.WORK)
                self._r += 1
                yield _Reverse(self, ts)
        self._exhausted = True
        yield EndReverse()

    @property
    def is_exhausted(self) -> bool:
        """Whether the schedule has concluded."""
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        """Whether data is stored in storage of this type."""
        return storage_type == StorageType.RAM or (storage_type == StorageType.DISK and bool(self._on_disk))


class _Reverse(Reverse):
    """An adjoint step that tells the schedule when it is done. pyadjoint keeps the actions of its first
    derivative and repeats them; where an exception ended it, these are not all."""

    def __init__(self, schedule: GpuzipSchedule, ts: int) -> None:
        super().__init__(ts + 1, ts, True)
        self._schedule = schedule

    def __iter__(self) -> Iterator[int]:
        schedule, ts = self._schedule, self.n0
        following = (schedule._left or schedule.max_n) - 1
        if schedule._doing or ts not in (following, schedule._left):
            raise StateError(
                "an adjoint calculation was left by an exception, and would now be done in part: "
                "record the tape again, with a new GpuzipSchedule"
            )
        schedule._doing = True
        yield ts
        schedule._left, schedule._doing = ts, False


# Some programs look at the name of an action's class, and `repr` prints it.
_Reverse.__name__ = _Reverse.__qualname__ = "Reverse"


def _planned(fields: Any, n: int, config: Dict[str, Any], summary: Summary) -> List[Action]:
    """The actions of a plan: from its numbers, or where these do not determine them (hrevolve) from a
    session, which has the memory of the plan as long as this takes."""
    keys = {"checkpointing_algorithm": algorithm_name(summary.algorithm), "schedule_chunk": summary.chunk}
    if keys["checkpointing_algorithm"] != "store-all":
        keys["checkpointing_snaps"] = summary.snapshots
    given = {key: value for key, value in config.items() if key in _KEYS}
    with Schedule(n, **{**given, **keys}) as schedule:
        found = schedule.summary()
        if all(getattr(found, name) == getattr(summary, name) for name in _COUNTS):
            return schedule.actions()
    with Session(fields, n, backend="host", **config) as session:
        return Schedule.of(session).actions()


class _Life(NamedTuple):
    """A stored state: the numbers of its SAVE and of its last RESTORE, its place (the lowest that is
    free), and how often it is written and read."""

    begin: int
    end: int
    place: int
    uses: int


def _lives(actions: List[Action]) -> List[_Life]:
    """The stored states, in the order in which they end."""
    live: Dict[int, _Life] = {}
    found = []
    for action in actions:
        if action.type == SAVE and not action.last_use:
            taken = {life.place for life in live.values()}
            place = next(place for place in range(len(taken) + 1) if place not in taken)
            live[action.ts] = _Life(action.it, action.it, place, 1)
        elif action.type == RESTORE:
            life = live.pop(action.ts)
            live[action.ts] = life._replace(end=action.it, uses=life.uses + 1)
            if action.last_use:
                found.append(live.pop(action.ts))
    return found


def _read(actions: List[Action]) -> List[Action]:
    """Returns the actions, or fails if a saved state is left without a time step."""
    for action, after in zip(actions, actions[1:]):
        if action.type == SAVE and not action.last_use and after.type != FORWARD:
            raise UnsupportedError(
                f"action {action.it} saves u({action.ts}), and the next is a {after.type.name}: "
                "checkpoint_schedules stores a state only with a time step from it; use the algorithm revolve"
            )
        if action.type == BACKWARD and action.ts_end != action.ts:
            raise UnsupportedError("adjoint_every: checkpoint_schedules has one adjoint step for each time step")
    return actions


def _lightest(lives: List[_Life], ram: Optional[int]) -> Set[int]:
    """The SAVEs to DISK: to all but the `ram` places with the most writes and reads (Stumm and Walther
    2009)."""
    weights: Dict[int, int] = {}
    for life in lives:
        weights[life.place] = weights.get(life.place, 0) + life.uses
    in_ram = set(sorted(weights, key=lambda place: (-weights[place], place))[:ram])
    return {life.begin for life in lives if life.place not in in_ram}


def _longest(lives: List[_Life], summary: Summary) -> Set[int]:
    """The SAVEs that go to disk in a session of this plan: of the states that host memory does not hold,
    those that are needed longest (docs/disk.md). Where these are more than the plan has room for on disk,
    it has no room for reading ahead: then as many states as it has on disk."""
    if not summary.disk_bytes:
        return set()
    room = summary.disk_bytes // (-(-summary.slot_bytes // 4096) * 4096)
    # Without four staging buffers, and two slots for states that a session reads ahead of their use.
    memory = summary.host_bytes // summary.slot_bytes - 4
    memory -= min(2, memory // 2)
    found: Set[int] = set()
    stored: List[Tuple[int, int]] = []
    for begin, end, *_ in sorted(lives):
        stored = [life for life in stored if life[0] > begin]
        stored.append((end, begin))
        if len(stored) > memory:
            longest = max(stored)
            stored.remove(longest)
            found.add(longest[1])
    on_disk = [life for life in lives if life.begin in found]
    changes = sorted([(life.begin, 1) for life in on_disk] + [(life.end, -1) for life in on_disk])
    most = max(accumulate(change for _, change in changes))
    return found if most <= room else _lightest(lives, summary.max_live - room)


class Actions(List[Tuple[int, ActionType]]):
    """Pairs of a time step and an action. `ram` and `disk` are the most states that the
    `CheckpointSchedule` stores at a time in RAM and on DISK."""

    ram = disk = 0

    def budgets(self, fields: Any) -> Dict[str, int]:
        """Returns `host_budget` and `disk_budget` of a session whose states have these `fields`: memory and
        disk for as many states as the `CheckpointSchedule` has there. The session decides which ones."""
        return budgets_of(fields, self.ram, self.disk)


def actions(schedule: Any, steps: Optional[int] = None) -> Actions:
    """Returns one adjoint calculation of a `CheckpointSchedule` as pairs of a time step and an action of
    gpuzip, for `gpuzip.write_trace` and `gpuzip.validate`. The schedule is used up by the call.

    `steps` is the number of time steps, for schedules that are not given it (`max_n` is None). Stored
    data of either kind, for forward restarts and for adjoint steps, is a saved state. Of RAM and DISK the
    numbers of states are kept (`Actions.budgets`). Time steps after the last state that an adjoint step or
    a stored state needs are left out.
    """
    n = schedule.max_n or steps
    if n is None or (steps is not None and steps != n):
        raise ArgumentError(f"steps = {steps}: the schedule has max_n = {schedule.max_n}; give the number of time steps")
    found, live = Actions(), 0
    stored: Dict[int, Any] = {}  # With the storage of each state.

    def at(ts: int, action: ActionType) -> None:
        """Computes u(ts) where it is not live, and then does the action."""
        nonlocal live
        if live > ts:
            found.append((ts, RESTORE))
        else:
            found.extend((k, FORWARD) for k in range(live + 1, ts + 1))
        live = ts
        found.append((ts, action))

    for action in schedule:
        if isinstance(action, Forward):
            end = min(action.n1, n)
            several = action.write_adj_deps and (action.storage != StorageType.WORK or end > action.n0 + 1)
            for ts in range(action.n0, end) if several else [action.n0] * bool(action.write_ics):
                if ts not in stored:
                    stored[ts] = action.storage
                    at(ts, SAVE)
            on_disk = sum(storage == StorageType.DISK for storage in stored.values())
            found.ram, found.disk = max(found.ram, len(stored) - on_disk), max(found.disk, on_disk)
            if end == n and schedule.max_n is None:
                schedule.finalize(n)
        elif isinstance(action, (Copy, Move)):
            if action.to_storage == StorageType.WORK:
                live = action.n
                if isinstance(action, Move) and found[-1:] == [(live, SAVE)]:
                    found.pop()  # The state is live, and is not needed again.
                else:
                    found.append((live, RESTORE))
            if isinstance(action, Move) and action.to_storage in (StorageType.WORK, StorageType.NONE):
                stored.pop(action.n, None)
            elif isinstance(action, Move):
                stored[action.n] = action.to_storage
        elif isinstance(action, Reverse):
            for ts in action:
                at(ts, BACKWARD)
        elif isinstance(action, EndReverse):
            found.append((0, TERMINATE))
            return found
        elif not isinstance(action, EndForward):
            raise ScheduleError(f"{action!r} is no action of checkpoint_schedules")
    raise ScheduleError("the schedule has no adjoint calculation, which ends with EndReverse")
