#!/usr/bin/env python3
"""sessions.py GPUZIP PROGRAM STEPS [few]: the shots of end_to_end.py, or a few of them, by rtm3d_cuda on the software
CUDA driver in virtual time, beside what `gpuzip plan` predicts for them, as JSON on standard output. GPUZIP is the
command's path; PROGRAM is rtm3d_cuda as c-examples/rtm3d_cuda/tests/end_to_end.rs builds it, whose libcuda is the software driver. Nothing
here was measured on a GPU.

The grid is small and flat, and every kernel, copy and transfer takes the time of one for the states of end_to_end.py: a
kernel by its name, a copy since the speeds are smaller by as much as the states are."""
import concurrent.futures
import functools
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import end_to_end
import roofline

GRID = ("--n1", 16, "--n2", 16, "--n3", 1, "--border", 4)
# For snapshots so small that headers count.
LARGER_GRID = ("--n1", 48, *GRID[2:])
# Codecs and columns of a few shots, all with the first GPU and the first budget.
FEW = [("raw", "hrevolve"), ("raw", "best, zero copy"), ("raw", "GPUZIP's Revolve"), ("bfp", "two-level"), ("cuszp", "uniform"), ("zfp", "GPUZIP's Revolve")]
# The error bounds of codecs whose snapshots have bytes that depend on the state. They are looser than in
# end_to_end.py, so that small snapshots, too, take no larger part of a state than planned. No time depends on them.
BOUNDS = {"cuszp": "1e-2", "lorenzo": "5e-2", "dct": "0.9"}
# Kernels that are launched once for both fields.
ONCE = ["snapshot_prepare", "snapshot_survey", "snapshot_decide", "snapshot_open", "snapshot_judge", "snapshot_conclude"]


def output(command, **variables):
    command = [str(word) for word in command]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


@functools.cache
def plans(gpuzip, node, budgets, codec, zero_copy):
    return end_to_end.plans(gpuzip, node[0], node[2], budgets, codec, zero_copy)


def published_uniform(steps, snapshots):
    """Returns the actions of Uniform as GPUZIP 2.x published it: snapshots at round(i n / s), halves to even; every
    BACKWARD restores the last snapshot and steps forward again."""
    starts = [round(i * steps / snapshots) for i in range(snapshots)]
    out = ["0 SAVE"]
    for ts in range(1, steps):
        out += [f"{ts} FORWARD"] + [f"{ts} SAVE"] * (ts in starts and ts < steps - 1)
    for ts in reversed(range(steps)):
        start = max(s for s in starts if s <= ts)
        if ts < steps - 1:
            out += [f"{start} RESTORE"] + [f"{step} FORWARD" for step in range(start + 1, ts + 1)]
        out.append(f"{ts} BACKWARD")
    return "\n".join(out + ["0 TERMINATE"]) + "\n"


def trace(gpuzip, plan, steps):
    """Returns the actions of the plan's schedule. `gpuzip schedule` makes the schedules of plans again, of nested ones
    those with a number of inner slots, as all here have."""
    if (plan["checkpointing_algorithm"], plan["policy"]) == ("uniform", "lru"):
        return published_uniform(steps, plan["checkpointing_snaps"])
    words = ["--algorithm", plan["checkpointing_algorithm"], "--steps", steps, "--snapshots", plan["checkpointing_snaps"]]
    for key, option in (("schedule_chunk", "--chunk"), ("inner", "--inner"), ("for_cache", "--for-cache")):
        if plan[key]:
            words += [option, plan[key]]
    return output([gpuzip, "schedule", *words, "--print"])


def copies(actions):
    """How many time levels rtm3d_cuda copies with zero copy: where it saves the state one step after it was given the
    state before, the previous time level lies in the memory of that one. State 0 is copied as a whole."""
    levels, forward = 0, 0
    for line in actions.splitlines():
        action = line.split()[1]
        levels += {0: 2, 1: 1}.get(forward, 0) if action == "SAVE" else 0
        forward = forward + 1 if action == "FORWARD" else 0
    return levels


def kernel_times(gpu, codec):
    """Seconds of a launch of each kernel that takes time, by its name. The launches for a snapshot share what the
    kernel takes for two fields: some kernels are launched once for both; encoders are launched for each field with
    the difference of the time levels and without it, and half of these launches are skipped."""
    forward, backward = roofline.step(gpu, end_to_end.CELLS)
    times = {"step2": forward, "correlate": backward - forward}
    for work in ("compress", "decompress") if codec else ():
        for name, part in roofline.kernels(codec[0], work, "f32", 3, codec[1]).items():
            both = 2 * (max(roofline.limits(part, gpu).values()) * end_to_end.CELLS + part["launches"] * roofline.LAUNCH)
            launches = 1 if name in ONCE else (4 if work == "compress" else 2) * part["launches"]
            times[name.replace("code_3", "code_2")] = both / launches
    return ",".join(f"{name}:{seconds:.9g}" for name, seconds in times.items())


def shot(command, steps, settings, variables):
    """Runs a shot. Returns what the program and the timeline say of it."""
    with tempfile.TemporaryDirectory() as folder:
        timeline = pathlib.Path(folder, "timeline.json")
        settings = {"backend": "cuda", "trace_out": timeline, **settings}
        variables = {**variables, **{f"GPUZIP_{key.upper()}": str(value) for key, value in settings.items()}}
        text = output([*command, "--steps", steps, "--shots", 1, "--json", "--out", f"{folder}/out"],
                      CUDA_EMU_MODE="timed", CUDA_EMU_MEMORY="4G", **variables)
        about = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["name"] == "shot"]
    return json.loads(text), about[-1]["args"]


@functools.cache
def bytes_of_snapshots(command, steps, settings, actions):
    """The average bytes of a snapshot that crosses the link, and of a raw one, in a shot with these settings and actions.
    Without actions, in a shot that stores every state; the first states, partly zero, take less and hardly
    count."""
    settings = dict(settings)
    with tempfile.TemporaryDirectory() as folder:
        if actions:
            settings["trace_file_path"] = pathlib.Path(folder, "schedule.trace")
            settings["trace_file_path"].write_text(actions)
        else:
            steps, settings["checkpointing_algorithm"] = 1000, "store-all"
        stats = shot(command, steps, settings, {})[0]
    # Where all snapshots stay on the device, none crosses the link.
    crossing = stats["d2h_bytes"] / stats["d2h"] if stats["d2h"] else stats["stored_bytes"] / stats["saves"]
    return crossing, stats["raw_bytes"] / stats["saves"]


@functools.cache
def needs(command, settings, device_budget):
    """The numbers of bytes in the error for a device budget that is too small."""
    variables = {f"GPUZIP_{key.upper()}": str(value) for key, value in dict(settings, backend="cuda", device_budget=device_budget).items()}
    with tempfile.TemporaryDirectory() as folder:
        words = [str(word) for word in [*command, "--steps", 40, "--out", folder]]
        error = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **variables}).stderr
    return [int(number) for number in re.findall(r"(\d+) bytes", error)]


FEWEST_RAW = 2  # the fewest raw states of a cache with mixed storage: LEAST_RAW in src/choice/storage.rs


def mixed(command, plan, coding, raw, stored):
    """Settings with the plan's number of raw slots, and with its number of coded slots or as many as there is room for: a
    session with a larger device budget would have one more raw slot. `cache_capacity` names the division with the fewest raw
    slots, whose coded ones have room for half as many bytes again as a snapshot takes on average."""
    coded, is_fewest = plan["cache_capacity"] - plan["raw_slots"], plan["raw_slots"] == FEWEST_RAW
    slot = 1.5 * stored if is_fewest else int((raw - 1) / max(coded - 2, 1)) // 256 * 256
    settings = {"mixed_storage": 1, "host_budget": 1 << 28, "compression_factor": max(1.001 * raw / slot, 1.001)}
    about = tuple({**coding, **settings, "checkpointing_algorithm": "store-all"}.items())
    beside = needs(command, about, 1)[-1]
    slot = needs(command, about, beside + 256)[-1]
    room = FEWEST_RAW * raw + coded * slot if is_fewest else (plan["raw_slots"] + 1) * raw + 2 * slot - 1
    return {**settings, "device_budget": int(beside + room)}


def session(program, steps, node, codec, plan, actions):
    """Runs a shot of a plan on a node's GPU and link in virtual time."""
    gpu, _, link = node
    command = (program, *(LARGER_GRID if codec and codec[0] == "dct" else GRID))
    coding = {"compressor": codec[0]} if codec else {}
    coding.update({"zfp_bit_rate": 8} if codec and codec[0] == "zfp" else {})
    coding.update({"error_bound": BOUNDS[codec[0]]} if codec and codec[0] in BOUNDS else {})
    stored, raw = bytes_of_snapshots(command, steps, tuple({"cache_capacity": 4, **coding}.items()), None)
    is_mixed = plan["stored"].endswith("mixed")
    settings = {"cache_capacity": plan["cache_capacity"], **coding, **(mixed(command, plan, coding, raw, stored) if is_mixed else {}),
                "checkpointing_algorithm": "trace", "policy": plan["policy"], "zero_copy": int(plan["zero_copy"])}
    if codec and codec[0] in BOUNDS:
        stored, raw = bytes_of_snapshots(command, steps, tuple(settings.items()), actions)
    # How much smaller snapshots are here: those that cross the link, and those that are copied on the device, which are
    # raw ones with mixed storage.
    crossing = stored * (roofline.ratio(codec[0], "f32", 3, codec[1]) if codec else 1.0) / end_to_end.STATE
    copied = crossing if codec and not is_mixed else raw / end_to_end.STATE
    within = roofline.DRAM * roofline.MACHINES[gpu][2] / 2
    speeds = ",".join(f"{speed * 1e9:.9g}" for speed in (link * crossing, link * crossing, within * copied))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "schedule.trace")
        file.write_text(actions)
        return shot(command, steps, {**settings, "trace_file_path": file}, {"CUDA_EMU_BANDWIDTH": speeds, "CUDA_EMU_KERNEL_TIMES": kernel_times(gpu, codec)})


def row(gpuzip, program, steps, cell):
    """Plays the shot of a cell of the tables. None: no schedule of the column fits the budgets."""
    node, budgets, codec, column = cell
    name, _, _, zero_copy = column
    gpu, link, _ = node
    plan = end_to_end.chosen(plans(gpuzip, node, budgets, codec, zero_copy), codec, column)
    if plan is None:
        return None
    actions = trace(gpuzip, plan, steps)
    stats, about = session(program, steps, node, codec, plan, actions)
    own = copies(actions) * end_to_end.STATE / 2 / (roofline.DRAM * roofline.MACHINES[gpu][2] / 2 * 1e9) if zero_copy else 0.0
    forward, backward = roofline.step(gpu, end_to_end.CELLS)
    ideal = steps * (forward + backward)
    return {"gpu": gpu, "link": link, "device_bytes": budgets[0], "codec": codec[0] if codec else "raw", "column": name,
            "schedule": plan["checkpointing_algorithm"], "stored": plan["stored"],
            "steps": steps, "predicted": plan["predicted_s"] / ideal, "session": about["makespan_s"] / ideal,
            "own_copies": own / ideal, "coding_s": [stats["compress"] / stats["saves"], stats["decompress"] / stats["restores"]],
            "planned_transfers": [plan["h2d"], plan["d2h"]], "transfers": [stats["h2d"], stats["d2h"]],
            "forward_step_s": [forward, stats["forward_step_seconds"]], "backward_step_s": [backward, stats["backward_step_seconds"]]}


def rows(gpuzip, program, steps, few):
    end_to_end.STEPS = steps
    cells = [(node, budgets, codec, column) for budgets in end_to_end.BUDGETS for node in end_to_end.NODES
             for codec in [None] + end_to_end.CODECS for column in end_to_end.COLUMNS
             if budgets == end_to_end.BUDGETS[0] or node[0] == "H100"]
    if few:
        cells = [cell for cell in cells if cell[:2] == (end_to_end.NODES[0], end_to_end.BUDGETS[0])
                 and (cell[2][0] if cell[2] else "raw", cell[3][0]) in FEW]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [row for row in pool.map(functools.partial(row, gpuzip, program, steps), cells) if row]


if __name__ == "__main__":
    lines = map(json.dumps, rows(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["few"]))
    print("[" + ",\n".join(lines) + "]")
