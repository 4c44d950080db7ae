"""`gpuzip.check_gradient`: what passes, and what does not."""

import math
import unittest
from xml.etree import ElementTree

import gpuzip
from support import needs_numpy, numpy


def f(x):
    return float(numpy.sum(numpy.sin(x) ** 2) + x[0] * x[1])


def gradient(x):
    g = 2 * numpy.sin(x) * numpy.cos(x)
    g[0] += x[1]
    g[1] += x[0]
    return g


@needs_numpy
class Gradient(unittest.TestCase):
    def setUp(self):
        self.x = numpy.linspace(0.1, 1, 20)

    def test_a_right_gradient_passes_with_its_orders(self):
        for seed in range(20):
            found = gpuzip.check_gradient(f, gradient, self.x, seed=seed)
            self.assertTrue(found.passed, found)
            self.assertLess(abs(found.first_orders[-1] - 1), 0.1)
            self.assertLess(max(abs(order - 2) for order in found.second_orders), 0.1)
            self.assertLess(found.error, 1e-9)
        self.assertEqual(found, gpuzip.check_gradient(f, gradient(self.x), self.x, seed=19))

    def test_the_numbers_are_those_of_their_definitions(self):
        way = numpy.cos(self.x)
        calls = []

        def counted(x):
            calls.append(x.copy())
            return f(x)

        found = gpuzip.check_gradient(counted, gradient, self.x, direction=way, h=0.1, halvings=2)
        self.assertEqual((found.h, len(calls)), ((0.1, 0.05, 0.025), 6))
        self.assertEqual(found.product, float(gradient(self.x) @ way))
        for k, h in enumerate(found.h):
            change = f(self.x + h * way) - f(self.x)
            self.assertEqual((found.first[k], found.second[k]), (abs(change), abs(change - h * found.product)))
        self.assertEqual(found.first_orders[0], math.log2(found.first[0] / found.first[1]))
        self.assertEqual(found.second_orders[1], math.log2(found.second[1] / found.second[2]))

    def test_wrong_gradients_do_not_pass(self):
        flipped, missing = gradient(self.x), gradient(self.x)
        flipped[7] *= -1
        missing[0] -= self.x[1]
        for wrong in (1.001 * gradient(self.x), flipped, missing, gradient(self.x)[::-1], 0 * self.x, -gradient(self.x)):
            found = gpuzip.check_gradient(f, wrong, self.x)
            self.assertFalse(found.passed, found)
            self.assertIn("FAILED", str(found))
        # Each test by itself notices.
        found = gpuzip.check_gradient(f, flipped, self.x)
        self.assertLess(min(found.second_orders), 1.9)
        self.assertFalse(gpuzip.check_gradient(f, flipped, self.x, tolerance=math.inf).passed)
        self.assertFalse(gpuzip.check_gradient(lambda x: x.sum(), 1.0001 * numpy.ones(3), numpy.ones(3)).passed)
        self.assertFalse(gpuzip.check_gradient(lambda x: math.nan, gradient, self.x).passed)

    def test_forms_and_types_of_x(self):
        x = {"b": numpy.zeros(3, "f"), "a": numpy.ones((2, 2))}
        seen = []

        def of(x):
            seen.append([(name, part.dtype.str, part.shape) for name, part in x.items()])
            return (x["a"] ** 3).sum() + x["b"].sum()

        found = gpuzip.check_gradient(of, lambda x: {"a": 3 * x["a"] ** 2, "b": numpy.ones(3)}, x)
        self.assertTrue(found.passed, found)
        self.assertEqual((seen[0], found.tolerance), ([("b", "<f4", (3,)), ("a", "<f8", (2, 2))], 1e-2))
        found = gpuzip.check_gradient(lambda x: x[0] @ x[1], lambda x: [x[1], x[0]], [self.x, 1 - self.x])
        self.assertTrue(found.passed, found)
        # The remainders of a linear function are rounding errors.
        linear = gpuzip.check_gradient(lambda x: 3 * x.sum(), 3 * numpy.ones(4), numpy.ones(4))
        self.assertTrue(linear.passed and all(map(math.isnan, linear.second_orders)), linear)

    def test_a_gradient_of_zero(self):
        x = numpy.ones(5)
        found = gpuzip.check_gradient(lambda x: (x**4 - 2 * x**2).sum(), lambda x: 4 * x**3 - 4 * x, x)
        self.assertTrue(found.passed and found.product == 0, found)
        self.assertFalse(gpuzip.check_gradient(lambda x: (x**4 - 2 * x**2).sum(), 1e-6 * x, x).passed)

    def test_an_adjoint_run(self):
        u = numpy.linspace(0.2, 0.4, 16)

        def step(u, t):
            u += 0.1 * u * (1 - u)

        def adjoint_step(u, t, v):
            v *= 1 + 0.1 * (1 - 2 * u)

        def misfit(u0):
            u = u0.copy()
            for t in range(30):
                step(u, t)
            return 0.5 * float(u @ u)

        def right(u0):
            return gpuzip.adjoint(step, adjoint_step, u0, 30, final_adjoint=numpy.copy, checkpointing_snaps=4)

        self.assertTrue(gpuzip.check_gradient(misfit, right, u).passed)
        self.assertFalse(gpuzip.check_gradient(misfit, lambda u0: 0.999 * right(u0), u).passed)

    def test_tables(self):
        found = gpuzip.check_gradient(f, gradient, self.x)
        lines = str(found).split("\n")
        self.assertEqual(len(lines), 7)
        self.assertEqual(len({len(line) for line in lines[:-1]}), 1)
        self.assertRegex(lines[2], r"^5.000e-03 .* 1\.0\d .* 2\.0\d$")
        self.assertIn("(at most 1e-06): passed", lines[-1])
        html = ElementTree.fromstring(f"<div>{found._repr_html_()}</div>")
        self.assertEqual(len(html.findall("table/tr")), 6)
        self.assertEqual(html.find("p").text, lines[-1])

    def test_a_function_of_arrays_of_another_library(self):
        class Tensor:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                return numpy.asarray(self.values, dtype)

        def squares(x):
            if not isinstance(x, Tensor):
                raise TypeError("no Tensor")
            return (x.values**2).sum()

        with self.assertRaisesRegex(TypeError, r"f got arrays of NumPy, .* x has a Tensor: .*\(no Tensor\)"):
            gpuzip.check_gradient(squares, 2 * self.x, Tensor(self.x))
        with self.assertRaisesRegex(TypeError, "^no Tensor$"):
            gpuzip.check_gradient(squares, 2 * self.x, self.x)
        self.assertTrue(gpuzip.check_gradient(lambda x: squares(Tensor(x)), 2 * self.x, Tensor(self.x)).passed)

    def test_a_gradient_by_a_lossy_codec_passes_with_a_tolerance(self):
        wrong = gradient(self.x) * (1 + 1e-4)
        self.assertFalse(gpuzip.check_gradient(f, wrong, self.x, h=0.1).passed)
        self.assertTrue(gpuzip.check_gradient(f, wrong, self.x, h=0.1, tolerance=1e-3).passed)

    def test_what_cannot_be_checked(self):
        for error, text, call in (
            (gpuzip.ArrayError, "type int64", lambda: gpuzip.check_gradient(f, gradient, numpy.arange(3))),
            (gpuzip.ShapeError, r"gradient has the shapes \[\(3,\)\]", lambda: gpuzip.check_gradient(f, numpy.ones(3), self.x)),
            (gpuzip.ArgumentError, r"shape \(20,\): it must return a number", lambda: gpuzip.check_gradient(numpy.sin, gradient, self.x)),
            (gpuzip.ArgumentError, "h = 0", lambda: gpuzip.check_gradient(f, gradient, self.x, h=0)),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text):
                call()


if __name__ == "__main__":
    unittest.main()
