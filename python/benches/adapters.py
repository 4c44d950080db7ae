"""Compares each adapter with what its framework offers: time, memory, lines of code, gradient.

    python python/benches/adapters.py [--small] [--runs 5] [NAME or FILE.py ...]

A name is that of a file in the folder adapters; without names all are measured, and a framework that is
not installed is skipped by name. Each file has

- WAYS, names of ways and functions without arguments: each computes the same gradient and returns it as
  an array; the first one keeps every state, and its gradient is the one to compare with,
- DIGITS, the digits in which the gradients agree at least: the relative error of the largest value may be
  10^-DIGITS, and 300 asks for equal bits,
- baseline(), which imports the framework and does once what every way needs,
- VERSIONS, and SMALL, the values of its constants for a small problem.

A run is a process of its own on one core, the ways take turns, and the table has the median of the runs. A
run calls its way twice: the first call compiles, and the second is measured. Its time is processor time,
which other processes disturb least. Its peak memory is that of the second call, above the process's memory
after baseline(), in a further run in which glibc gives freed arrays back to the system at once: what the
allocator holds without use is not counted. The lines of a way are those of its function, without comments.
The exit status is 1 if gradients do not agree.
"""

import argparse
import ctypes
import gc
import importlib.util
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "adapters"
XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
# The allocator of glibc gives arrays of this size and larger ones back at once.
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536"}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "XLA_FLAGS": XLA}


def module_of(file, small):
    spec = importlib.util.spec_from_file_location("benchmark_of_" + file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if small:
        vars(module).update(module.SMALL)
    return module


def memory(kind):
    """Bytes of this process: VmRSS, or VmHWM, the peak."""
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(kind))


def settle():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def run_one(module, way, output):
    """A run, in this process: writes the gradient to a file, and prints seconds and peak memory."""
    import numpy as np

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    module.baseline()
    settle()
    before = memory("VmRSS")
    module.WAYS[way]()
    settle()
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again at VmRSS.
    begin = time.process_time()
    gradient = module.WAYS[way]()
    seconds = time.process_time() - begin
    print(json.dumps([seconds, memory("VmHWM") - before]))
    np.save(output, gradient, allow_pickle=False)


def measured(file, way, options, folder, **environment):
    words = [sys.executable, __file__, str(file), "--way", way, "--output", f"{folder}/gradient.npy"]
    words += ["--small"] * options.small
    environment = {**os.environ, **ONE_THREAD, **environment}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{file.stem}, {way}: the run failed")
    return json.loads(done.stdout.splitlines()[-1])


def agreement(found, expected, digits):
    """What the table says of a gradient, and whether it agrees."""
    import numpy as np

    if found.dtype == expected.dtype and found.tobytes() == expected.tobytes():
        return "equal bits", True
    error = float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))
    return f"{error:.0e}", error <= 10.0**-digits


def lines_of(function):
    lines = [line.strip() for line in inspect.getsource(function).splitlines()]
    return sum(bool(line) and not line.startswith(("#", '"""')) for line in lines)


def compare(file, options):
    """Measures the ways of a file and prints the table. Returns whether the gradients agree."""
    import numpy as np

    module = module_of(file, options.small)
    times, peaks, gradients = {way: [] for way in module.WAYS}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for way in module.WAYS:
            _, peaks[way] = measured(file, way, options, folder, **GIVE_BACK)
        for _ in range(options.runs):
            for way in module.WAYS:
                times[way].append(measured(file, way, options, folder)[0])
                gradients[way] = np.load(f"{folder}/gradient.npy")
    first = gradients[next(iter(gradients))]
    print(f"| {file.stem} | time, s | peak memory, MB | lines | gradient |\n|---|---|---|---|---|")
    agree = bool(np.isfinite(first).all() and np.any(first))
    for way, function in module.WAYS.items():
        text, good = ("–", True) if gradients[way] is first else agreement(gradients[way], first, module.DIGITS)
        agree = agree and good
        seconds = statistics.median(times[way])
        print(f"| {way} | {seconds:.2f} | {peaks[way] / 1e6:.0f} | {lines_of(function)} | {text} |")
    print(f"\n{module.VERSIONS}; {processor()}; median of {options.runs} runs on one core.\n", flush=True)
    return agree


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else os.uname().machine}, {os.cpu_count()} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--small", action="store_true", help="a small problem, once")
    parser.add_argument("--runs", type=int, help="of each way: 5, small 1")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--output", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.runs = (1 if options.small else 5) if options.runs is None else options.runs
    if options.runs < 1:
        parser.error(f"--runs {options.runs}: at least 1")
    known = sorted(file.stem for file in FOLDER.glob("*.py"))
    for name in options.names:
        if name not in known and not (name.endswith(".py") and Path(name).is_file()):
            parser.error(f"{name}: no such file, and none of the adapters {', '.join(known)}")
    names = options.names or known
    files = [Path(name) if name.endswith(".py") else FOLDER / f"{name}.py" for name in names]
    if options.way:
        return run_one(module_of(files[0], options.small), options.way, options.output)
    disagree = []
    for file in files:
        try:
            if not compare(file, options):
                disagree.append(file.stem)
        except ImportError as reason:
            print(f"skipped: {file.stem}: {reason}\n", flush=True)
    if disagree:
        raise SystemExit(f"the gradients of {', '.join(disagree)} do not agree")


if __name__ == "__main__":
    main()
