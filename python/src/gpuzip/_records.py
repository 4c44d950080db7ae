"""Reads the structs that the library fills."""

import ctypes
from typing import Any, Callable, Type, TypeVar

from .errors import check

T = TypeVar("T")


def filled(record: Type[T], struct: Type[ctypes.Structure], call: Callable[[Any], int]) -> T:
    """Returns the record of the struct that `call` fills."""
    raw = struct()
    raw.struct_size = ctypes.sizeof(struct)
    check(call(raw))
    return of_struct(record, raw)


def of_struct(record: Type[T], raw: ctypes.Structure) -> T:
    """Returns the record of a struct."""
    return record(*(getattr(raw, name) for name in record._fields))  # type: ignore[attr-defined]
