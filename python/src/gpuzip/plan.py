"""Plans: what a session would decide and take, asked before it is made."""

from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Tuple

from . import _abi
from . import config as _config
from ._arrays import Field, fields_of, int32, typestr_of
from ._drawing import Drawn, Picture
from ._library import library
from ._records import filled
from .config import Config, name_of
from .errors import ArgumentError, DeviceError, OutOfMemoryError
from .records import Summary
from .schedule import Schedule
from .session import Arrays, Session, sequence

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys


# Members whose numbers have names, and the keys that name them.
_NAMED = {"algorithm": "checkpointing_algorithm", "policy": "policy", "compressor": "compressor"}


class Plan(Drawn, Summary):
    """What a session would decide: the members of `Summary`, and the schedule behind them. A notebook shows the
    drawing of a plan for the host."""

    _asked: Optional[Tuple[List[Field], int, Config]] = None

    def __repr__(self) -> str:
        names = {member: name_of(key, getattr(self, member)) for member, key in _NAMED.items()}
        parts = (f"{k}={v}" + (f" ({names[k]})" if k in names else "") for k, v in zip(self._fields, self))
        return f"Plan({', '.join(parts)})"

    def schedule(self) -> Schedule:
        """Returns the schedule of the plan. Its session is made for a moment: a plan for more memory than this machine
        has is an `OutOfMemoryError`, and one for a GPU that it has not a `DeviceError`."""
        if self._asked is None:
            raise ArgumentError("only a plan that gpuzip.plan has returned has a schedule")
        fields, steps, config = self._asked
        try:
            with Session(fields, steps, config) as session:
                return Schedule.of(session)
        except (DeviceError, OutOfMemoryError) as reason:
            raise type(reason)(
                f"the schedule of this plan is known where its session can be made: {reason}; elsewhere, "
                "`gpuzip plan --trace-out FILE` writes the schedule of such a plan"
            ) from None

    def _picture(self) -> Picture:
        return self.schedule()._picture()

    def _repr_svg_(self) -> Optional[str]:
        # A notebook that shows a plan must not take memory of a GPU.
        if self._asked is not None and self._asked[2].backend == "cuda":
            return None
        return super()._repr_svg_()


def plan(
    fields: Arrays,
    steps: int = 0,
    config: Optional[Config] = None,
    *,
    roles: Sequence[int] = (),
    **keys: "Unpack[ConfigKeys]",
) -> Plan:
    """Returns what `Session` with these arguments would decide, and allocates nothing: the schedule
    and its counts, transfers, bytes of device and host memory, the predicted time of a shot in
    seconds (`predicted_s`) and a lower bound of that time (`bound_s`).

    A `Field(shape=..., dtype=...)` stands for a field without memory. `profile_path` names the
    speeds that the prediction uses; without it they are typical of the backend.
    """
    made = fields_of(sequence(fields), False, roles=roles)
    config = _config.of(config, keys).copy()
    found = filled(
        Plan,
        _abi.gpuzip_summary_t,
        lambda raw: library.gpuzip_memory_required(
            config._struct, int32("steps", steps), made.array, made.count, raw
        ),
    )
    if config.backend == "fields":
        config.backend = "cuda" if made.device else "host"
    # Shapes and types are enough to ask again: the arrays are let go.
    parts = zip(made.found, made.array, made.orders)
    shapes = [Field(shape=f.shape or 1, dtype=typestr_of(f), role=raw.role, order=order) for f, raw, order in parts]
    found._asked = shapes, steps, config
    return found


def budgets_of(fields: Arrays, in_memory: int, on_disk: int) -> Dict[str, int]:
    """Returns `host_budget` and `disk_budget` for these numbers of snapshots on the host backend, staging
    buffers included."""
    here = plan(fields, 2, checkpointing_algorithm="revolve", checkpointing_snaps=1)
    if not on_disk:
        return {"host_budget": in_memory * here.slot_bytes}
    pages = -(-here.slot_bytes // 4096) * 4096
    return {"disk_budget": pages * on_disk, "host_budget": 4 * pages + 4096 + in_memory * here.slot_bytes}
