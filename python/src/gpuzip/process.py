"""What belongs to the process: the log, stop requests, the command."""

import atexit
import ctypes
import logging
import os
import shutil
import subprocess
from typing import Any, Callable, List, Optional

from . import _abi
from ._callbacks import Carrier, least
from ._library import PACKAGE, library
from .errors import Error, check

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
# The log callback that the library has now.
_log: Any = None


def algorithm_name(algorithm: int) -> str:
    """Returns the name of an algorithm ALGORITHM_*, as configurations spell it."""
    return str(library.gpuzip_algorithm_name(algorithm).decode())


def set_log_level(level: int) -> None:
    """Sets the least severe level that is logged, for the whole process: 0 DEBUG, 1 INFO, 2 WARN,
    3 ERROR. Every new session sets it to its `log_level`."""
    check(library.gpuzip_set_log_level(level))


def log_to(logger: Optional[logging.Logger]) -> None:
    """Sends the library's log lines to a logger instead of stderr; None: to stderr again. The lines
    may come from any thread. The handlers of the logger must not call gpuzip."""
    global _log
    if logger is None:
        callback = _abi.gpuzip_log_callback_t()
    else:
        target = logger

        def line(level: int, message: bytes, _user: Any) -> None:
            target.log(_LEVELS[level], message.decode("utf-8", "replace"))

        callback = _abi.gpuzip_log_callback_t(line)
    check(library.gpuzip_set_log_callback(callback, None))
    _log = callback


@atexit.register
def _unlog() -> None:
    if _log is not None:
        log_to(None)


def request_stop() -> None:
    """Requests that the run stop: every later action has `interrupt`, and `Session.persist_due`
    returns DUE_STOP. Only the first request of a process counts."""
    library.gpuzip_request_stop()


def stop_requested() -> Optional[float]:
    """Returns the seconds that are left of a requested stop, negative when the time is over; None
    without a request."""
    left = ctypes.c_double()
    return left.value if library.gpuzip_stop_requested(left) else None


def catch_signals(*signals: int) -> None:
    """Lets signals request a stop; without arguments SIGTERM and SIGUSR1. Python's own handlers of
    these signals, installed before, are called too."""
    numbers = (ctypes.c_int32 * len(signals))(*signals) if signals else None
    check(library.gpuzip_catch_signals(numbers, len(signals)))


def agree(minimum: Callable[[int], int]) -> None:
    """Takes part in `Session.agree` of the other ranks on a rank whose session could not be made,
    so that they do not wait for it. Always raises, since this rank has failed."""
    carrier = Carrier()
    carrier.check(library.gpuzip_agree(None, least(carrier, _abi.gpuzip_least_t, minimum), None))


def executable() -> str:
    """Returns the path of the command gpuzip: that in the package, or else that on the PATH."""
    packaged = os.path.join(PACKAGE, "gpuzip")
    found = packaged if os.access(packaged, os.X_OK) else shutil.which("gpuzip")
    if found is None:
        raise Error(
            "the command gpuzip is neither in the package nor on the PATH: install the package with "
            "pip, which builds the command into it, or run `make install` of gpuzip"
        )
    return found


def command(*arguments: Any) -> Any:
    """Runs the command gpuzip with `--json` and returns what it prints, as Python's values:
    `command("plan", "--steps", 1000, "--state-bytes", "1G", "--forward-ms", 10)` finds the fastest
    plan and its rivals. A failure of the command is an `Error` with its text."""
    import json

    words = [executable(), *(os.fspath(a) if hasattr(a, "__fspath__") else str(a) for a in arguments)]
    result = subprocess.run([*words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise Error(result.stderr.strip() or f"{words[0]} ended with status {result.returncode}")
    return json.loads(result.stdout)
