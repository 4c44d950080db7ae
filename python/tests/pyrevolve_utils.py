"""Stands in for `utils.py` of PyRevolve's tests, which its source package lacks."""

import numpy as np
from pyrevolve import Checkpoint, Operator


class SimpleCheckpoint(Checkpoint):
    dtype, size, nbytes = np.float32, 1, 1

    def __init__(self):
        self.save_counter = self.load_counter = 0

    def get_data(self, timestep):
        self.save_counter += 1
        return []

    def get_data_location(self, timestep):
        self.load_counter += 1
        return []


class SimpleOperator(Operator):
    def __init__(self):
        self.counter = 0

    def apply(self, t_start, t_end):
        assert t_start <= t_end
        self.counter += t_end - t_start


class IncrementOperator(Operator):
    def __init__(self, direction, field):
        self.direction, self.field = direction, field

    def apply(self, t_start, t_end):
        assert t_start <= t_end
        self.field[:] += self.direction * (t_end - t_start)


class IncrementCheckpoint(Checkpoint):
    def __init__(self, objects):
        self.objects = objects

    def get_data(self, timestep):
        return self.objects

    get_data_location = get_data
    dtype = property(lambda self: self.objects[0].dtype)
    size = property(lambda self: sum(a.size for a in self.objects))
    nbytes = property(lambda self: sum(a.nbytes for a in self.objects))


class YoCheckpoint(IncrementCheckpoint):
    def __init__(self, field):
        super().__init__([field])


class IncOperator(SimpleOperator):
    def __init__(self, direction, u, v=None):
        super().__init__()
        self.direction, self.u, self.v = direction, u, v

    def apply(self, t_start, t_end):
        super().apply(t_start, t_end)
        if self.direction == 1:
            self.u += t_end - t_start
        else:
            self.v[:] = 1 - self.u
