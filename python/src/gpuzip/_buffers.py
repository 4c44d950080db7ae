"""The states of a Revolver: in arrays that a Checkpoint names, or in buffers that operators are given."""

import copy
from typing import Any, Callable, List, Optional

import numpy as np

from ._arrays import Field


class Located:
    """The live state is in the arrays that `get_data` names, and operators compute in place."""

    def __init__(self, revolver: Any) -> None:
        self._revolver = revolver

    def fields(self) -> List[Any]:
        """The initial state as fields of a session."""
        return list(self._revolver.checkpoint.get_data(0))

    def leave(self) -> None:
        pass

    def begin(self, session: Any, first: Any) -> None:
        self._session, self._first, self._at = session, first, 0

    def save(self, ts: int) -> None:
        self.advance(ts)
        arrays = self._revolver.checkpoint.get_data(ts) if self._first is None else self._first
        self._session.save(ts, arrays)
        self._first = None

    def restore(self, ts: int) -> None:
        self._session.retrieve(ts, self._revolver.checkpoint.get_data_location(ts))
        self._at = ts

    def advance(self, to: int) -> None:
        if self._at < to:
            self._revolver.fwd_operator.apply(t_start=self._at, t_end=to)
            self._at = to

    finish = advance

    def reverse(self, ts: int) -> None:
        # The adjoint operator finds u(ts + 1), too, as in PyRevolve.
        self.advance(ts + 1)
        self._revolver.rev_operator.apply(t_start=ts, t_end=ts + 1)


class Buffered:
    """Operators read a state in one buffer, and write another one to a second buffer. With zero copy
    these are the memory of the session where a state is saved or restored; the others are two of its own."""

    def __init__(self, revolver: Any, initial: List[Any], asarray: Optional[Callable[[Any], Any]], is_one: bool) -> None:
        self._revolver, self._initial, self._is_one = revolver, initial, is_one
        self._asarray = asarray or (lambda memory: memory.array)
        self.live: List[Any] = initial
        self._own: List[Any] = [None, None]
        self._before: Any = None

    def fields(self) -> List[Any]:
        """The initial state as fields of a session. NumPy's arrays in Fortran order stay so."""

        def field(array: Any) -> Any:
            is_fortran = isinstance(array, np.ndarray) and array.flags.f_contiguous and not array.flags.c_contiguous
            return Field(array, order="F") if is_fortran else array

        return list(map(field, self._initial))

    def leave(self) -> None:
        """Lets go of memory of the session."""
        self.live, self._before = self._initial, None

    def begin(self, session: Any, _first: Any) -> None:
        self._session, self._at = session, 0
        self.leave()

    def save(self, ts: int) -> None:
        if not self._revolver.in_place:
            self.advance(ts)
            self._session.save(ts, self.live)
            return
        slot = self._session.save_begin(ts)
        arrays = self._arrays(slot)
        if self._at < ts:
            self._apply(ts, arrays)
        else:
            for to, of in zip(arrays, self.live):
                to[...] = of
            self.live = arrays
        slot.commit()

    def restore(self, ts: int) -> None:
        if self._revolver.in_place:
            self.live = self._arrays(self._session.retrieve_acquire(ts))
        else:
            self.live = self._spare()
            self._session.retrieve(ts, self.live)
        self._at, self._before = ts, None

    def advance(self, to: int) -> None:
        if self._at < to:
            self._apply(to, self._spare())

    def finish(self, to: int) -> None:
        self._step(to - 1)

    def reverse(self, ts: int) -> None:
        if self._before is None:
            self._step(ts)
        self._call(self._revolver.rev_operator, ts, ts + 1, self._before, self.live)
        self._before = None

    def _step(self, ts: int) -> None:
        """Computes u(ts + 1), and keeps u(ts) beside it."""
        self.advance(ts)
        before = self.live
        self._apply(ts + 1, self._spare())
        self._before = before

    def _apply(self, to: int, out: List[Any]) -> None:
        self._call(self._revolver.fwd_operator, self._at, to, self.live, out)
        self.live, self._at, self._before = out, to, None

    def _call(self, operator: Any, start: int, end: int, read: List[Any], write: List[Any]) -> None:
        read = [_read_only(array) for array in read]
        operator.apply(start, end, *((read[0], write[0]) if self._is_one else (read, write)))

    def _arrays(self, slot: Any) -> List[Any]:
        return [self._asarray(memory) for memory in slot]

    def _spare(self) -> List[Any]:
        """The own buffers that do not hold the live state."""
        k = int(self.live is self._own[0])
        if self._own[k] is None:
            self._own[k] = copy.deepcopy(self._initial)
        return self._own[k]  # type: ignore[no-any-return]


def _read_only(array: Any) -> Any:
    """The array for an operator that must not write to it."""
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array
