#!/usr/bin/env python3
"""What keeping every state costs: warm shots of rtm3d (the second and later ones; the first one touches all memory
for the first time) with one OpenMP thread and one that codes, beside store-all with every state raw in memory.

    python3 benches/warm.py build/rtm3d MODELS [--shots 4] [--only NAME] [--setting NAME]

MODELS is a folder with marmousi2_1700x350_10m_vp.f32 and overthrust_2p5d_96x28x64_30m_vp.f32 (raw FP32, depth
fastest); the third model is the built-in salt dome. Needs 13 GB of memory, two idle cores and the library that
rtm3d was linked with. A line per setting: seconds of a shot (median), over raw states, over the steps alone
(those of the raw shots), seconds that saves and restores took, the part of the time in which a thread coded (the
calling one or one beside it), the memory that snapshots held as a part of that of all raw states, and the relative
L2 error of the filtered image.
"""

import argparse
import array
import csv
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

# Name, time steps and options of rtm3d.
MODELS = [
    ("marmousi2 2-D", 1200, ["--model", "marmousi2_1700x350_10m_vp.f32", "--n1", "350", "--n2", "1700", "--dx", "10"]),
    (
        "overthrust 2.5-D",
        1200,
        ["--model", "overthrust_2p5d_96x28x64_30m_vp.f32", "--n1", "64", "--n2", "28", "--n3", "96", "--dx", "30"],
    ),
    ("salt dome 3-D", 500, ["--n1", "80", "--n2", "80", "--n3", "80"]),
]

CODED = "shared_levels = 1\ncodec_threads = 1\ncompressor = "
LORENZO = CODED + "lorenzo\nerror_bound = 9e-4\ncompression_factor = 24\n"
DCT = CODED + "dct\nerror_bound = 7e-4\ncompression_factor = 24\n"
SEQUENCES = CODED + "dct\nsequences = 1\nerror_bound = 6e-4\ncompression_factor = "
ZERO_COPY = "zero_copy = 1\n"
# Name, share of the memory of all states, keys.
SETTINGS = [
    ("raw", 1.01, ""),
    ("raw, zero copy", 1.01, ZERO_COPY),
    ("lorenzo", 1 / 20, LORENZO),
    ("lorenzo, zero copy", 1 / 20, LORENZO + ZERO_COPY),
    ("dct", 1 / 20, DCT),
    ("dct, zero copy", 1 / 20, DCT + ZERO_COPY),
    ("dct, no thread", 1 / 20, DCT.replace("threads = 1", "threads = -1")),
    ("sequences", 1 / 60, SEQUENCES + "80\n"),
    ("sequences, zero copy", 1 / 60, SEQUENCES + "80\n" + ZERO_COPY),
    ("sequences", 1 / 140, SEQUENCES + "184\n"),
    ("sequences, bound 8e-4", 1 / 180, SEQUENCES.replace("6e-4", "8e-4") + "300\n"),
]


def run(rtm3d, options, scratch, keys):
    """Returns what rtm3d says, the rows of the log of its shots and the folder of its images, or the error text."""
    config, log, out = (os.path.join(scratch, name) for name in ("keys.cfg", "shots.csv", "out"))
    with open(config, "w") as file:
        file.write("checkpointing_algorithm = store-all\nenable_performance_log = 1\n" + keys)
    if os.path.exists(log):
        os.remove(log)
    environment = dict(os.environ, GPUZIP_PERFORMANCE_LOG=log, OMP_NUM_THREADS="1")
    command = [rtm3d, *options, "--config", config, "--out", out, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        return None, None, done.stderr.strip().splitlines()[-1]
    with open(log) as file:
        return json.loads(done.stdout), list(csv.DictReader(file)), out


def image(folder):
    """The values of the filtered image."""
    values = array.array("f")
    with open(os.path.join(folder, "image_filtered.f32"), "rb") as file:
        values.frombytes(file.read())
    return values


def difference(a, b):
    """The relative L2 error of `a`."""
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b)) / sum(y * y for y in b))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rtm3d")
    parser.add_argument("models")
    parser.add_argument("--shots", type=int, default=4)
    parser.add_argument("--only", default="", help="the model whose name begins so")
    parser.add_argument("--setting", default="", help="beside raw states the settings whose names begin so")
    arguments = parser.parse_args()
    rtm3d = os.path.abspath(arguments.rtm3d)
    for name, steps, options in MODELS:
        if not name.startswith(arguments.only):
            continue
        options = [os.path.join(arguments.models, o) if o.endswith(".f32") else o for o in options]
        options = options + ["--steps", str(steps), "--shots", str(arguments.shots)]
        raw = None
        with tempfile.TemporaryDirectory() as scratch:
            result, rows, text = run(rtm3d, options + ["--shots", "1", "--steps", "20"], scratch, "")
            if result is None:
                sys.exit(text)
            states = int(rows[0]["raw_bytes"]) / int(rows[0]["saves"]) * steps
            print(f"{name}: {steps} steps, all states {states / 1e9:.2f} GB", flush=True)
            for setting, share, keys in SETTINGS:
                if raw and not setting.startswith(arguments.setting):
                    continue
                keys += f"host_budget = {int(states * share)}\n"
                result, rows, out = run(rtm3d, options, scratch, keys)
                label = f"  {setting:21} 1/{1 / share:<5.3g}"
                if result is None:
                    print(f"{label} {out}", flush=True)
                    continue
                warm = [{k: float(row[k]) for k in ("forward", "backward", "save", "restore")} for row in rows[1:]]
                seconds = statistics.median(sum(row.values()) for row in warm)
                if raw is None:
                    alone = statistics.median(row["forward"] + row["backward"] for row in warm)
                    raw = (seconds, alone, image(out))
                moved = [statistics.median(row[k] for row in warm) for k in ("save", "restore")]
                coding = statistics.median(float(row["compress"]) + float(row["decompress"]) for row in rows[1:])
                held = int(rows[-1]["peak_host_bytes"]) + int(rows[-1]["peak_device_bytes"])
                print(
                    f"{label} {seconds:7.2f} s, over raw {seconds / raw[0]:.2f}, over the steps {seconds / raw[1]:.2f};"
                    f" saves {moved[0]:.2f} s, restores {moved[1]:.2f} s, coding {coding / seconds:.0%}; held 1/{states / held:.0f};"
                    f" image {difference(image(out), raw[2]):.2%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
