"""Measures what the Python loop costs beside the C loop: the same shot in both, in turns.

    python python/benches/overhead.py [steps] [repetitions]

A step and an adjoint step are a C function that spins for 1 ms; in a second measurement they do
nothing, which gives the microseconds per action. The C loop is compiled with cc.

Where PyTorch is installed, the loop of gpuzip.torch.scan is measured beside a plain loop over the same
steps, on one core, in processor time: with a step of one operation and with one of ten, on 8 values each.
"""

import array
import ctypes
import importlib.util
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gpuzip
from gpuzip._library import library

SOURCE = r"""
#include <gpuzip.h>
#include <time.h>

void spin(double seconds)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double end = t.tv_sec + 1e-9 * t.tv_nsec + seconds;
  while (seconds > 0 && t.tv_sec + 1e-9 * t.tv_nsec < end) clock_gettime(CLOCK_MONOTONIC, &t);
}

int64_t shot(gpuzip_t *session, double *u, uint64_t values, double seconds)
{
  gpuzip_field_t state = {u, values, 1, 1, GPUZIP_TYPE_F64, 0, 0, 0, {0}};
  gpuzip_action_t action;
  do {
    if (gpuzip_get_action(session, &action) < 0) return -1;
    if (action.type == GPUZIP_ACTION_SAVE && gpuzip_save(session, action.ts, &state, 1, 0) < 0) return -1;
    if (action.type == GPUZIP_ACTION_RESTORE && gpuzip_retrieve(session, action.ts, &state, 1, 0) < 0) return -1;
    if (action.type == GPUZIP_ACTION_FORWARD || action.type == GPUZIP_ACTION_BACKWARD) spin(seconds);
  } while (action.type != GPUZIP_ACTION_TERMINATE);
  return action.it;
}
"""
VALUES = 1000


def compiled(folder):
    root = Path(__file__).resolve().parents[2]
    source, result = Path(folder) / "loop.c", Path(folder) / "loop.so"
    source.write_text(SOURCE)
    # The library's symbols are those of the library that this process has open.
    words = ["cc", "-O2", "-shared", "-fPIC", f"-I{root / 'include'}", str(source), "-o", str(result)]
    subprocess.run([*words, library._name], check=True)
    loop = ctypes.CDLL(str(result))
    loop.shot.restype = ctypes.c_int64
    loop.shot.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_double]
    loop.spin.argtypes = [ctypes.c_double]
    loop.spin.restype = None
    return loop


def in_c(loop, session, u, seconds):
    return loop.shot(session._handle, u.buffer_info()[0], VALUES, seconds)


def in_python(loop, session, u, seconds):
    spin = loop.spin
    for action in session:
        if action.type == gpuzip.FORWARD or action.type == gpuzip.BACKWARD:
            spin(seconds)
        elif action.type == gpuzip.SAVE:
            session.save(action.ts, u)
        elif action.type == gpuzip.RESTORE:
            session.retrieve(action.ts, u)
    return action.it + 1


def measure(loop, steps, repetitions, seconds):
    """Returns the actions of a shot and the median seconds of the C loop and of the Python loop."""
    u = array.array("d", bytes(8 * VALUES))
    times = {in_c: [], in_python: []}
    with gpuzip.Session(
        u, steps, checkpointing_algorithm="revolve", checkpointing_snaps=10, backend="host"
    ) as session:
        for _ in range(repetitions):
            for shot in times:
                session.setup()
                begin = time.perf_counter()
                actions = shot(loop, session, u, seconds)
                times[shot].append(time.perf_counter() - begin)
    return actions, statistics.median(times[in_c]), statistics.median(times[in_python])


def torch_steps():
    """Names of time steps in PyTorch, the steps, and functions that return initial state and parameter."""
    import torch

    def vector(value):
        return torch.full((8,), value, dtype=torch.float64, requires_grad=True)

    def wave(state, t, speed):
        u, before = state
        return 2 * u - before + speed * (torch.roll(u, 1) - 2 * u + torch.roll(u, -1)), u

    yield "one operation", lambda u, t, c: u * c, lambda: (vector(1.0), vector(0.99))
    yield "ten operations", wave, lambda: ((vector(1.0),) * 2, vector(0.2))


def torch_sweeps(scan, step, start, steps, **keys):
    """Processor seconds of a forward and of a reverse sweep."""
    import torch

    state, parameter = start()
    begin = time.process_time()
    last = scan(step, state, steps, parameter, **keys)
    value = sum(map(torch.sum, last)) if isinstance(last, tuple) else torch.sum(last)
    middle = time.process_time()
    if value.requires_grad:
        value.backward()
    return middle - begin, time.process_time() - middle


def measure_torch(steps, repetitions):
    import torch

    import gpuzip.torch

    def plain(step, state, n, *params):
        for t in range(n):
            state = step(state, t, *params)
        return state

    def median(*arguments, grad=True, **keys):
        with torch.set_grad_enabled(grad):
            found = [torch_sweeps(*arguments, steps, **keys) for _ in range(repetitions)]
        return [1e6 * statistics.median(each) / steps for each in zip(*found)]

    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {steps} steps, us per time step")
    for name, step, start in torch_steps():
        bare, loop = median(plain, step, start, grad=False), median(plain, step, start)
        ours = median(gpuzip.torch.scan, step, start, grad=False)
        kept = median(gpuzip.torch.scan, step, start, checkpointing_algorithm="store-all")
        # The reverse sweep of gpuzip computes the step again.
        print(f"  {name}, no state kept     plain {bare[0]:5.1f}, scan {ours[0]:5.1f}, above {ours[0] - bare[0]:5.1f}")
        print(f"  {name}, forward and save  plain {loop[0]:5.1f}, scan {kept[0]:5.1f}, above {kept[0] - loop[0]:5.1f}")
        twice = sum(loop)
        print(f"  {name}, step and reverse  plain {twice:5.1f}, scan {kept[1]:5.1f}, above {kept[1] - twice:5.1f}")


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    repetitions = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        loop = compiled(folder)
        actions, c, python = measure(loop, steps, repetitions, 1e-3)
        print(f"1 ms per step, {steps} steps, {actions} actions")
        print(f"  C       {c:.4f} s")
        print(f"  Python  {python:.4f} s, {100 * (python / c - 1):.2f} % more")
        actions, c, python = measure(loop, 20 * steps, 2 * repetitions + 1, 0.0)
        print(f"empty steps, {actions} actions of {20 * steps} steps")
        print(f"  C       {1e6 * c / actions:.3f} us per action")
        print(f"  Python  {1e6 * python / actions:.3f} us per action")
    if importlib.util.find_spec("torch"):
        measure_torch(2 * steps, 2 * repetitions + 1)


if __name__ == "__main__":
    main()
