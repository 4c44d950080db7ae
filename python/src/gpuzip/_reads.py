"""What a Python function reads beside its arguments, so that a change of it is noticed."""

import functools
import types
from typing import Any, Callable, Dict, Iterator, List, Tuple

Reads = List[Tuple[str, Any]]
"""Names and values, such as ("model.dt", 0.1)."""

# Packages whose modules, classes and functions are as they are for the whole process.
_FIXED = {"builtins", "cmath", "jax", "jaxlib", "math", "numpy", "operator", "torch", "typing"}
_CODE = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
_CONTAINERS = (list, tuple, set, frozenset)

CONSTANTS = (bool, int, float, complex, str, bytes, type(None), types.CodeType)


def _package(value: Any) -> str:
    found = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(found).partition(".")[0]


def _names(code: Any) -> Iterator[str]:
    """The names that code and the functions within it read."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _cells(function: Any) -> Iterator[Tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            yield name, cell.cell_contents
        except ValueError:  # The variable has no value yet.
            continue


def _within(name: str, value: Any, names: Any) -> Dict[str, Any]:
    """The values that `value` reads or holds, by name. Of a module, only the values in `names`."""
    if isinstance(value, types.FunctionType):
        read = {n: value.__globals__[n] for n in _names(value.__code__) if n in value.__globals__}
        defaults = {f"{name}'s default {k}": x for k, x in enumerate(value.__defaults__ or ())}
        return {f"{name}.__code__": value.__code__, **read, **dict(_cells(value)), **defaults, **(value.__kwdefaults__ or {})}
    if isinstance(value, types.MethodType):
        return {"self": value.__self__, value.__func__.__name__: value.__func__}
    if isinstance(value, functools.partial):
        return {"func": value.func, **{f"{name}'s argument {k}": x for k, x in enumerate(value.args)}, **value.keywords}
    if isinstance(value, types.ModuleType):
        return {f"{name}.{n}": vars(value)[n] for n in names if n in vars(value)}
    if isinstance(value, dict):
        return {f"{name}[{k!r}]": x for k, x in value.items()}
    if isinstance(value, _CONTAINERS):
        return {f"{name}[{k}]": x for k, x in enumerate(value)}
    found: Dict[str, Any] = {}
    if not isinstance(value, type):
        for kind in reversed(type(value).__mro__):
            if _package(kind) not in _FIXED:
                found.update({f"{name}.{n}": x for n, x in vars(kind).items() if not n.startswith("__") or n == "__call__"})
                slots = getattr(kind, "__slots__", ())
                slots = (slots,) if isinstance(slots, str) else slots
                found.update({f"{name}.{n}": getattr(value, n) for n in slots if hasattr(value, n)})
    found.update({f"{name}.{n}": x for n, x in getattr(value, "__dict__", {}).items() if not n.startswith("__")})
    return found


def reads(step: Callable[..., Any], leaf: Callable[[Any], bool]) -> Reads:
    """The values that `step` reads beside its arguments: the values of its closure, global
    variables, default arguments and the attributes of its object, and what functions, objects,
    dicts and sequences among these hold. `leaf` says of a value that its parts are not looked at."""
    found: Reads = []
    seen: Dict[int, Any] = {}
    names: "set[str]" = set()
    left = [("step", step)]
    while left:
        name, value = left.pop()
        if leaf(value) or isinstance(value, CONSTANTS):
            found.append((name, value))
        elif id(value) not in seen and not (isinstance(value, _CODE) and _package(value) in _FIXED):
            seen[id(value)] = value
            names.update(_names(value.__code__) if isinstance(value, types.FunctionType) else ())
            parts = _within(name, value, names)
            left += parts.items()
            if not parts and not isinstance(value, (type, types.ModuleType)):
                found.append((name, value))
    return found
