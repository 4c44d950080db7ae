"""The text of a summary, in the words and units of `gpuzip plan` and `gpuzip report`."""

import math
from typing import TYPE_CHECKING, Dict

from .config import name_of

if TYPE_CHECKING:
    from .records import Summary


def seconds(value: float) -> str:
    """Returns a duration with its unit."""
    units = ((3600.0, "h"), (1.0, "s"), (1e-3, "ms"))
    length, unit = next((it for it in units if value >= it[0]), (1e-6, "us"))
    return f"{value / length:.2f} {unit}"


def size(count: int) -> str:
    """Returns a number of bytes with a unit that is a power of 1024."""
    power = min((max(count, 1).bit_length() - 1) // 10, 5)
    return f"{count / 1024**power:.1f} {' KMGTP'[power]}iB" if power else f"{count} B"


def shown(it: "Summary") -> str:
    """Returns a schedule in one line, and below it a line for each number that tells of time, work or memory."""
    head = f"{name_of('checkpointing_algorithm', it.algorithm)}, n = {it.steps}, {it.snapshots} snapshots"
    rows: Dict[str, str] = {}
    if it.predicted_s:
        rows["predicted"] = seconds(it.predicted_s)
    if it.predicted_s and it.bound_s:
        # Rounded up, so that the plan is not farther from the bound than the text says.
        above = max(math.ceil((it.predicted_s / it.bound_s - 1.0) * 1e3 - 1e-6), 0) / 10.0
        rows["predicted"] += f", at most {above:.1f} % above any nested schedule"
    rows["forward steps"], rows["backward steps"] = str(it.forward_steps), str(it.backward_steps)
    rows["saves"], rows["restores"] = str(it.saves), str(it.restores)
    # A schedule without a session has no memory.
    if it.slot_bytes:
        stored = name_of("compressor", it.compressor) if it.compressor else "raw"
        head += f", cache of {it.cache} slots, {name_of('policy', it.policy)}, {stored}"
        head += f" but for {it.raw_slots} slots" if it.raw_slots else ""
        if it.cache and it.restores:
            rows["restores"] += f", {100.0 * it.hits / it.restores:.0f} % of them from the cache"
        rows["h2d"], rows["d2h"] = str(it.h2d), str(it.d2h)
        rows["snapshot"], rows["disk"] = size(it.slot_bytes), size(it.disk_bytes)
        for name, taken, budget in (("device", it.device_bytes, it.device_budget), ("host", it.host_bytes, it.host_budget)):
            rows[name] = size(taken) + (f" of {size(budget)}" if budget else "")
    return "\n".join([head] + [f"{name:14}  {text}" for name, text in rows.items()])
