"""Python functions as callbacks of the C library: exceptions go through the C call."""

import os
import traceback
from typing import Any, Callable, List, Optional

from .errors import check


class Carrier:
    """Keeps the exception that a callback raised until the C call has returned."""

    def __init__(self) -> None:
        self.raised: Optional[BaseException] = None

    def wrap(self, kind: Any, function: Callable[..., Any], failed: int = 1) -> Any:
        """Returns a C function of the type `kind` that calls `function` without the argument
        `user`. The function may return None for 0. `failed` is returned after an exception."""

        def called(_user: Any, *arguments: Any) -> int:
            try:
                return function(*arguments) or 0
            except BaseException as reason:  # It is raised again below.
                self.raised = reason
                return failed

        return kind(called)

    def check(self, status: int) -> None:
        """Raises the callback's exception, or else the library's error."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised
        check(status)


def least(carrier: Carrier, kind: Any, function: Callable[[int], int]) -> Any:
    """A C function that replaces a number by the least number of all ranks."""

    def replace(value: Any) -> int:
        value[0] = function(value[0])
        return 0

    return carrier.wrap(kind, replace)


def told(kind: Any, function: Callable[[str, Any], Any]) -> Any:
    """A C function that a thread of the library calls: what it raises is printed."""

    def called(_user: Any, file: bytes, generation: Any) -> int:
        try:
            function(os.fsdecode(file), generation[0])
            return 0
        except Exception:
            traceback.print_exc()
            return 1

    return kind(called)


Kept = List[Any]
