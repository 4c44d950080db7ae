"""Plans: what a session would decide and take, asked before it is made."""

from typing import Any, Dict, Optional, Sequence

from . import _abi
from . import config as _config
from ._arrays import fields_of, int32
from ._library import library
from ._records import filled
from .config import Config
from .records import Summary
from .session import Arrays, sequence


def plan(
    fields: Arrays, steps: int = 0, config: Optional[Config] = None, *, roles: Sequence[int] = (), **keys: Any
) -> Summary:
    """Returns what `Session` with these arguments would decide, and allocates nothing: the schedule
    and its counts, transfers, bytes of device and host memory, the predicted time of a shot in
    seconds (`predicted_s`) and a lower bound of that time (`bound_s`).

    A `Field(shape=..., dtype=...)` stands for a field without memory. `profile_path` names the
    speeds that the prediction uses; without it they are typical of the backend.
    """
    made = fields_of(sequence(fields), False, roles=roles)
    struct = _config.of(config, keys)._struct
    return filled(
        Summary,
        _abi.gpuzip_summary_t,
        lambda raw: library.gpuzip_memory_required(
            struct, int32("steps", steps), made.array, made.count, raw
        ),
    )


def budgets_of(fields: Arrays, in_memory: int, on_disk: int) -> Dict[str, int]:
    """Returns `host_budget` and `disk_budget` for these numbers of snapshots on the host backend, staging
    buffers included."""
    here = plan(fields, 2, checkpointing_algorithm="revolve", checkpointing_snaps=1)
    if not on_disk:
        return {"host_budget": in_memory * here.slot_bytes}
    pages = -(-here.slot_bytes // 4096) * 4096
    return {"disk_budget": pages * on_disk, "host_budget": 4 * pages + 4096 + in_memory * here.slot_bytes}
