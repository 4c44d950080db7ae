#!/usr/bin/env python3
"""sessions.py GPUZIP PROGRAM STEPS [GPU]: shots of rtm3d_cuda on the software CUDA driver in virtual time, beside what
`gpuzip plan` predicts for them, as JSON on standard output. GPUZIP is the command's path; PROGRAM is rtm3d_cuda as
tests/end_to_end.rs builds it, whose libcuda is the software driver. Nothing here was measured on a GPU.

The grid is small and flat, and every kernel, copy and transfer takes the time of one for the states of end_to_end.py: a
kernel by its name, a copy since the speeds are smaller by as much as the states are."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import end_to_end
import roofline

GRID = ["--n1", 16, "--n2", 16, "--n3", 1, "--border", 4]
# What each shot stores, with which schedule: codec and bound, whether the application computes in the slots, and the
# algorithm and policy; None: the best schedule.
SHOTS = [
    ("best, copies", None, False, None, "clairvoyant"),
    ("best, zero copy", None, True, None, "clairvoyant"),
    ("GPUZIP's Revolve", None, False, "revolve", "lru"),
    ("best, copies", ("bfp", "-"), False, None, "clairvoyant"),
    ("best, copies", ("cuszp", "1e-3"), False, None, "clairvoyant"),
    ("GPUZIP's Revolve", ("zfp", "-"), False, "revolve", "lru"),
]
# The last two shots are played with the slowest link alone.
PLAYED = {"A100-80": SHOTS, "H100": SHOTS[:4], "GH200": SHOTS[:4]}
# Kernels that are launched once for both fields.
ONCE = ["snapshot_prepare", "snapshot_survey", "snapshot_decide", "snapshot_open", "snapshot_judge", "snapshot_conclude"]
BUDGET = end_to_end.BUDGETS[0]


def output(command, **variables):
    command = [str(word) for word in command]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables})
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def chosen(plans, codec, algorithm, policy):
    """The fastest of the plans that store all snapshots raw, or use the codec, for all snapshots or for those that
    go to the host. The plans of which `gpuzip schedule` can make the schedule again: of nested ones those with a
    number of inner slots."""
    def fits(plan):
        is_nested = plan["checkpointing_algorithm"] in ("hrevolve", "two-level")
        return ((plan["stored"] == "raw") == (codec is None) and plan["policy"] == policy and (plan["inner"] or not is_nested)
                and algorithm in (None, plan["checkpointing_algorithm"]))
    return min(filter(fits, plans), key=lambda plan: plan["makespan_s"])


def trace(gpuzip, plan, steps, file):
    """Writes the actions of the plan's schedule."""
    words = ["--algorithm", plan["checkpointing_algorithm"], "--steps", steps, "--snapshots", plan["checkpointing_snaps"]]
    for key, option in (("schedule_chunk", "--chunk"), ("inner", "--inner"), ("for_cache", "--for-cache")):
        if plan[key]:
            words += [option, plan[key]]
    file.write_text(output([gpuzip, "schedule", *words, "--print"]))


def copies(file):
    """How many time levels rtm3d_cuda copies with zero copy: where it saves the state one step after it was given the
    state before, the previous time level lies in the memory of that one. State 0 is copied as a whole."""
    levels, forward = 0, 0
    for line in file.read_text().splitlines():
        action = line.split()[1]
        levels += {0: 2, 1: 1}.get(forward, 0) if action == "SAVE" else 0
        forward = forward + 1 if action == "FORWARD" else 0
    return levels


def kernel_times(gpu, codec):
    """Seconds of a launch of each kernel that takes time, by its name. The launches for a snapshot share what the
    kernel takes for two fields: some kernels are launched once for both; encoders are launched for each field with
    the difference of the time levels and without it, of which half are skipped."""
    forward, backward = roofline.step(gpu, end_to_end.CELLS)
    times = {"step2": forward, "correlate": backward - forward}
    for work in ("compress", "decompress") if codec else ():
        for name, part in roofline.kernels(codec[0], work, "f32", 3, codec[1]).items():
            both = 2 * (max(roofline.limits(part, gpu).values()) * end_to_end.CELLS + part["launches"] * roofline.LAUNCH)
            launches = 1 if name in ONCE else (4 if work == "compress" else 2) * part["launches"]
            times[name.replace("code_3", "code_2")] = both / launches
    return ",".join(f"{name}:{seconds:.9g}" for name, seconds in times.items())


def shot(program, steps, settings, variables):
    """Runs a shot. Returns what the program and the timeline say of it."""
    with tempfile.TemporaryDirectory() as folder:
        timeline = pathlib.Path(folder, "timeline.json")
        settings = {"backend": "cuda", "trace_out": timeline, **settings}
        variables = {**variables, **{f"GPUZIP_{key.upper()}": str(value) for key, value in settings.items()}}
        text = output([program, *GRID, "--steps", steps, "--shots", 1, "--json", "--out", f"{folder}/out"],
                      CUDA_EMU_MODE="timed", CUDA_EMU_MEMORY="4G", **variables)
        about = [event for event in json.loads(timeline.read_text())["traceEvents"] if event["name"] == "shot"]
    return json.loads(text), about[-1]["args"]


def short(steps, codec, settings):
    """The steps and the settings of a shot that shows the bytes of snapshots. Only cuszp's depend on the states."""
    if codec and codec[0] == "cuszp":
        return steps, settings
    return 40, {**settings, "checkpointing_algorithm": "revolve", "checkpointing_snaps": 20, "zero_copy": 0}


def session(program, steps, node, codec, settings):
    """Runs a shot on a node's GPU and link in virtual time."""
    gpu, _, link = node
    if codec:
        settings = {**settings, "compressor": codec[0]}
        settings.update({"zfp_bit_rate": 8} if codec[0] == "zfp" else {})
        settings.update({"error_bound": codec[1]} if codec[1] != "-" else {})
    # How much smaller snapshots are here: those that cross the link, and those that are copied on the device. Their
    # sizes depend on the states alone.
    ratio = roofline.ratio(codec[0], "f32", 3, codec[1]) if codec else 1.0
    stats = shot(program, *short(steps, codec, settings), {})[0]
    crossing = stats["d2h_bytes"] / stats["d2h"] / (end_to_end.STATE / ratio)
    copied = crossing if codec and "mixed_storage" not in settings else stats["raw_bytes"] / stats["saves"] / end_to_end.STATE
    within = roofline.DRAM * roofline.MACHINES[gpu][2] / 2
    speeds = ",".join(f"{speed * 1e9:.9g}" for speed in (link * crossing, link * crossing, within * copied))
    return shot(program, steps, settings, {"CUDA_EMU_BANDWIDTH": speeds, "CUDA_EMU_KERNEL_TIMES": kernel_times(gpu, codec)})


def row(gpuzip, program, steps, node, what):
    name, codec, zero_copy, algorithm, policy = what
    gpu, link, speed = node
    end_to_end.STEPS = steps
    plan = chosen(end_to_end.plans(gpuzip, gpu, speed, BUDGET, codec, zero_copy), codec, algorithm, policy)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "schedule.trace")
        trace(gpuzip, plan, steps, file)
        settings = {"checkpointing_algorithm": "trace", "trace_file_path": file, "cache_capacity": plan["cache_capacity"],
                    "policy": policy, "zero_copy": int(zero_copy)}
        if plan["stored"].endswith("mixed"):
            # More room than all slots take: the number of slots alone decides which ones are raw.
            settings.update({"mixed_storage": 1, "device_budget": 1 << 28, "host_budget": 1 << 28, "compression_factor": roofline.ratio(codec[0], "f32", 3, codec[1])})
        stats, about = session(program, steps, node, codec, settings)
        own = copies(file) * end_to_end.STATE / 2 / (roofline.DRAM * roofline.MACHINES[gpu][2] / 2 * 1e9) if zero_copy else 0.0
    forward, backward = roofline.step(gpu, end_to_end.CELLS)
    ideal = steps * (forward + backward)
    return {"gpu": gpu, "link": link, "codec": codec[0] if codec else "raw", "what": name, "schedule": plan["checkpointing_algorithm"], "stored": plan["stored"],
            "steps": steps, "predicted": plan["makespan_s"] / ideal, "session": about["makespan_s"] / ideal,
            "own_copies": own / ideal, "coding_s": [stats["compress"] / stats["saves"], stats["decompress"] / stats["restores"]],
            "planned_transfers": [plan["h2d"], plan["d2h"]], "transfers": [stats["h2d"], stats["d2h"]],
            "forward_step_s": [forward, stats["forward_step_seconds"]], "backward_step_s": [backward, stats["backward_step_seconds"]]}


def rows(gpuzip, program, steps, gpu=None):
    nodes = [node for node in end_to_end.NODES if gpu in (None, node[0])]
    return [row(gpuzip, program, steps, node, what) for node in nodes for what in PLAYED[node[0]]]


if __name__ == "__main__":
    print(json.dumps(rows(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]), indent=1))
