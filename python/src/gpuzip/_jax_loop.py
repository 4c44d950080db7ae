"""Gradients of long loops in JAX: a loop of Python whose reverse pass has its states from gpuzip."""

import contextlib
import functools
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from ._arrays import int32
from ._reads import CONSTANTS, reads
from .actions import FORWARD, RESTORE, SAVE
from .config import of, without_restart
from .errors import ArgumentError, UnsupportedError
from .session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys


def _kinds(tree: Any) -> Any:
    """Structure, shapes and types of a pytree, as they decide which code JAX compiles."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(jnp.shape(x), jnp.result_type(x), getattr(x, "weak_type", isinstance(x, _PYTHON))) for x in leaves]


_PYTHON = (bool, int, float, complex)


class _Compiled:
    """The compiled time step and its compiled adjoint, which adds to the parameters' adjoint. Both come from
    one trace of `step`: what the step reads beside its arguments keeps the value it had in the trace."""

    def __init__(self, step: Callable[..., Any], state: Any, params: Any) -> None:
        traced, kinds = jax.make_jaxpr(lambda state, t, params: step(state, t, *params), return_shape=True)(
            state, np.int32(0), params
        )
        if any(isinstance(value, jax.core.Tracer) for value in traced.consts):
            raise ArgumentError(_OTHERS)
        (after, found), (before, wanted) = _kinds(kinds), _kinds(state)
        if after != before or any(a[:2] != b[:2] for a, b in zip(found, wanted)):
            raise ArgumentError(f"step returns {after} with {found}, and the state has {before} with {wanted}")
        run, tree = jaxpr_as_fun(traced), jax.tree.structure(kinds)

        def forward(state: Any, t: Any, *params: Any) -> Any:
            return jax.tree.unflatten(tree, run(*jax.tree.leaves((state, t, params))))

        def adjoint(state: Any, t: Any, params: Any, cotangent: Any, sums: Any) -> Tuple[Any, Any]:
            _, pull_back = jax.vjp(lambda state, params: forward(state, t, *params), state, params)
            before, more = pull_back(cotangent)
            # Integers have adjoints of the type float0, which cannot be added.
            return before, jax.tree.map(lambda a, b: b if b.dtype == jax.dtypes.float0 else a + b, sums, more)

        self.forward, self.adjoint = jax.jit(forward), jax.jit(adjoint)


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray, np.generic))


def _constant(value: Any) -> bool:
    """Whether the value itself cannot change."""
    if isinstance(value, jax.Array):
        return not isinstance(value, jax.core.Tracer)
    return isinstance(value, (*CONSTANTS, np.generic))


def _compiled(step: Callable[..., Any], state: Any, params: Any) -> _Compiled:
    """The compiled code of `step`. A function keeps it, with all that it reads beside its arguments, and so
    calls with the same function share it until one of these values is another."""
    found = reads(step, _is_array) if isinstance(step, FunctionType) else []
    if not found or not all(_constant(value) for _, value in found):
        return _Compiled(step, state, params)
    kinds = _kinds((state, params))
    known, before, kept = getattr(step, "_gpuzip_compiled", (None, [], None))
    if known != kinds or len(before) != len(found) or any(a is not b for (_, a), (_, b) in zip(before, found)):
        kept = _Compiled(step, state, params)
        step._gpuzip_compiled = kinds, found, kept  # type: ignore[attr-defined]
    assert kept is not None
    return kept


_NO_FIELD = (
    "gpuzip.jax.loop keeps numbers; pass a key of random numbers by jax.random.key_data and wrap_key_data, leave out "
    "what is empty, or use gpuzip.jax.scan"
)
_OTHERS = (
    "step reads a value by which jax.grad, jax.vjp or another transformation works, and which is not among its "
    "arguments: pass it to gpuzip.jax.loop as one of `params`"
)


def _bits(array: Any) -> Any:
    """The array for a session. Types that JAX adds to NumPy's, such as bfloat16, go as integers of their size."""
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array


def _host(leaves: List[Any]) -> List[Any]:
    """The arrays in host memory. One array may be two leaves; a session wants memory for each of them."""
    found: Dict[int, Any] = {}
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        array = array.copy() if array.__array_interface__["data"][0] in found else array
        found[array.__array_interface__["data"][0]] = _bits(array)
    return list(found.values())


class _Sweep:
    """One forward sweep, and the session that has its states for as many reverse sweeps as are planned."""

    def __init__(self, compiled: _Compiled, n: int, config: Any, state: Any, params: Any) -> None:
        self.forward, self.adjoint = compiled.forward, compiled.adjoint
        self.n, self.params = n, params
        leaves, self.tree = jax.tree.flatten(state)
        self.shardings = [leaf.sharding for leaf in leaves]
        # JAX never changes an array, so that a RESTORE needs memory of its own.
        self.buffers = [np.empty(leaf.shape, leaf.dtype) for leaf in leaves]
        self.session = Session(tuple(map(_bits, self.buffers)), n, **config)
        self.state = state
        self.planned, self.begun, self.one = self.session._sweeps, 0, threading.Lock()

    def until_backward(self) -> None:
        """Does what the schedule wants up to the next BACKWARD, whose state is then `state`, or to the end."""
        for action in self.session:
            if action.type == FORWARD:
                for t in range(action.ts - 1, action.ts_end):
                    self.state = self.forward(self.state, np.int32(t), *self.params)
            elif action.type == SAVE:
                self.session.save(action.ts, _host(jax.tree.leaves(self.state)))
            elif action.type == RESTORE:
                self.session.retrieve(action.ts, *map(_bits, self.buffers))
                self.session.synchronize()
                leaves = [
                    jax.device_put(np.array(buffer), sharding)
                    for buffer, sharding in zip(self.buffers, self.shardings)
                ]
                self.state = jax.tree.unflatten(self.tree, leaves)
            elif action.ts_end > action.ts:
                raise UnsupportedError("adjoint_every: gpuzip.jax.loop does the adjoint of every time step by itself")
            else:
                return

    def reverse(self, cotangent: Any) -> Tuple[Any, Any]:
        """Returns the adjoints of the initial state and of the parameters."""
        with self.one, contextlib.ExitStack() as ends:
            if self.session is None:
                raise ArgumentError(_OVER.format(self.planned))
            ends.callback(self.end)
            ends.enter_context(self.session)
            if self.begun:
                self.session.rewind()
                self.until_backward()
            self.begun += 1
            sums = jax.tree.map(_zeros, self.params)
            for t in range(self.n - 1, -1, -1):
                cotangent, sums = self.adjoint(self.state, np.int32(t), self.params, cotangent, sums)
                self.until_backward()
            self.state = None
            if self.begun < self.planned:
                ends.pop_all()  # The session stays open for the next sweep.
            return cotangent, sums

    def end(self) -> None:
        self.session = self.state = None  # type: ignore[assignment]


_OVER = (
    "a reverse sweep of gpuzip.jax.loop runs once, or as often as the key `sweeps` plans (here {}), and not after an "
    "error: call jax.grad or jax.vjp again"
)


class _Kept:
    """A node without leaves, by which JAX hands a sweep from the forward to the reverse pass."""

    def __init__(self, sweep: _Sweep) -> None:
        self.sweep = sweep


jax.tree_util.register_pytree_node(_Kept, lambda kept: ((), kept), lambda kept, _: kept)


def _refuse_tracers(*values: Any) -> None:
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
        raise ArgumentError(
            "gpuzip.jax.loop runs outside of jax.jit, jax.vmap, jax.lax.scan and jax.checkpoint, compiles `step` itself, "
            "and has no gradient of its gradient: call it from a function that is not compiled, or use gpuzip.jax.scan"
        )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _loop(compiled: _Compiled, n: int, config: Any, state: Any, params: Any) -> Any:
    _refuse_tracers(state, params)
    for t in range(n):
        state = compiled.forward(state, np.int32(t), *params)
    return state


def _forward(compiled: _Compiled, n: int, config: Any, state: Any, params: Any) -> Tuple[Any, Any]:
    _refuse_tracers(state, params)
    sweep = _Sweep(compiled, n, dict(config), state, params)
    sweep.until_backward()
    return sweep.forward(sweep.state, np.int32(n - 1), *params), _Kept(sweep)


def _reverse(compiled: _Compiled, n: int, config: Any, kept: _Kept, cotangent: Any) -> Tuple[Any, Any]:
    return kept.sweep.reverse(cotangent)


def _zeros(leaf: Any) -> Any:
    """The adjoint of a parameter before the first time step; integers have none."""
    if jnp.issubdtype(jnp.result_type(leaf), jnp.inexact):
        return jnp.zeros(jnp.shape(leaf), jnp.result_type(leaf))
    return np.zeros(jnp.shape(leaf), jax.dtypes.float0)


_loop.defvjp(_forward, _reverse)


def loop(step: Callable[..., Any], state: Any, n: int, *params: Any, **config: "Unpack[ConfigKeys]") -> Any:
    """Returns the state after `n` time steps: `step(state, t, *params)` returns the state t + 1 of
    state t, for t = 0, ..., n - 1.

    `state` and `params` are pytrees of arrays; the state keeps its structure, shapes and types.
    `jax.grad` and `jax.vjp` differentiate by the initial state and by `params`. The forward pass then
    keeps as many states as the session's configuration allows (`config`, the keys of
    `gpuzip.Session`, such as `checkpointing_snaps=10` or `host_budget="4 GiB"`), and the reverse pass
    computes the others again. Without a gradient no state is kept. With lossless storage, the default,
    the gradient has the bits of a run that keeps every state.

    `step` is compiled by `jax.jit`; the loop itself is Python's and runs outside of `jax.jit`,
    `jax.vmap` and `jax.lax.scan`, where it raises an `ArgumentError`. States travel through host
    memory. A gradient of a gradient is not supported. A function that `jax.vjp` returns can be called
    once; with `sweeps=k` among the keys k times, with the states of one forward sweep. It raises the
    errors of `gpuzip.Session`, too.
    """
    n = int32("n", n)
    if n < 1:
        raise ArgumentError(f"n is {n}: gpuzip.jax.loop needs at least one time step")
    without_restart("gpuzip.jax.loop", of(None, config))  # A wrong key is an error without a gradient, too.
    state = jax.tree.map(jnp.asarray, state)
    for k, leaf in enumerate(jax.tree.leaves(state)):
        if not leaf.size or jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise UnsupportedError(f"leaf {k} of the state, {jnp.shape(leaf)} of {leaf.dtype}: {_NO_FIELD}")
    return _loop(_compiled(step, state, params), n, tuple(sorted(config.items())), state, params)
