"""The gradient of one shot in Devito: every state stored, PyRevolve's checkpoints, gpuzip's.

    python python/benches/adapters/devito.py full_storage|pyrevolve|gpuzip|gpuzip_budget

Prints one line of JSON: the norm of the gradient with all digits, which no way may change, the median
seconds of five shots, after a first one that compiles, and the process's peak memory in MiB up to the
end of the first shot. 2-D acoustic, 401 x 401 points with the absorbing layer, 632 time levels, FP64.
"""

import functools
import gc
import json
import resource
import statistics
import sys
import time

sys.path.pop(0)  # The folder of this file, in which `import devito` would find this file.


@functools.lru_cache(None)
def problem():
    import numpy as np
    from devito import configuration
    from examples.seismic.acoustic.acoustic_example import acoustic_setup

    configuration["log-level"] = "ERROR"
    size = {"shape": (361, 361), "spacing": (10.0, 10.0), "nbl": 20, "tn": 1000.0}
    solver = acoustic_setup(**size, space_order=4, dtype=np.float64)
    source = solver.geometry.src
    return solver, source, solver.forward(src=source)[0]


def full_storage():
    solver, source, recorded = problem()
    _, u, _ = solver.forward(src=source, save=True)
    return solver.jacobian_adjoint(recorded, u)[0]


def pyrevolve():
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0]


def gpuzip():
    import gpuzip.devito

    gpuzip.devito.use()
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0]


def gpuzip_budget():
    import gpuzip.devito

    gpuzip.devito.use(host_budget="200M")
    solver, source, recorded = problem()
    return solver.jacobian_adjoint(recorded, None, src=source, checkpointing=True)[0]


def shot(way):
    """Returns the seconds, the digits, and the process's peak memory in MiB so far."""
    import numpy as np

    begin = time.perf_counter()
    gradient = np.array(way().data)
    seconds = time.perf_counter() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    gc.collect()
    return seconds, f"{np.linalg.norm(gradient):.17g}", round(peak)


if __name__ == "__main__":
    # The first shot compiles. Its peak counts: Devito may keep the states of a shot during the next.
    (_, digits, peak), *shots = [shot(globals()[sys.argv[1]]) for _ in range(6)]
    assert {again for _, again, _ in shots} == {digits}
    seconds = statistics.median(seconds for seconds, _, _ in shots)
    print(json.dumps({"digits": digits, "seconds": round(seconds, 2), "peak_mib": peak}))
