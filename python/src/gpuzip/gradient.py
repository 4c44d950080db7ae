"""`check_gradient`: whether a gradient is that of a function."""

import math
from html import escape
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from ._drawing import axes_of
from .errors import ArgumentError, ArrayError, ShapeError

_COLUMNS = ("h", "|f(x+hd) - f(x)|", "order", "|f(x+hd) - f(x) - h g.d|", "order")


class GradientCheck(NamedTuple):
    """What `check_gradient` has found. Printing it shows a table, and so does a notebook."""

    h: Tuple[float, ...]
    """Lengths of the steps along the direction d, each half of the one before."""
    first: Tuple[float, ...]
    """|f(x+hd) - f(x)| for each h; falls with h."""
    second: Tuple[float, ...]
    """|f(x+hd) - f(x) - h g.d| for each h; falls with the square of h if g is the gradient."""
    first_orders: Tuple[float, ...]
    """The power of h with which `first` falls from each h to the next; 1 is expected."""
    second_orders: Tuple[float, ...]
    """The same for `second`; 2 is expected, and 1 for a wrong gradient. NaN where rounding errors rule."""
    product: float
    """g.d, the dot product of gradient and direction."""
    difference: float
    """The derivative of f along d from central differences, extrapolated from the last two h."""
    error: float
    """|product - difference|, relative to the larger one, beyond what rounding errors of f explain."""
    tolerance: float
    """The largest `error` that passes."""

    @property
    def passed(self) -> bool:
        """Whether all orders of `second` are at least 1.9, those of rounding errors aside, and `error` is at most
        `tolerance`."""
        orders = [order for order in self.second_orders if not math.isnan(order)]
        return self.error <= self.tolerance and all(order >= 1.9 for order in orders)

    def _rows(self) -> List[Tuple[str, ...]]:
        orders = [("", ""), *(tuple(f"{o:.2f}" for o in pair) for pair in zip(self.first_orders, self.second_orders))]
        columns = zip(self.h, self.first, self.second, orders)
        return [(f"{h:.3e}", f"{first:.3e}", o[0], f"{second:.3e}", o[1]) for h, first, second, o in columns]

    def _summary(self) -> str:
        return (
            f"g.d = {self.product:.10e}, central difference {self.difference:.10e}, relative error {self.error:.1e} "
            f"(at most {self.tolerance:.0e}): {'passed' if self.passed else 'FAILED'}"
        )

    def __str__(self) -> str:
        lines = [_COLUMNS, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        return "\n".join([*table, self._summary()])

    def _repr_html_(self) -> str:
        def row(cells: Tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        rows = [row(_COLUMNS, "th"), *(row(cells, "td") for cells in self._rows())]
        return f"<table>{''.join(rows)}</table><p>{escape(self._summary())}</p>"

    def plot(self, axes: Any = None) -> Any:
        """Draws both remainders over h with matplotlib, into `axes` or into new ones, and returns the axes."""
        axes = axes_of(axes, "print the result")
        for values, order, color in ((self.first, 1, "#0072b2"), (self.second, 2, "#009e73")):
            name = _COLUMNS[2 * order - 1]
            axes.loglog(self.h, values, "o-", color=color, label=name)
            slope = [values[0] * (h / self.h[0]) ** order for h in self.h]
            axes.loglog(self.h, slope, "--", color="#222222", linewidth=1, label=f"order {order}")
        axes.set(title="Taylor test of the gradient", xlabel="h, the step along d in multiples of d")
        axes.set_ylabel("remainder, in the unit of f")
        axes.legend()
        return axes


class _Point:
    """A single array, a list or a dict of arrays as one vector of double precision."""

    def __init__(self, numpy: Any, x: Any) -> None:
        self.numpy, self.x = numpy, x
        self.parts = [numpy.asarray(part) for part in self._of(x)]
        for part in self.parts:
            if part.dtype.kind != "f":
                raise ArrayError(f"x has values of the type {part.dtype}: it must have floating-point numbers")
        # The type of arrays of another library; f gets NumPy's.
        self.foreign = next((type(part).__name__ for part in self._of(x) if not isinstance(part, numpy.ndarray)), None)
        self.eps = max(float(numpy.finfo(part.dtype).eps) for part in self.parts)

    def _of(self, value: Any) -> List[Any]:
        if isinstance(self.x, dict):
            return [value[key] for key in self.x]
        return list(value) if isinstance(self.x, (list, tuple)) else [value]

    def vector(self, value: Any, name: str) -> Any:
        """The vector of arrays in the form of x."""
        parts = [self.numpy.asarray(part, dtype=float) for part in self._of(value)]
        if [part.shape for part in parts] != [part.shape for part in self.parts]:
            raise ShapeError(f"{name} has the shapes {[p.shape for p in parts]}, and x has {[p.shape for p in self.parts]}")
        return self.numpy.concatenate([part.ravel() for part in parts])

    def moved(self, way: Any) -> Any:
        """x plus a vector, in the form and with the types of x."""
        found, at = [], 0
        for part in self.parts:
            found.append((part + way[at : at + part.size].reshape(part.shape)).astype(part.dtype))
            at += part.size
        if isinstance(self.x, dict):
            return dict(zip(self.x, found))
        return found if isinstance(self.x, (list, tuple)) else found[0]

    def direction(self, seed: int) -> Any:
        """Random numbers with, in each array, the root mean square of its values; 1 where all are 0."""
        draw = self.numpy.random.default_rng(seed)
        sizes = [float(self.numpy.sqrt(self.numpy.mean(part.astype(float) ** 2))) or 1.0 for part in self.parts]
        return self.numpy.concatenate([size * draw.standard_normal(part.size) for part, size in zip(self.parts, sizes)])


def check_gradient(
    f: Callable[[Any], Any],
    gradient: Any,
    x: Any,
    *,
    direction: Any = None,
    h: float = 1e-2,
    halvings: int = 4,
    seed: int = 0,
    tolerance: Optional[float] = None,
) -> GradientCheck:
    """Checks a gradient g of the function f at x, along a direction d, and returns a `GradientCheck`, whose `passed` says
    what was found: `assert gpuzip.check_gradient(f, gradient, x).passed`.

    The Taylor test: |f(x+hd) - f(x) - h g.d| falls with the square of h. The dot-product test: g.d is the derivative of
    f along d, which central differences tell. f is evaluated 8 times with the default `halvings`.

    `f(x)` returns a number. `x` is an array of NumPy, or a list or a dict of arrays, and f gets such: a function of
    PyTorch has to make tensors of them. `gradient` has the form of x, or is a function of x that returns such.
    `direction` has its form, too; by default it is random (`seed`), as large as x. `h` is the first step along it,
    and `halvings` is the number of halvings. `tolerance` is the largest relative error of g.d, by default 1e-6, or 1e-2
    where x or f is of single precision. A gradient from states of a lossy codec has errors of its own: give a
    `tolerance` above them, and an `h` at which they are below the remainder.

    Where the remainders are rounding errors only, as those of a linear f, the second test decides.
    """
    import numpy

    if halvings < 1 or not h > 0:
        raise ArgumentError(f"h = {h} and halvings = {halvings}: give a positive h and at least one halving")
    point = _Point(numpy, x)
    way = point.direction(seed) if direction is None else point.vector(direction, "direction")
    g = point.vector(gradient(x) if callable(gradient) else gradient, "gradient")
    product = float(g @ way)
    try:
        middle = numpy.asarray(f(point.moved(0.0 * way)))
    except TypeError as reason:
        if not point.foreign:
            raise
        raise TypeError(
            f"f got arrays of NumPy, as check_gradient calls it, and x has a {point.foreign}: let f make its own from "
            f"them ({reason})"
        ) from reason
    if middle.size != 1:
        raise ArgumentError(f"f returned an array of the shape {middle.shape}: it must return a number")
    eps = max(point.eps, float(numpy.finfo(middle.dtype).eps) if middle.dtype.kind == "f" else 0.0)
    lengths = [h / 2**k for k in range(halvings + 1)]

    def value(length: float) -> float:
        return float(f(point.moved(length * way)))

    ahead = [value(length) for length in lengths]
    base = float(middle)
    first = [abs(found - base) for found in ahead]
    second = [abs(found - base - length * product) for found, length in zip(ahead, lengths)]
    rounding = 100 * eps * max(map(abs, [base, *ahead]))

    def orders(values: List[float], least: float) -> Tuple[float, ...]:
        pairs = zip(values, values[1:])
        return tuple(math.log2(a / b) if min(a, b) > least else math.nan for a, b in pairs)

    coarse, fine = ((ahead[k] - value(-lengths[k])) / (2 * lengths[k]) for k in (-2, -1))
    difference = (4 * fine - coarse) / 3
    scale, apart = max(abs(product), abs(difference)), abs(product - difference)
    allowed = rounding / lengths[-1]
    return GradientCheck(
        tuple(lengths),
        tuple(first),
        tuple(second),
        orders(first, 0.0),
        orders(second, rounding),
        product,
        difference,
        0.0 if apart <= allowed else (apart - allowed) / scale,
        tolerance if tolerance is not None else 1e-6 if eps < 1e-10 else 1e-2,
    )
