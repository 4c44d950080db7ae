"""Reverse time migration and the gradient of waveform inversion for one shot in Devito.

    python devito_rtm.py --states gpuzip --equation acoustic --task rtm --plot image.png

The reverse sweep needs every state of the forward sweep. `--states full` stores all of them in Devito's
`TimeFunction(save=nt)`, `--states pyrevolve` and `--states gpuzip` keep some and compute the others again.
The image is the same to the last bit. `--key host_budget=20M` sets a key of gpuzip's configuration.
"""

import argparse
import json
import time

parser = argparse.ArgumentParser()
parser.add_argument("--states", choices=["full", "pyrevolve", "gpuzip"], default="gpuzip")
parser.add_argument("--equation", choices=["acoustic", "viscoacoustic"], default="acoustic")
parser.add_argument("--task", choices=["rtm", "gradient"], default="rtm")
parser.add_argument("--model", help="file of velocities in m/s, FP32, depth running fastest")
parser.add_argument("--shape", type=int, nargs=2, default=[81, 61], help="grid points")
parser.add_argument("--spacing", type=float, default=10.0, help="of the grid, in m")
parser.add_argument("--time", type=float, default=300.0, help="simulated, in ms")
parser.add_argument("--checkpoints", type=int, help="number of states; without it PyRevolve's rule")
parser.add_argument("--key", action="append", default=[], help="of gpuzip's configuration, as key=value")
parser.add_argument("--output", help="file for the image, in NumPy's format")
parser.add_argument("--plot", help="file for a picture of the image; needs matplotlib")
options = parser.parse_args()

if options.states == "gpuzip":
    import gpuzip.devito

    gpuzip.devito.use(**dict(key.split("=", 1) for key in options.key))

import numpy as np
from devito import NODE, CheckpointOperator, DevitoCheckpoint, Eq, Function, Operator, Revolver, TimeFunction, configuration
from examples.seismic import AcquisitionGeometry, Model
from examples.seismic.acoustic import AcousticWaveSolver
from examples.seismic.acoustic.operators import iso_stencil
from examples.seismic.viscoacoustic import ViscoacousticWaveSolver
from examples.seismic.viscoacoustic.operators import kernels, src_rec
from scipy.ndimage import gaussian_filter

configuration["log-level"] = "WARNING"
acoustic = options.equation == "acoustic"
# Names of the forward and the adjoint wavefield in Devito's operators.
FORWARD, ADJOINT = ("u", "v") if acoustic else ("p", "pa")


def velocities():
    """Of the true model and of the smooth one that is migrated in, in km/s."""
    if options.model:
        true = np.fromfile(options.model, "f4").reshape(options.shape).astype(float) / 1000
    else:
        true = np.full(options.shape, 1.5)
        true[:, options.shape[1] // 2 :] = 2.5
    return true, 1 / gaussian_filter(1 / true, 5)


def solver_of(velocity, dt=None):
    physics = {} if acoustic else {"qp": np.full(options.shape, 60.0), "b": 1.0}
    grid = {"origin": (0.0, 0.0), "spacing": (options.spacing,) * 2, "shape": options.shape, "space_order": 4}
    model = Model(vp=velocity, nbl=10, bcs="damp" if acoustic else "mask", dtype=np.float64, dt=dt, **grid, **physics)
    length = model.domain_size[0]
    receivers = np.column_stack([np.linspace(0, length, options.shape[0]), np.full(options.shape[0], 2 * options.spacing)])
    geometry = AcquisitionGeometry(
        model, receivers, [[length / 2, options.spacing]], 0.0, options.time, f0=0.015, src_type="Ricker"
    )
    return (AcousticWaveSolver if acoustic else ViscoacousticWaveSolver)(model, geometry, space_order=4)


def field(name, save=None):
    staggered = {} if acoustic else {"staggered": NODE}
    return TimeFunction(name=name, grid=solver.model.grid, time_order=2, space_order=4, save=save, **staggered)


def adjoint_operator(save):
    """One adjoint step, and what it adds to the image: the gradient's imaging condition is Devito's, that
    of migration is the product of both wavefields."""
    if options.task == "gradient":
        return solver.op_grad(save=save)
    model, geometry = solver.model, solver.geometry
    forward, adjoint = field(FORWARD, geometry.nt if save else None), field(ADJOINT)
    image = Function(name="grad", grid=model.grid)
    if acoustic:
        steps = iso_stencil(adjoint, model, "OT2", forward=False)
        rec, dt = geometry.rec, model.grid.stepping_dim.spacing
        injection = rec.inject(field=adjoint.backward, expr=rec * dt**2 / model.m)
    else:
        steps = kernels["sls"](model, geometry, adjoint, forward=False, save=False, time_order=2)
        _, injection = src_rec(adjoint, model, geometry, forward=False)
    return Operator(steps + injection + [Eq(image, image - forward * adjoint)], subs=model.spacing_map)


def full_storage():
    forward = solver.forward(save=True)[1]
    memory = {} if acoustic else {"r": field("r")}
    image = Function(name="grad", grid=solver.model.grid)
    arguments = {FORWARD: forward, ADJOINT: field(ADJOINT), "grad": image, "rec": data, "dt": solver.dt}
    adjoint_operator(save=True).apply(**arguments, **memory, **solver.model.physical_params())
    return image


def checkpointed():
    """The same program for PyRevolve and for gpuzip."""
    image = Function(name="grad", grid=solver.model.grid)
    physics = {"dt": solver.dt, **solver.model.physical_params()}
    # A CheckpointOperator keeps addresses, not arrays: these dictionaries keep the arrays alive.
    sweep = {FORWARD: field(FORWARD), "src": solver.geometry.src, "rec": solver.geometry.new_rec(name="rec"), **physics}
    back = {FORWARD: sweep[FORWARD], ADJOINT: field(ADJOINT), "rec": data, "grad": image, **physics}
    states = [sweep[FORWARD]]
    if not acoustic:
        sweep["r"], back["r"] = field("r"), field("ra")
        states.append(sweep["r"])
    forward = CheckpointOperator(solver.op_fwd(save=False), **sweep)
    adjoint = CheckpointOperator(adjoint_operator(save=False), **back)
    revolver = Revolver(DevitoCheckpoint(states), forward, adjoint, options.checkpoints, solver.geometry.nt - 2)
    revolver.apply_forward()
    revolver.apply_reverse()
    return image


true, smooth = velocities()
shot = solver_of(true)
recorded = shot.forward()[0]
solver = solver_of(smooth, shot.dt)
data = solver.geometry.new_rec(name="rec")
data.data[:] = solver.forward()[0].data - recorded.data
begin = time.perf_counter()
image = (full_storage if options.states == "full" else checkpointed)()
seconds = time.perf_counter() - begin
inside = np.array(image.data)[10:-10, 10:-10]
if options.output:
    np.save(options.output, inside)
if options.plot:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 1, figsize=(8, 7), layout="constrained")
    extent = (0, options.shape[0] * options.spacing, options.shape[1] * options.spacing, 0)
    high = np.percentile(np.abs(inside), 98)
    axes[0].imshow(true.T, extent=extent, cmap="viridis")
    axes[1].imshow(inside.T, extent=extent, cmap="gray", vmin=-high, vmax=high)
    axes[0].set_title("velocity")
    axes[1].set_title(f"{options.task}, {options.equation}, states: {options.states}")
    figure.savefig(options.plot)
print(json.dumps({"steps": solver.geometry.nt, "seconds": round(seconds, 3), "digits": f"{np.linalg.norm(inside):.15e}"}))
