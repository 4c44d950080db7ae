"""Time and memory of gradients in JAX: gpuzip.jax.scan beside the hand-made ways, at many memories.

    python python/benches/jax_curve.py [--runs 5] [--small] [--types float64,float32] [--memories 10,20,40,60,100]
                                       [--plot FILE.svg] [PROBLEM ...]

A problem is a loop that XLA compiles whole, on one core. The ways are

- the plain jax.lax.scan, which keeps the residuals of every step,
- jax.checkpoint around scans in scans, of two to four levels: for each memory and number of levels the
  factorizations of the number of steps with the least and the most memory that should fit,
- the recursive checkpointing of Equinox, which diffrax uses,
- gpuzip.jax.scan with `memory=` so many states.

Memory is XLA's temporary memory of the compiled program, in states. A run is a process of its own; the ways take
turns, and a way's time is the median over the runs of the least of three calls, in processor time. Ways of hand that
another one beats in time and memory in the first turn are not run again. XLA asks glibc for the temporary memory anew
in each call, and the kernel clears it page by page or not at all, as glibc's limits have it from call to call: without
huge pages, which the runs switch on, the same program has two speeds up to 1.5 apart.
"""

import argparse
import functools
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
ENVIRONMENT = {"XLA_FLAGS": XLA, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "OMP_NUM_THREADS": "1"}


def roll_laplacian(jnp, u):
    return jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1) - 4 * u


def wave(jnp, np, dtype, small):
    """The wave of benches/results/adapters-epyc.md: 320 x 320 points, a restoring force, by initial wave and speeds."""
    points, steps = (16, 40) if small else (320, 400)
    x = jnp.linspace(-3, 3, points, dtype=dtype)
    start = jnp.exp(-4 * (x[:, None] ** 2 + x**2)), jnp.full((points, points), 0.2, dtype)

    def loss(scan, u, speed):
        force = jnp.asarray(1e-3, dtype)
        f = lambda s, _: ((2 * s[0] - s[1] + speed * roll_laplacian(jnp, s[0]) - force * jnp.sin(s[0]), s[0]), None)
        return jnp.sum(scan(f, (u, u), None, steps)[0][0] ** 2)

    return start, loss, steps, 2


def survey(jnp, np, dtype, small):
    """A 2-D wave of 1,000 steps on 128 x 128 points, with a source and a line of receivers."""
    points, steps = (16, 40) if small else (128, 1000)
    speed = jnp.asarray(np.random.default_rng(0).uniform(0.1, 0.3, (points, points)), dtype)
    start = jnp.zeros((points, points), dtype), speed
    source = jnp.asarray(np.sin(np.arange(steps) * 0.05), dtype)

    def loss(scan, u, speed):
        def f(state, x):
            after = (2 * state[0] - state[1] + speed * roll_laplacian(jnp, state[0])).at[points // 2, 4].add(x)
            return (after, state[0]), after[:, -5]

        return jnp.sum(scan(f, (u, u), source, steps)[1] ** 2)

    return start, loss, steps, 2


def neural(jnp, np, dtype, small):
    """A neural ODE, by its initial values and weights: 64 values for each of 64 cases, one hidden layer."""
    width, steps = (8, 40) if small else (64, 400)
    draw = np.random.default_rng(0)
    make = lambda *shape: jnp.asarray(draw.normal(size=shape) / np.sqrt(shape[0]), dtype)
    start = make(width, width), (make(width, 4 * width), make(4 * width, width))

    def loss(scan, y, weights):
        dt = jnp.asarray(1 / steps, dtype)
        f = lambda y, _: (y + dt * (jnp.tanh(y @ weights[0]) @ weights[1]), None)
        return jnp.sum(scan(f, y, None, steps)[0] ** 2)

    return start, loss, steps, 1


def tiny(jnp, np, dtype, small):
    """The Lorenz equations, 10^5 Euler steps, by three initial values and three parameters."""
    steps = 100 if small else 100_000
    start = jnp.ones(3, dtype), jnp.asarray([10.0, 28.0, 8 / 3], dtype)

    def loss(scan, y, p):
        def f(y, _):
            slope = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
            return y + jnp.asarray(1e-5, dtype) * jnp.stack(slope), None

        return jnp.sum(scan(f, y, None, steps)[0] ** 2)

    return start, loss, steps, 1


PROBLEMS = {"wave": wave, "survey": survey, "neural": neural, "tiny": tiny}


def in_scans(sizes):
    """jax.lax.scan as scans in scans, each inner one under jax.checkpoint."""
    import jax

    def level(f, sizes):
        if len(sizes) == 1:
            return lambda s, x: jax.lax.scan(f, s, x, sizes[0])
        inner = jax.checkpoint(level(f, sizes[1:]), prevent_cse=False)

        def run(s, x):
            x = jax.tree.map(lambda a: a.reshape(sizes[0], -1, *a.shape[1:]), x)
            s, y = jax.lax.scan(inner, s, x, sizes[0])
            return s, jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), y)

        return run

    return lambda f, init, xs, _: level(f, sizes)(init, xs)


def scan_of(way, state):
    import jax

    kind, _, number = way.partition(" ")
    if kind == "plain":
        return jax.lax.scan
    if kind == "checkpoint":
        return in_scans([int(k) for k in number.split("x")])
    if kind == "equinox":
        import equinox.internal

        return functools.partial(
            lambda f, init, xs, n, **means: equinox.internal.scan(f, init, xs, n, **means),
            kind="checkpointed", checkpoints=int(number),
        )  # fmt: skip
    import gpuzip.jax

    return functools.partial(gpuzip.jax.scan, memory=int(number) * state)


def bytes_of(tree):
    import jax

    return sum(x.nbytes for x in jax.tree.leaves(tree))


def run_one(problem, dtype, way, small):
    """In a process of its own: compiles and runs one way, and prints what it took."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    start, loss, _, levels = PROBLEMS[problem](jnp, np, dtype, small)
    state = levels * bytes_of(start[0])
    begin = time.process_time()
    gradient = jax.jit(jax.grad(functools.partial(loss, scan_of(way, state)), (0, 1))).lower(*start).compile()
    compiled = time.process_time() - begin
    memory, calls = gradient.memory_analysis().temp_size_in_bytes / state, []
    for _ in range(4):
        begin = time.process_time()
        found = jax.block_until_ready(gradient(*start))
        calls.append(time.process_time() - begin)
    norms = [float(jnp.linalg.norm(x)) for x in jax.tree.leaves(found)]
    print(json.dumps({"time": min(calls[1:]), "memory": memory, "compile": compiled, "norms": norms}))


def measured(problem, dtype, way, small):
    words = [sys.executable, __file__, problem, "--types", dtype, "--way", way, *["--small"] * small]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT})
    if done.returncode != 0:
        raise SystemExit(f"{problem}, {way}: the run failed")
    return json.loads(done.stdout.splitlines()[-1])


def factorizations(n, levels):
    if levels == 1:
        return [(n,)]
    return [(k, *rest) for k in range(2, n) if n % k == 0 for rest in factorizations(n // k, levels - 1) if rest[0] > 1]


def ways_of(n, memories):
    """The ways to compare: for scans in scans, those that should fit each memory."""
    found = []
    for levels, memory in itertools.product((2, 3, 4), memories):
        fit = sorted(sizes for sizes in factorizations(n, levels) if sum(sizes) <= 1.2 * memory)
        if fit:
            found += [max(fit, key=sum), min(fit, key=sum)]
    ways = ["plain", *(f"checkpoint {'x'.join(map(str, sizes))}" for sizes in dict.fromkeys(found))]
    return ways + [f"{kind} {memory}" for kind in ("equinox", "gpuzip") for memory in memories]


def compare(problem, dtype, options):
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    import numpy as np

    n = PROBLEMS[problem](jnp, np, dtype, options.small)[2]
    ways, results = ways_of(n, [int(m) for m in options.memories.split(",")]), {}
    for turn in range(options.runs):
        for way in ways:
            results.setdefault(way, []).append(measured(problem, dtype, way, options.small))
        if turn == 0:
            first = {way: found[0] for way, found in results.items()}
            beaten = lambda a: any(b["time"] < 0.95 * a["time"] and b["memory"] <= a["memory"]
                                   for w, b in first.items() if w.startswith("checkpoint"))  # fmt: skip
            ways = [way for way in ways if not way.startswith("checkpoint") or not beaten(first[way])]
    rows = []
    exact = results["plain"][0]["norms"]
    for way in ways:
        times = [found["time"] for found in results[way]]
        last = results[way][0]
        difference = max(abs(a - b) / abs(b) for a, b in zip(last["norms"], exact))
        if difference > (1e-9 if dtype == "float64" else 1e-3):
            raise SystemExit(f"{problem}, {way}: the gradient's norm differs by {difference:.0e}")
        compiled = statistics.median(found["compile"] for found in results[way])
        rows.append((way, last["memory"], statistics.median(times), min(times), max(times), compiled))
    return rows


def ratios(rows):
    """For each of gpuzip's rows the best time of others in at most as much memory, as ratios."""
    for way, memory, seconds, *_ in rows:
        if way.startswith("gpuzip"):
            others = {}
            for kind in ("checkpoint", "equinox"):
                times = [row[2] for row in rows if row[0].startswith(kind) and row[1] <= 1.02 * memory]
                others[kind] = seconds / min(times) if times else math.nan
            yield way, memory, others["checkpoint"], others["equinox"]


def draw(tables, file):
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot, ticker

    matplotlib.rcParams["svg.hashsalt"] = "gpuzip"
    size = {"figsize": (3.3 * len(tables), 3.4), "layout": "constrained", "squeeze": False}
    figure, axes = pyplot.subplots(1, len(tables), **size)
    kinds = {
        "plain": ("ks", "jax.lax.scan"),
        "checkpoint": ("C1o", "jax.checkpoint by hand"),
        "equinox": ("C2^-", "Equinox, recursive"),
        "gpuzip": ("C0D-", "gpuzip.jax.scan"),
    }
    for axis, ((problem, dtype), rows) in zip(axes[0], tables.items()):
        plain = next(row[2] for row in rows if row[0] == "plain")
        for kind, (mark, name) in kinds.items():
            points = sorted((row[1], row[2] / plain) for row in rows if row[0].startswith(kind))
            axis.plot(*zip(*points), mark, label=name, markersize=5)
        axis.set(xscale="log", yscale="log", title=f"{problem}, {dtype}", xlabel="temporary memory, states")
        axis.grid(True, which="both", alpha=0.25)
        for line, digits in ((axis.xaxis, (1, 3)), (axis.yaxis, (1, 1.5, 2, 3, 5))):
            low, high = line.get_view_interval()
            line.set_major_locator(ticker.LogLocator(subs=digits if high < 50 * low else (1,)))
            line.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
            line.set_minor_formatter(ticker.NullFormatter())
    axes[0][0].set_ylabel("time, of that of jax.lax.scan")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", help=", ".join(PROBLEMS))
    parser.add_argument("--types", default="float64", help="float64, float32 or both, with a comma")
    parser.add_argument("--memories", default="10,20,40,60,100", help="in states, with commas")
    parser.add_argument("--runs", type=int, default=5, help="processes of each way")
    parser.add_argument("--small", action="store_true", help="small problems")
    parser.add_argument("--plot", help="file for a picture; needs matplotlib")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for problem in options.problems:
        if problem not in PROBLEMS:
            parser.error(f"{problem}: none of the problems {', '.join(PROBLEMS)}")
    if options.way:
        return run_one(options.problems[0], options.types, options.way, options.small)
    tables = {}
    for dtype in options.types.split(","):
        for problem in options.problems or PROBLEMS:
            rows = tables[problem, dtype] = compare(problem, dtype, options)
            print(f"| {problem}, {dtype} | memory, states | time, s | least to most, s | compile time, s |")
            print("|---|---|---|---|---|")
            for way, memory, seconds, least, most, compiled in rows:
                print(f"| {way} | {memory:.1f} | {seconds:.4f} | {least:.4f} to {most:.4f} | {compiled:.2f} |")
            print("\nTime of gpuzip over that of the best other way in at most as much memory:\n")
            print("| gpuzip, memory= | memory, states | over jax.checkpoint | over Equinox |\n|---|---|---|---|")
            for way, memory, checkpoint, equinox in ratios(rows):
                print(f"| {way.split()[1]} states | {memory:.1f} | {checkpoint:.2f} | {equinox:.2f} |")
            print(flush=True)
    if options.plot:
        draw(tables, Path(options.plot))


if __name__ == "__main__":
    main()
