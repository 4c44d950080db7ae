"""Gradients of long loops in JAX: `scan` compiles a checkpointing plan into the program, and `loop` is a loop
of Python over compiled steps, whose states a session of gpuzip keeps, compressed or on disk."""

from operator import index
from typing import Any, Callable, List, Optional, Union

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ._arrays import int32
from ._jax_loop import loop
from ._jax_program import Program, Request, array, at, strong
from ._jax_scan import run
from .config import Config
from .errors import ArgumentError, ConfigError, UnsupportedError

__all__ = ["loop", "scan"]

Bytes = Union[int, str, None]

_EFFECTS = (
    "f writes a mutable array or calls Python for its effects ({}): gpuzip.jax.scan runs steps again, and these "
    "effects would be others; use jax.lax.scan, or make what changes a part of the state"
)
_PLAN = 'give a memory, such as memory="2G", or a number of snapshots (and a tape with it), and not both'


def _bytes(name: str, value: Bytes) -> Optional[int]:
    """A number of bytes, also as a text such as "2G", as in configuration files."""
    if value is None:
        return None
    try:
        found = int(Config(host_budget=value).host_budget) if isinstance(value, str) else index(value)
        if found >= 0 and not isinstance(value, bool):
            return found
    except (ConfigError, TypeError):
        pass
    raise ArgumentError(f'{name} = {value!r}: give bytes, as an integer or as a text such as "2G"')


def _refuse_effects(effects: Any) -> None:
    """Prints and callbacks for debugging may run again, and talk between elements of a `jax.vmap` may; others not."""
    names = [type(effect).__name__ for effect in effects]
    found = [name for name in names if "Debug" not in name and name != "NamedAxisEffect"]
    if found:
        raise UnsupportedError(_EFFECTS.format(", ".join(found)))


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: Optional[int] = None,
    reverse: bool = False,
    *,
    memory: Bytes = None,
    host_memory: Bytes = None,
    snapshots: Optional[int] = None,
    tape: Optional[int] = None,
) -> Any:
    """`jax.lax.scan(f, init, xs, length, reverse)` whose gradient needs a bounded memory.

    `f(carry, x)` returns the next carry, the state, and an output; `scan` returns the last state and the outputs.
    With a number n in the place of `xs`, `f(state, t)` returns the next state alone, for t = 0, ..., n - 1, and
    `scan` returns the last one. What `f` reads beside its arguments is found, and differentiated by, too.

    `memory` is the number of bytes (2**31, "2G") that states and residuals take between the forward and the
    reverse pass, beside the working memory of one step's derivative. A residual is a value of a step that its
    adjoint needs. The forward pass keeps states, the reverse pass computes others from them again, by a plan that
    is chosen when the program is traced and compiled into it: which numbers of states and residuals take the
    least time is a matter of their sizes and of the operations of `f`. With `host_memory` the states lie in the
    host's memory, in at most so many bytes, and `memory` is for residuals alone. Bytes are those of the arrays that
    `f` sees: of one element under `jax.vmap`, of one device under `jax.shard_map`, of all devices for sharded arrays.

    Instead of `memory`, `snapshots` is a number of states, the initial one included, and `tape` the number of
    consecutive steps whose residuals are kept (with 1, the default, none are). The states are in the host's memory
    if `host_memory` is given, which must hold them.

    Call it in a function that `jax.jit` compiles; it works under `jax.vmap`, `jax.lax.scan`, `jax.checkpoint` and
    `jax.shard_map`, with `jax.grad` and `jax.vjp`, and in forward mode: `jax.jvp` of a gradient is the product of a
    Hessian and a vector. Forward mode by itself needs no states, and yet takes the plan's memory. Reverse mode of
    a derivative is an error. Steps run more than once: so do their prints, and other effects are an
    `UnsupportedError`.

    Raises `ArgumentError` for arguments that are no plan and, where a derivative is taken, for memory too small for
    one state; `UnsupportedError` for derivatives that it has not; and the errors of `jax.lax.scan`.
    """
    if isinstance(xs, (int, np.integer)) and not isinstance(xs, bool):
        if length is not None or reverse:
            raise ArgumentError("n steps, in the place of xs, go with neither length nor reverse")
        if xs < 0:
            raise ArgumentError(f"n = {xs}: give 0 or more steps")
        keys = {"memory": memory, "host_memory": host_memory, "snapshots": snapshots, "tape": tape}
        steps = jnp.arange(int32("n", xs), dtype=jnp.int32)
        return scan(lambda state, t: (f(state, t), None), init, steps, **keys)[0]  # type: ignore[arg-type]
    if (memory is None) == (snapshots is None) or (memory is not None and tape is not None):
        raise ArgumentError(_PLAN)
    tape = 1 if tape is None else tape
    if memory is None and min(int32("snapshots", snapshots), int32("tape", tape)) < 1:
        raise ArgumentError(f"snapshots={snapshots} and tape={tape}: a plan needs at least one of each")
    if host_memory is not None and not hasattr(jax, "memory"):
        raise UnsupportedError(f"host_memory: JAX {jax.__version__} has no jax.memory.Space; use JAX 0.8 or newer")
    request = Request(_bytes("memory", memory), _bytes("host_memory", host_memory), snapshots, tape)
    init, xs = jax.tree.map(jnp.asarray, (init, xs))
    if any(not leaf.ndim for leaf in jax.tree.leaves(xs)):
        raise ArgumentError("xs has an array without a leading axis; for a number of steps, give a Python int")
    # JAX says what is no scan, and has the types of the states.
    kinds, outputs = jax.eval_shape(lambda init, xs: lax.scan(f, init, xs, length, reverse), init, xs)
    (state, tree), (inputs, xs_tree) = jax.tree.flatten(init), jax.tree.flatten(xs)
    state = [strong(x, kind.dtype) for x, kind in zip(state, jax.tree.leaves(kinds))]
    n = int(length) if length is not None else inputs[0].shape[0]
    if n == 0:
        return lax.scan(f, init, xs, length, reverse)
    x = jax.eval_shape(lambda inputs: at(inputs, 0), inputs)

    def flat(state: List[Any], x: List[Any]) -> List[Any]:
        return jax.tree.leaves(f(tree.unflatten(state), xs_tree.unflatten(x)))

    traced = jax.make_jaxpr(flat)(state, x)
    _refuse_effects(traced.jaxpr.effects)
    # A leaf that no step changes is none of the state: each step reads it.
    moving = [after is not before for before, after in zip(traced.jaxpr.invars, traced.jaxpr.outvars[: len(state)])]
    if not all(moving):

        def moved(some: List[Any], x: List[Any]) -> List[Any]:
            values = iter(some)
            out = flat([next(values) if m else leaf for m, leaf in zip(moving, state)], x)
            return [leaf for leaf, m in zip(out, moving) if m] + out[len(moving) :]

        traced = jax.make_jaxpr(moved)([leaf for leaf, m in zip(state, moving) if m], x)
    some = [leaf for leaf, m in zip(state, moving) if m]
    program = Program(traced.jaxpr, n, reverse, len(some), request)
    last, ys = run(program, *map(array, traced.consts), *some, *inputs)
    ends = iter(last)
    last = [next(ends) if m else leaf for m, leaf in zip(moving, state)]
    return tree.unflatten(last), jax.tree.structure(outputs).unflatten(ys)
