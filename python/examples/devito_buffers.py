"""Time steps of Devito that compute in the snapshots of gpuzip, so that no state is copied."""

import numpy as np
from devito import Eq, Function, Grid, Operator, configuration
from gpuzip import pyrevolve

configuration["log-level"] = "WARNING"
grid = Grid(shape=(101, 101), dtype=np.float64)
u, before, after, same = (Function(name=name, grid=grid, space_order=4) for name in ("u", "before", "after", "same"))
model = Function(name="model", grid=grid)
model.data[:] = 1e-5
step = Operator([Eq(after, 2 * u - before + model * u.laplace), Eq(same, u)])
shape = u.data_with_halo.shape
first, spare = (np.zeros((2, *shape)) for _ in range(2))
first[:, 50, 50] = 1.0
image = np.zeros(shape)

class Forward(pyrevolve.Operator):
    def apply(self, t_start, t_end, inbuffer, outbuffer):
        for t in range(t_start, t_end):
            into = outbuffer if (t_end - t) % 2 else spare  # the last step writes to outbuffer
            step.apply(u=inbuffer[0], before=inbuffer[1], after=into[0], same=into[1])
            inbuffer = into

class Adjoint(pyrevolve.Operator):
    def apply(self, t_start, t_end, inbuffer, outbuffer):
        image[:] += t_start * inbuffer[0] * outbuffer[0]

revolver = pyrevolve.Revolver(pyrevolve.Buffers(list(first)), Forward(), Adjoint(), 6, 60)
revolver.apply_forward()
revolver.apply_reverse()
print(f"{np.abs(image).sum():.6f}", revolver.session.stats().h2d + revolver.session.stats().d2h)
