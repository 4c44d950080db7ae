#!/usr/bin/env python3
"""end_to_end.py GPUZIP [--print]: a shot of rtm3d_cuda at the size of GPUZIP's Salt data set, predicted for every
schedule and codec by `gpuzip plan` (GPUZIP is the command's path) with the speeds of roofline.py, as
benches/results/end-to-end.md, with the shots that were played (sessions.py). `make end-to-end` writes the file.
Nothing here was measured."""
import json
import pathlib
import statistics
import subprocess
import sys

import roofline

STEPS = 3751
STATE = 0.92e9  # bytes: two time levels in FP32
CELLS = STATE / 8
# GPU, link, GB/s each way: 80 % of the peak of PCIe with 16 lanes and of NVLink-C2C.
NODES = [("A100-80", "PCIe 4", 25), ("H100", "PCIe 5", 50), ("GH200", "NVLink-C2C", 360)]
# Bytes for snapshots in device memory, and in host memory per GPU.
BUDGETS = [(4 * STATE, 128e9), (60e9, 128e9)]
CODECS = [("zfp", "-"), ("fp16", "-"), ("bfp", "-"), ("cuszp", "1e-3"), ("lorenzo", "1e-3"), ("dct", "1e-3")]
ALGORITHMS = ["revolve", "hrevolve", "two-level", "zcut", "uniform", "store-all"]

# Of each column the name, the algorithm (None: the best one), the policy, and whether the application computes in the slots.
COLUMNS = [(algorithm, algorithm, "clairvoyant", False) for algorithm in ALGORITHMS]
COLUMNS += [("best, zero copy", None, "clairvoyant", True), ("GPUZIP's Revolve", "revolve", "lru", False), ("GPUZIP's Uniform", "uniform", "lru", False)]


def plans(gpuzip, gpu, link, budgets, codec, zero_copy):
    """The plans that `gpuzip plan` ranks, the quickest one first: raw ones, and ones with the codec if there is
    one."""
    forward, backward = roofline.step(gpu, CELLS)
    copy = roofline.DRAM * roofline.MACHINES[gpu][2] / 2  # a copy reads and writes
    command = [gpuzip, "plan", "--json", "--all", "--steps", STEPS, "--state-bytes", f"{STATE:.0f}",
               "--forward-ms", f"{forward * 1e3:.4f}", "--backward-ms", f"{backward * 1e3:.4f}", "--link-gbs", link,
               "--d2d-gbs", f"{copy:.0f}", "--device-budget", f"{budgets[0]:.0f}", "--host-budget", f"{budgets[1]:.0f}"]
    if codec:
        name, bound = codec
        speeds = [roofline.speed(name, work, "f32", 3, bound, gpu, CELLS) for work in ("compress", "decompress")]
        command += ["--ratio", f"{roofline.ratio(name, 'f32', 3, bound):.2f}", "--codec-gbs", "{:.1f},{:.1f}".format(*speeds)]
    if zero_copy:
        command.append("--zero-copy")
    result = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return json.loads(result.stdout)["ranked"]


def chosen(ranked, codec, column):
    """The plan of a column with the least time, of the plans with the codec (of the raw ones without a codec); None
    if there is none."""
    _, algorithm, policy, _ = column
    fitting = [plan for plan in ranked if algorithm in (None, plan["checkpointing_algorithm"]) and plan["policy"] == policy
               and (plan["stored"] == "raw") == (codec is None)]
    return min(fitting, key=lambda plan: plan["predicted_s"], default=None)


def least(ranked, codec, column):
    """The time over ideal of the plan of a column; None if there is none."""
    plan = chosen(ranked, codec, column)
    return plan and plan["over_problem_ideal"]


def off(row):
    """By how much, in percent, a played shot takes longer than predicted, without what rtm3d_cuda itself copies."""
    return 100 * (row["session"] / (row["predicted"] + row["own_copies"]) - 1)


def played():
    """The shots that were played in virtual time: their times, and how far they are from what was predicted."""
    rows = json.loads((roofline.ROOT / "benches/results/sessions.json").read_text())
    names = [name for name, *_ in COLUMNS]
    out = PLAYED.format(steps=rows[0]["steps"], copies=max(row["own_copies"] for row in rows), shots=len(rows))
    kinds = {}
    for row in rows:
        stored = "raw" if row["codec"] == "raw" else "mixed storage" if row["stored"].endswith("mixed") else "coded"
        kinds.setdefault((stored, row["column"] == "best, zero copy"), []).append(row)
    out += roofline.row("snapshots", "shots", "least difference", "mean", "greatest", "the shot farthest from its prediction", "shots with other transfers than planned") + roofline.row(*["---"] * 7)
    for (stored, in_place), group in kinds.items():
        differences, last = [off(row) for row in group], max(group, key=lambda row: abs(off(row)))
        out += roofline.row(stored + (", zero copy" if in_place else ""), len(group), *(f"{of(differences):+.2f} %" for of in (min, statistics.mean, max)),
                            f"{last['gpu']}, {last['codec']}, {last['column']} ({off(last):+.2f} %)", sum(row["transfers"] != row["planned_transfers"] for row in group))
    for budgets in BUDGETS:
        for gpu, link, _ in NODES:
            if not any((row["gpu"], row["device_bytes"]) == (gpu, budgets[0]) for row in rows):
                continue
            of_node = {(row["codec"], row["column"]): row for row in rows if (row["gpu"], row["device_bytes"]) == (gpu, budgets[0])}
            out += f"\n### Played: {gpu}, {link}, {budgets[0] / 1e9:.1f} GB of device memory for snapshots\n\n"
            out += roofline.row("snapshots", *names) + roofline.row(*["---"] * (1 + len(names)))
            for codec in ["raw"] + [name for name, _ in CODECS]:
                cells = [of_node.get((codec, name)) for name in names]
                out += roofline.row(codec, *(f"{row['session']:.2f}" if row else "" for row in cells))
    return out


def page(gpuzip):
    out, over = HEAD, {"revolve": [], "uniform": []}
    out += roofline.row("GPU, link", "forward step, ms", "backward step, ms", "transfer of a raw state, ms", "copy within the device, ms", "ideal, s") + roofline.row(*["---"] * 6)
    for gpu, link, speed in NODES:
        forward, backward = roofline.step(gpu, CELLS)
        copy = STATE / (roofline.DRAM * roofline.MACHINES[gpu][2] / 2 * 1e9)
        out += roofline.row(f"{gpu}, {link}", f"{forward * 1e3:.2f}", f"{backward * 1e3:.2f}", f"{STATE / speed / 1e6:.1f}", f"{copy * 1e3:.2f}", f"{STEPS * (forward + backward):.1f}")
    out += ASSUMPTIONS
    for budgets in BUDGETS:
        for gpu, link, speed in NODES:
            out += f"\n### {gpu}, {link}, {budgets[0] / 1e9:.1f} GB of device memory for snapshots\n\n"
            out += roofline.row("snapshots", *(name for name, *_ in COLUMNS)) + roofline.row(*["---"] * (1 + len(COLUMNS)))
            for codec in [None] + CODECS:
                ranked = [plans(gpuzip, gpu, speed, budgets, codec, zero_copy) for zero_copy in (False, True)]
                times = [least(ranked[column[3]], codec, column) for column in COLUMNS]
                best = min(time for column, time in zip(COLUMNS, times) if time and column[2:] == ("clairvoyant", False))
                for algorithm, ratios in over.items():
                    ratios.append(next(time for column, time in zip(COLUMNS, times) if column[1:3] == (algorithm, "lru")) / best)
                out += roofline.row(codec[0] if codec else "raw", *(f"{time:.2f}" if time else "" for time in times))
    ranges = {algorithm: f"{min(times):.1f} to {max(times):.1f}" for algorithm, times in over.items()}
    return out + SAYS.format(**ranges) + played() + CONFIRM


HEAD = f"""# A shot end to end, predicted

A shot of `c-examples/rtm3d_cuda` at the size of GPUZIP's Salt data set: {STEPS} time steps, states of {STATE / 1e9:.2f} GB (two time levels in FP32).
No GPU was used. Every time on this page is *predicted*: `gpuzip plan` plays each plan with the library's own engine on a device of
clocks, whose kernels take what [the roofline](roofline.md) says. `make end-to-end` writes the page.

Times are over the ideal: the time of {STEPS} forward and {STEPS} backward steps alone.

"""

ASSUMPTIONS = f"""
| what | assumed | from |
| --- | --- | --- |
| forward step | one `step3` on {CELLS / 1e6:.0f} million cells | the roofline; injection and recording take nothing |
| backward step | one `step3` for the adjoint field, and `correlate` | the roofline; the state is at hand |
| coding | the sum of the codec's kernels over both time levels, each as a field of its own | the roofline, FP32 in 3-D, bound 1e-3; zfp with 8 bits per value |
| ratio | that of the counted fields: {", ".join(f"{name} {roofline.ratio(name, 'f32', 3, bound):.1f}" for name, bound in CODECS)} | [counts](kernel-counts.txt); wavefields differ ([Compression](../../docs/compression.md)) |
| link | {", ".join(f"{link} {speed} GB/s" for _, link, speed in NODES)}, each way, both ways at once | 80 % of the peak; the page does not model that LPDDR5X, the memory of a GH200's CPU, serves about 384 to 500 GB/s for reading and writing together, so copies both ways at once are slower there than predicted |
| copies within the device | {roofline.DRAM:.0%} of DRAM's peak, read and written | |
| kernels and copies | do not slow each other down | |
| device memory for snapshots | {BUDGETS[0][0] / 1e9:.2f} GB (4 raw slots, as GPUZIP had) and {BUDGETS[1][0] / 1e9:.0f} GB (an 80 GB device) | |
| host memory for snapshots | {BUDGETS[0][1] / 1e9:.0f} GB per GPU | |
| GPUZIP's recipe | Revolve with 8 snapshots by its rule, or Uniform; LRU replacement and its prefetching (PSA) | `policy = lru`; the same kernels and links as ours, and copies that do not block |

## Times over ideal

An empty cell: the schedule does not fit. "best, zero copy": the application computes in the slots (`rtm3d_cuda` does with `zero_copy`), the best
schedule. Rows of codecs are plans that use the codec, for all snapshots or for those that go to the host (mixed storage).
"""

SAYS = """
## What the tables say

- At equal memory, codec and link, and without zero copy, GPUZIP's Revolve takes {revolve} times as long as the best schedule here, and its
  Uniform {uniform} times.
- With the memory of a whole 80 GB device, raw snapshots are as good as compressed ones within some percent: coding a state takes
  longer than a step, and few snapshots move. With zero copy only the recomputed steps remain.
- With 4 slots on PCIe, fast codecs with mixed storage are ahead where the application copies: `bfp`, whose error is fixed, then
  `cuszp`. With zero copy, raw snapshots in a nested schedule are; a codec then needs two of the four slots as working memory.
- On NVLink-C2C no codec gains more than a few percent.
- `dct`, with the best ratio, is too slow for steps as short as these: it is for slower steps, or memory that holds little.
"""

PLAYED = """
## Shots that were played

{shots} shots were also *played*: every cell of the tables for 4 slots, and of the table for 60 GB on H100. `c-examples/rtm3d_cuda` as it is,
with its kernels and those of the library, took all {steps} time steps with the plan of the cell on the
[software CUDA driver](../../docs/testing.md), in virtual time. The grid is small and flat. Each kernel takes, by its name, what the
roofline says of one for the large state; each copy and each transfer takes what it would take there, since the speeds are smaller by as much as the states are. So the numbers are those of the sequence of driver calls that the library and
the program really make, with their waits. They are *predicted* as the others: no GPU was used, and a call takes the host no time.

| what | assumed in addition |
| --- | --- |
| coding | the launches for a snapshot share what the kernels take for two time levels; the half of an encoder's launches that is skipped takes nothing |
| sizes of coded snapshots | those of this small wavefield, with links that are as much slower as the codec makes its snapshots smaller, on average; `cuszp`, `lorenzo` and `dct` with looser bounds |
| mixed storage | as many raw slots as planned; coded snapshots find less room than planned where the headers of small snapshots count, so that shots have other transfers, which the table below counts |
| transfers | in one piece, not in chunks of 64 MiB: `tests/cuda/links.rs` has the chunks |

The first table has the differences of the played times from the predicted ones. With zero copy, the time that `rtm3d_cuda` itself copies counts
as predicted ({copies:.3f} of the ideal at most): one time level for every state that is saved one step after another one, and state 0. The
predictions do not know two more things: a coded snapshot leaves for the host two saves later, when its size is known; and with zero
copy the program asks for a slot one step before the last, since it computes both time levels of a state there.

"""

CONFIRM = """
## What a first run on a GPU must confirm

1. The codecs' speeds beside the roofline, `dct` and `lorenzo` first: whether 60 % of the issue slots are reached (`gpu-bundle/run kernels`).
2. The time of `step3` and `correlate` at this size (`rtm3d_cuda --bench`), which all times over ideal have in the denominator.
3. The link each way and both ways at once, with page-locked memory, beside a running `step3`: whether 80 % of the peak holds and
   how much copies slow kernels down.
4. Whether saves of coded snapshots wait for nothing on the host (`stall` of the bundle): the predictions have no host time.
5. One shot of each of: GPUZIP's Revolve with LRU, `auto` with copies, `auto` with zero copy, each with `gpuzip report` beside its prediction.
6. The ratios on the run's own wavefields (`gpuzip_autotune`).
7. That a copy on another stream goes between two chunks of a transfer (64 MiB), as simulator and software driver assume: a small copy beside a large transfer.
"""

if __name__ == "__main__":
    text = page(sys.argv[1])
    if "--print" in sys.argv:
        print(text, end="")
    else:
        (roofline.ROOT / "benches/results/end-to-end.md").write_text(text)
