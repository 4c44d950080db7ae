"""Actions: what the application must do next."""

import enum
from typing import NamedTuple, Tuple

from . import _abi


class ActionType(enum.IntEnum):
    """The kind of an action. The states of a run of n steps are u(0), ..., u(n)."""

    FORWARD = _abi.ACTION_FORWARD
    """Compute u(ts), ..., u(ts_end) from u(ts-1); `ts_end` is `ts` without `range_actions`."""
    SAVE = _abi.ACTION_SAVE
    """u(ts) is live: call `Session.save`."""
    RESTORE = _abi.ACTION_RESTORE
    """Call `Session.retrieve`; u(ts) is live afterwards."""
    BACKWARD = _abi.ACTION_BACKWARD
    """u(ts) is live: do the adjoint of the step ts -> ts+1; with `adjoint_every`, of the steps
    ts_end -> ts_end+1, ..., ts -> ts+1, in this order."""
    TERMINATE = _abi.ACTION_TERMINATE
    """The shot is over. Loops over a session end before it."""


FORWARD, SAVE, RESTORE, BACKWARD, TERMINATE = ActionType
_KINDS: Tuple[ActionType, ...] = tuple(ActionType)


class Action(NamedTuple):
    """What the application must do next."""

    type: ActionType
    """FORWARD, SAVE, RESTORE, BACKWARD or TERMINATE."""
    ts: int
    """The time step of the state that the action produces or needs, 0 to n."""
    ts_end: int
    """The last time step that the action covers; `ts` for actions of one step."""
    flags: int
    """FLAG_* combined with bitwise or; the properties below read them."""
    it: int
    """Number of this action since the start of the shot; the first action is 0."""

    @property
    def recompute(self) -> bool:
        """FORWARD: these steps were computed before in this shot; do not record receivers again."""
        return bool(self.flags & _abi.FLAG_RECOMPUTE)

    @property
    def first_backward(self) -> bool:
        """BACKWARD: the first one of the reverse sweep."""
        return bool(self.flags & _abi.FLAG_FIRST_BACKWARD)

    @property
    def last_use(self) -> bool:
        """RESTORE: no later action needs the snapshot. SAVE: no action will restore it."""
        return bool(self.flags & _abi.FLAG_LAST_USE)

    @property
    def next_is_save(self) -> bool:
        """FORWARD: the next action saves the state that this action computes."""
        return bool(self.flags & _abi.FLAG_NEXT_IS_SAVE)

    @property
    def interrupt(self) -> bool:
        """A stop of the process was requested."""
        return bool(self.flags & _abi.FLAG_INTERRUPT)

    @property
    def shared_level(self) -> bool:
        """With `zero_copy` and `shared_levels`: the memory that the session hands out for the previous
        time level of the state is that of the state before, and holds it already. Do not write
        there, not even after `last_use`."""
        return bool(self.flags & _abi.FLAG_SHARED_LEVEL)


def action_of(raw: _abi.gpuzip_action_t) -> Action:
    """Returns the action of a C struct."""
    return Action(_KINDS[raw.type], raw.ts, raw.ts_end, raw.flags, raw.it)
