"""Schedules of gpuzip for programs of the package checkpoint_schedules, and its schedules for gpuzip.

`GpuzipSchedule` is a `CheckpointSchedule` with the actions of a gpuzip schedule, and `actions` returns the
actions of any `CheckpointSchedule` as gpuzip's, for `gpuzip.write_trace` and `gpuzip.validate`.
"""

from typing import Any, Dict, Iterator, List, Optional, Tuple

from checkpoint_schedules import (  # type: ignore[import-untyped]
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
from .records import Summary
from .schedule import Schedule


# The keys that change the actions of a schedule, and its log.
_KEYS = {
    "adjoint_every", "cache_capacity", "checkpointing_algorithm", "checkpointing_snaps", "log_level", "range_actions",
    "schedule_chunk", "snapshot_rule", "strict", "trace_file_path", "uniform_reading",
}  # fmt: skip


class GpuzipSchedule(CheckpointSchedule):  # type: ignore[misc]
    """The actions of gpuzip that reverse `max_n` time steps.

    `config` are keys of the configuration, such as `checkpointing_algorithm="revolve"` and
    `checkpointing_snaps=10`, as for `gpuzip.Schedule`. A state that gpuzip saves is forward restart data
    (`write_ics`). At most `ram` of these are in RAM at a time, those that are written and read most
    often, and the others on DISK; None: all are in RAM. RAM also has the data of one adjoint step at a
    time. One adjoint calculation is permitted.

    A schedule that saves a state and leaves it without a time step, which checkpoint_schedules cannot
    express, is an `UnsupportedError`. After an exception within an adjoint calculation the next one
    is a `StateError`: pyadjoint would repeat the part before the exception only.
    """

    def __init__(self, max_n: int, *, ram: Optional[int] = None, **config: Any) -> None:
        super().__init__(max_n)
        if max_n is None:
            raise ArgumentError("max_n is None: schedules of gpuzip need the number of time steps")
        if ram is not None and ram < 0:
            raise ArgumentError(f"ram = {ram}: use a number of states from 0 on, or None for all states")
        for key in Config(**config).changed():
            if key not in _KEYS:
                raise ConfigError(f"{key} has no effect on a GpuzipSchedule, whose states pyadjoint stores: leave it out")
        with Schedule(max_n, **{**config, "range_actions": True}) as schedule:
            self._steps = _read(schedule.actions())
            self._summary = schedule.summary()
        self._in_ram = _heaviest(self._steps, ram)
        self._exhausted = False
        # Adjoint steps that are left in the calculation in progress, and whether one is being done.
        self._left, self._doing = 0, False

    def summary(self) -> Summary:
        """Returns gpuzip's counts. Time steps computed by checkpoint_schedules' actions are `max_n` more
        than `forward_steps`: each adjoint step has one that writes its data."""
        return self._summary

    def _iterator(self) -> Iterator[Any]:
        places = _Places()
        saving: Any = None
        for action in self._steps:
            ts = action.ts
            if action.type == SAVE:
                if not action.last_use:
                    saving = self._storage(places.take(ts))
            elif action.type == FORWARD:
                self._n = action.ts_end
                yield Forward(ts - 1, self._n, saving is not None, False, saving or StorageType.WORK)
                saving = None
            elif action.type == RESTORE:
                self._n = ts
                from_storage = self._storage(places.of[ts])
                kind = Copy
                if action.last_use:
                    places.give_back(ts)
                    kind = Move
                yield kind(ts, from_storage, StorageType.WORK)
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

    def _storage(self, place: int) -> Any:
        return StorageType.RAM if place in self._in_ram else StorageType.DISK

    @property
    def is_exhausted(self) -> bool:
        """Whether the schedule has concluded."""
        return self._exhausted

    def uses_storage_type(self, storage_type: Any) -> bool:
        """Whether data is stored in storage of this type."""
        used = range(self._summary.max_live)
        return storage_type == StorageType.RAM or any(self._storage(place) == storage_type for place in used)


class _Reverse(Reverse):  # type: ignore[misc]
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


class _Places:
    """The place of each stored state: the lowest that is free."""

    def __init__(self) -> None:
        self.of: Dict[int, int] = {}

    def take(self, ts: int) -> int:
        taken = set(self.of.values())
        self.of[ts] = next(place for place in range(len(taken) + 1) if place not in taken)
        return self.of[ts]

    def give_back(self, ts: int) -> None:
        del self.of[ts]


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


def _heaviest(actions: List[Action], ram: Optional[int]) -> Any:
    """The places in RAM: the `ram` places with the most writes and reads (Stumm and Walther 2009)."""
    weights: Dict[int, int] = {}
    places = _Places()
    for action in actions:
        if action.type == SAVE and not action.last_use:
            place = places.take(action.ts)
        elif action.type == RESTORE:
            place = places.of[action.ts]
            if action.last_use:
                places.give_back(action.ts)
        else:
            continue
        weights[place] = weights.get(place, 0) + 1
    return set(sorted(weights, key=lambda place: (-weights[place], place))[:ram])


def actions(schedule: Any, steps: Optional[int] = None) -> List[Tuple[int, ActionType]]:
    """Returns one adjoint calculation of a `CheckpointSchedule` as pairs of a time step and an action of
    gpuzip, for `gpuzip.write_trace` and `gpuzip.validate`. The schedule is used up by the call.

    `steps` is the number of time steps, for schedules that are not given it (`max_n` is None). Stored
    data of either kind, for forward restarts and for adjoint steps, is a saved state, and RAM and DISK
    are one: where a state lies is decided by the budgets of the session. Time steps after the last state
    that an adjoint step or a stored state needs are left out.
    """
    n = schedule.max_n or steps
    if n is None or (steps is not None and steps != n):
        raise ArgumentError(f"steps = {steps}: the schedule has max_n = {schedule.max_n}; give the number of time steps")
    found: List[Tuple[int, ActionType]] = []
    live, stored = 0, set()

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
                    stored.add(ts)
                    at(ts, SAVE)
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
                stored.discard(action.n)
        elif isinstance(action, Reverse):
            for ts in action:
                at(ts, BACKWARD)
        elif isinstance(action, EndReverse):
            return [*found, (0, TERMINATE)]
        elif not isinstance(action, EndForward):
            raise ScheduleError(f"{action!r} is no action of checkpoint_schedules")
    raise ScheduleError("the schedule has no adjoint calculation, which ends with EndReverse")
