"""Exported states as a file of NetCDF, by the program of docs/restart.md."""

import os
import tempfile
import unittest

import numpy
import scipy.io

import gpuzip

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/restart.md")


def step(u, t):
    u["u"] *= 1.5


def adjoint_step(u, t, adjoint):
    adjoint["u"] *= 1.5


class NetCDF(unittest.TestCase):
    def test_the_program_of_the_page(self):
        with open(PAGE) as file:
            _, *programs = file.read().split("```python\n")
        (program,) = (program.split("```")[0] for program in programs)
        self.addCleanup(os.chdir, os.getcwd())
        for dtype in ("f4", "f8"):
            u = numpy.arange(12, dtype=dtype).reshape(3, 4) / 7
            states = [u.copy()]
            for _ in range(20):
                states.append(states[-1] * u.dtype.type(1.5))
            with self.subTest(dtype=dtype), tempfile.TemporaryDirectory() as folder:
                os.chdir(folder)
                gpuzip.adjoint(step, adjoint_step, {"u": u}, 20, memory="1K", export_dir="states", export_every=5)
                exec(compile(program, PAGE, "exec"), {})
                with scipy.io.netcdf_file("u.nc", mmap=False) as file:
                    self.assertEqual(file.variables["u"].dimensions, ("t", "z", "x"))
                    found = file.variables["u"][:]
                self.assertEqual(found.dtype.newbyteorder("="), u.dtype)
                self.assertEqual(found.tolist(), numpy.stack(states[::5]).tolist())
                os.chdir("/")


if __name__ == "__main__":
    unittest.main()
