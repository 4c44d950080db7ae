"""Times a gradient and Gauss-Newton products of cpml3d by several reverse sweeps over one forward run, and by a run
for each, in the same memory, and prints a table for benches/results.

    python3 benches/sweeps.py build/cpml3d [--cells N] [--steps N] [--products P] [--runs R]

Both ways are measured by the same process, one after the other. Their memory is that of a tenth of the states; with
a codec more of them, where the printed ratio says that these fit.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("cpml3d")
parser.add_argument("--cells", type=int, default=64, help="of a cube")
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--products", type=int, default=4, help="as many sweeps and one more")
parser.add_argument("--runs", type=int, default=3)
options = parser.parse_args()
sweeps = options.products + 1

# The settings of cpml3d; the first word is the codec. A bound of 1e-3 of the largest value gives gradients with errors
# of some percent, 1e-5 some 1e-4.
STORED = {
    "raw": "checkpointing_algorithm = revolve\ncheckpointing_snaps = {tenth}\n",
    "fp16": "checkpointing_algorithm = revolve\ncheckpointing_snaps = {fifth}\ncompressor = fp16\n",
    "dct 1e-3": "checkpointing_algorithm = store-all\ncompressor = dct\nerror_bound_mode = 0\nerror_bound = 1e-3\n",
}


def measured(folder, configuration):
    """Returns what cpml3d tells of a shot with this configuration."""
    file = os.path.join(folder, "sweeps.cfg")
    with open(file, "w") as out:
        out.write(configuration)
    cells = str(options.cells)
    command = [options.cpml3d, "--n1", cells, "--n2", cells, "--n3", cells, "--steps", str(options.steps), "--shots", "1"]
    command += ["--hessian", str(options.products), "--json", "--config", file, "--out", os.path.join(folder, "out")]
    # With a lossy codec the products are not symmetric to rounding, and the program says so.
    done = subprocess.run(command, stdout=subprocess.PIPE, env={"OMP_NUM_THREADS": "1", **os.environ}, check=False)
    return json.loads(done.stdout)


def main():
    print(f"cpml3d, {options.cells}^3 cells, {options.steps} steps, {sweeps} sweeps, medians of {options.runs} runs\n")
    print("| codec | ratio | forward steps | of runs of one sweep | s | s of runs of one sweep | ratio of times | spread |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in STORED.items():
            configuration = keys.format(tenth=options.steps // 10, fifth=options.steps // 5)
            runs = [measured(folder, configuration) for _ in range(options.runs)]
            found = runs[0]
            together, alone = ([run[key] for run in runs] for key in ("seconds", "seconds_alone"))
            ratios = [b / a for a, b in zip(together, alone)]
            coded = found["raw_bytes"] / found["stored_bytes"] if name != "raw" else 1.0
            print(
                f"| {name} | {coded:.1f} | {found['forward_steps']} | {found['forward_steps_alone']} "
                f"| {statistics.median(together):.2f} | {statistics.median(alone):.2f} | {statistics.median(ratios):.2f} "
                f"| {min(ratios):.2f} to {max(ratios):.2f} |",
                flush=True,
            )


main()
