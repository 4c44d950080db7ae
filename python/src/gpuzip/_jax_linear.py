"""A linear function of JAX whose transpose is a program of its own, as a primitive.

`bind(call, kept, dots)` is `call.tangents(kept, dots)`, linear in `dots`. Forward mode evaluates it; reverse mode calls
`call.adjoints(kept, bars)` in its place, and so never makes a derivative of a loop whose bounds are in a table.
`call.kinds` are the types of the results.
"""

from typing import Any, List, Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from .errors import UnsupportedError

_linear = Primitive("gpuzip_linear")
_linear.multiple_results = True


def bind(call: Any, kept: Sequence[Any], dots: Sequence[Any]) -> List[Any]:
    return list(_linear.bind(*kept, *dots, call=call, count=len(kept)))


@_linear.def_impl
def _evaluate(*operands: Any, call: Any, count: int) -> List[Any]:
    return list(call.tangents(operands[:count], operands[count:]))


@_linear.def_abstract_eval
def _kinds(*_: Any, call: Any, count: int) -> List[Any]:
    return list(call.kinds)


mlir.register_lowering(_linear, mlir.lower_fun(_evaluate, multiple_results=True))


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    dots = [ad.instantiate_zeros(t) for t in tangents]
    results, found = jax.jvp(lambda *x: tuple(_evaluate(*x, **params)), tuple(primals), tuple(dots))
    return results, list(map(guard, found))


def _transpose(bars: Any, *operands: Any, call: Any, count: int) -> List[Any]:
    # None stands for adjoints that are 0.
    found = call.adjoints(operands[:count], [None if isinstance(bar, ad.Zero) else bar for bar in bars])
    return [None] * count + list(found)


class _Batched:
    """A linear function under `jax.vmap`: `axes` are those of the operands, and results have theirs in front."""

    def __init__(self, call: Any, axes: Sequence[Any], count: int, axis: Any) -> None:
        self.call, self.kept, self.dots = call, list(axes[:count]), list(axes[count:])
        self.kinds = [kind.update(shape=(axis.size, *kind.shape)) for kind in call.kinds]
        self.names = {"axis_size": axis.size, "axis_name": axis.name, "spmd_axis_name": axis.spmd_name}

    def tangents(self, kept: Any, dots: Any) -> Any:
        call = lambda kept, dots: tuple(self.call.tangents(kept, dots))
        return jax.vmap(call, (self.kept, self.dots), **self.names)(list(kept), list(dots))

    def adjoints(self, kept: Any, bars: Any) -> Any:
        call = lambda kept, bars: tuple(self.call.adjoints(kept, bars))
        axes = [None if bar is None else 0 for bar in bars]
        found = jax.vmap(call, (self.kept, axes), **self.names)(list(kept), list(bars))
        # An operand that all elements share has the sum of their adjoints.
        return [jnp.sum(x, 0) if axis is None else jnp.moveaxis(x, 0, axis) for x, axis in zip(found, self.dots)]


def _batch(axis: Any, operands: Any, axes: Any, call: Any, count: int) -> Any:
    batched = _Batched(call, [at if isinstance(at, int) else None for at in axes], count, axis)
    return _linear.bind(*operands, call=batched, count=count), [0] * len(batched.kinds)


ad.primitive_jvps[_linear] = _jvp
ad.primitive_transposes[_linear] = _transpose
batching.fancy_primitive_batchers[_linear] = _batch


# The identity, of which only forward mode can make a derivative.
_guard = Primitive("gpuzip_guard")
_guard.def_impl(lambda x: x)
_guard.def_abstract_eval(lambda x: x)
batching.defvectorized(_guard)
mlir.register_lowering(_guard, lambda _, x: [x])


def _refuse(*_: Any) -> Any:
    raise UnsupportedError(_TWICE)


ad.deflinear2(_guard, _refuse)

_TWICE = (
    "a reverse-mode derivative of a derivative that gpuzip.jax.scan made: differentiate gradients in forward mode, "
    "jax.jvp(jax.grad(f), ...) for the product of a Hessian and a vector, jax.jacfwd(jax.grad(f)) for a Hessian; use "
    "jax.lax.scan where a derivative is part of what you differentiate in reverse mode"
)


def guard(x: Any) -> Any:
    """`x`, which reverse mode refuses to differentiate with a text that says what to do."""
    return _guard.bind(x)
