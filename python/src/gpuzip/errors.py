"""Exceptions: one class for each error status of the C library, below `Error`.

The text of an exception is the library's own: which call failed, which value was wrong, and what to
do. Each class is also one of Python's own exceptions where one fits, so that `except ValueError`
and `except MemoryError` work as elsewhere.
"""

import threading
from typing import Any, Callable, Dict, Optional, Type

from . import _abi
from ._library import library


class Error(Exception):
    """An error of gpuzip. `status` is the number of the C interface, GPUZIP_ERR_*."""

    status: int = 0


class ArgumentError(Error, ValueError):
    """A number is outside its range, or an argument is missing."""


class ArrayError(ArgumentError, TypeError):
    """The object is no array that the library can read or write: its type of values, its layout
    in memory, its device, or that it is read-only."""


class ConfigError(Error, ValueError):
    """A configuration value is impossible, contradicts another one, or its key is unknown."""


class UnsupportedError(Error, NotImplementedError):
    """The value is valid, but this version of the library cannot do what it asks for."""


class ShapeError(Error, ValueError):
    """The fields differ in number, shape or type from those given to the session."""


class ValuesError(Error, ValueError):
    """A field holds NaN or infinities, and `nonfinite = error` makes that an error; or a previous
    time level is not what `shared_levels` requires."""


class StateError(Error, RuntimeError):
    """The call does not fit the current action. Nothing has changed."""


class HandleError(Error, RuntimeError):
    """The session, schedule or `Quality` was given back before."""


class ForkedError(Error, RuntimeError):
    """The object belongs to the process that this one was forked from, or CUDA is needed in the
    child of a process that has used CUDA."""


class CallbackError(Error, RuntimeError):
    """A callback returned another number than 0 and so stopped the run."""


class OutOfMemoryError(MemoryError, Error):  # In this order, or its `__new__` is none of its own.
    """Memory ran out: of the host, of the device, or for a thread. What exists stays usable."""


class BudgetError(Error, ValueError):
    """The plan does not fit the budgets."""


class FileError(Error, OSError):
    """A file cannot be read or written."""


class ParseError(Error, ValueError):
    """A configuration or trace file is malformed."""


class ScheduleError(Error, ValueError):
    """A schedule breaks the rules of checkpointing."""


class StreamError(Error, ValueError):
    """A compressed stream is damaged, or was written by another version."""


class DeviceError(Error, RuntimeError):
    """The device failed."""


class PanicError(Error, SystemError):
    """A defect in gpuzip was caught."""


class PoisonedError(Error, SystemError):
    """An earlier defect made this object unusable; finalize it."""


CLASSES: Dict[int, Type[Error]] = {
    _abi.ERR_ARGUMENT: ArgumentError,
    _abi.ERR_CONFIG: ConfigError,
    _abi.ERR_UNSUPPORTED: UnsupportedError,
    _abi.ERR_SHAPE: ShapeError,
    _abi.ERR_VALUES: ValuesError,
    _abi.ERR_STATE: StateError,
    _abi.ERR_HANDLE: HandleError,
    _abi.ERR_FORKED: ForkedError,
    _abi.ERR_CALLBACK: CallbackError,
    _abi.ERR_MEMORY: OutOfMemoryError,
    _abi.ERR_BUDGET: BudgetError,
    _abi.ERR_IO: FileError,
    _abi.ERR_PARSE: ParseError,
    _abi.ERR_SCHEDULE: ScheduleError,
    _abi.ERR_STREAM: StreamError,
    _abi.ERR_DEVICE: DeviceError,
    _abi.ERR_PANIC: PanicError,
    _abi.ERR_POISONED: PoisonedError,
}
for _status, _class in CLASSES.items():
    _class.status = _status


# What was done to the object of a handle, by its type.
_GIVEN_BACK = {
    "gpuzip_t": "this session was finalized, by `finalize` or at the end of its `with` block",
    "gpuzip_schedule_t": "this schedule was released",
    "gpuzip_quality_t": "this Quality was closed",
}

_thread = threading.local()  # `raised`: what a function of `raised` below has raised, until it is told


def raised(function: Callable[..., int]) -> Callable[..., int]:
    """Returns a function for the library to call: after an exception it returns a status, and the
    exception becomes the cause of the error with which the library's call ends."""

    def called(*arguments: Any) -> int:
        try:
            return function(*arguments)
        except BaseException as reason:
            _thread.raised = reason
            return _abi.ERR_CALLBACK

    return called


def last_error(status: int) -> BaseException:
    """Returns the exception for `status`, with the text of this thread's last error, or the
    KeyboardInterrupt or SystemExit with which a function of `raised` ended."""
    reason: Optional[BaseException] = _thread.__dict__.pop("raised", None)
    if reason is not None and not isinstance(reason, Exception):
        return reason
    text = library.gpuzip_last_error().decode("utf-8", "replace")
    call, _, what = text.partition(": ")
    ended = [words for kind, words in _GIVEN_BACK.items() if status == _abi.ERR_HANDLE and f" {kind} handle" in what]
    text = f"{call}: {ended[0]}" if ended else text
    error = CLASSES.get(status, Error)(text)
    error.status = status
    error.__cause__ = reason
    return error


def check(status: int) -> None:
    """Raises the exception for a status below 0."""
    if status < 0:
        raise last_error(status)
