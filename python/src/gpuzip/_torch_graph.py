"""Graphs of PyTorch's autograd: gradients of one part, and the tensors that a part depends on."""

import functools
import sys
from typing import Any, Callable, List, Sequence

import torch

from .errors import ArgumentError

_ENGINE = getattr(torch.autograd.Variable, "_execution_engine", None)


def gradients(results: Any, weights: Any, by: Any) -> Sequence[Any]:
    """torch.autograd.grad, where PyTorch's engine can be called without the checks of `weights` that it does in Python."""
    if _ENGINE is None:
        plain: Sequence[Any] = torch.autograd.grad(results, by, weights, allow_unused=True)
        return plain
    # Arguments of the engine: keep_graph and create_graph.
    found: Sequence[Any] = _ENGINE.run_backward(
        results, weights, False, False, by, allow_unreachable=True, accumulate_grad=False
    )
    return found


def refuse_others(results: List[Any], text: str, known: Any = (), state: Any = ()) -> None:
    """Raises an error if the results depend on a tensor to be differentiated whose id is neither in `known` nor in
    `state`; `text` has a place for its shape."""
    nodes = []
    for leaf in results:
        if leaf.grad_fn is not None:
            nodes.append(leaf.grad_fn)
        elif leaf.requires_grad and id(leaf) not in known and id(leaf) not in state:
            raise ArgumentError(text.format(tuple(leaf.shape)))
    seen = set(nodes)
    for node in nodes:
        if type(node) is _ACCUMULATE and id(node.variable) not in known and id(node.variable) not in state:
            raise ArgumentError(text.format(tuple(node.variable.shape)))
        for before, _ in node.next_functions:
            if before is not None and before not in seen:
                seen.add(before)
                nodes.append(before)


with torch.enable_grad():
    # The type of the nodes of a graph that stand for the tensors by which one differentiates.
    _ACCUMULATE: Any = type(torch.ones(1, requires_grad=True).expand(2).grad_fn.next_functions[0][0])


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which torch.compile neither compiles nor looks into. Its part of PyTorch takes seconds to
    import: it is asked where something else has imported it."""
    kept: List[Any] = []

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return function(*arguments, **named)
        if not kept:
            kept.append(getattr(torch, "compiler", getattr(torch, "_dynamo", None)).disable(function))  # type: ignore[union-attr]
        return kept[0](*arguments, **named)

    call._torchdynamo_disable = True  # type: ignore[attr-defined]
    return call
