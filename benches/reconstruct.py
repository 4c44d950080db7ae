"""Measures rtm3d with states computed backward from strips, beside checkpointing within the same memory, a quarter of
it and four times as much, and prints a table for benches/results.

    python3 benches/reconstruct.py build/rtm3d [--runs R] [options of rtm3d]

Times are processor seconds of a migration on one thread, without modelling, since other work on the machine changes
them least. In each round every way runs once; a ratio is the median of the ratios within rounds. Errors are those of
the image relative to its norm, against the image of checkpointing, whose bits are those of keeping every state.
"""

import array
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile

STEP_BYTES = 256  # beside each snapshot, at most


def measured(program, options, folder, keys):
    """Returns what rtm3d tells of a run with these keys, and the processor seconds of the run."""
    environment = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **os.environ}
    environment.update({f"GPUZIP_{key.upper()}": str(value) for key, value in keys.items()})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [program, *options, "--shots", "1", "--json", "--out", folder]
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def image(folder):
    """Returns the image that a run wrote."""
    values = array.array("f")
    with open(os.path.join(folder, "image.f32"), "rb") as file:
        values.frombytes(file.read())
    return values


def main():
    program, options = sys.argv[1], sys.argv[2:]
    rounds = 3
    if options[:1] == ["--runs"]:
        rounds, options = int(options[1]), options[2:]
    with tempfile.TemporaryDirectory() as folder:
        first, _ = measured(program, [*options, "--reconstruct"], folder, {})
        steps, strips = first["steps"], first["raw_bytes"] + STEP_BYTES * first["saves"]
        ways = {
            "strips": (["--reconstruct"], {"cache_capacity": steps}),
            "strips, dct 1e-3": (["--reconstruct"], {"compressor": "dct", "error_bound": "1e-3"}),
            "checkpointing, the same memory": (["--zero-copy"], {"device_budget": int(strips)}),
            "checkpointing, a quarter of it": (["--zero-copy"], {"device_budget": int(strips / 4)}),
            "checkpointing, four times as much": (["--zero-copy"], {"device_budget": int(strips * 4)}),
        }
        told, seconds, images = {}, {way: [] for way in ways}, {}
        for _ in range(rounds):
            # A run that only models: the forward steps of the data, and all that is not migration.
            modelling = measured(program, [*options, "--dump-snapshots", str(steps - 1)], folder, {})[1]
            for way, (more, keys) in ways.items():
                told[way], spent = measured(program, [*options, *more], folder, keys)
                images[way] = image(folder)
                seconds[way].append(spent - modelling)
    exact = images["checkpointing, the same memory"]
    norm = math.sqrt(sum(v * v for v in exact))
    cells = " x ".join(str(first[n]) for n in ("n1", "n2", "n3"))
    print(f"{cells} cells, {steps} steps, medians of {rounds} rounds\n")
    print("| way | MB in memory | MB saved and restored | forward steps | s | over strips | image error |")
    print("|---|---|---|---|---|---|---|")
    for way, r in told.items():
        ratio = statistics.median(a / b for a, b in zip(seconds[way], seconds["strips"]))
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(exact, images[way]))) / norm
        moved = (r["saves"] + r["restores"]) * r["stored_bytes"] / r["saves"] / 1e6
        memory = (r["peak_device_bytes"] + r["peak_host_bytes"]) / 1e6
        spent = statistics.median(seconds[way])
        print(f"| {way} | {memory:.1f} | {moved:.1f} | {r['forward_steps']} | {spent:.2f} | {ratio:.2f} | {error:.1e} |")


main()
