"""Python functions as callbacks of the C library: exceptions go through the C call."""

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


Kept = List[Any]
