"""gpuzip: checkpointing for adjoint codes.

`adjoint` runs the adjoint of a loop over time steps. `Session` saves and restores the states of a run and says
what to do next, `Schedule` is the order of actions alone, `plan` predicts, `encode` and `decode` are the
codecs, `Profile` holds measured speeds, and `check_gradient` checks a gradient.
"""

from ._abi import (
    ALGORITHM_AUTO,
    ALGORITHM_HREVOLVE,
    ALGORITHM_ONLINE,
    ALGORITHM_REVOLVE,
    ALGORITHM_STORE_ALL,
    ALGORITHM_TRACE,
    ALGORITHM_TWO_LEVEL,
    ALGORITHM_UNIFORM,
    ALGORITHM_ZCUT,
    DUE_NO,
    DUE_STOP,
    DUE_YES,
)
from ._arrays import Field
from ._keys import ConfigKeys
from ._library import library as _library
from ._memory import Memory
from .actions import BACKWARD, FORWARD, RESTORE, SAVE, TERMINATE, Action, ActionType
from .adjoint import Stopped, adjoint
from .codec import decode, encode, register_codec
from .codec import info as codec_info
from .config import Config, keys
from .device_codec import RESULT_BYTES, DeviceSizes, decode_device, device_result, device_sizes, encode_device
from .errors import (
    ArgumentError,
    ArrayError,
    BudgetError,
    CallbackError,
    ConfigError,
    DeviceError,
    Error,
    FileError,
    ForkedError,
    HandleError,
    OutOfMemoryError,
    PanicError,
    ParseError,
    PoisonedError,
    ScheduleError,
    ShapeError,
    StateError,
    StreamError,
    UnsupportedError,
    ValuesError,
)
from .gradient import GradientCheck, check_gradient
from .plan import Plan, plan
from .process import agree, algorithm_name, catch_signals, command, log_to, request_stop, set_log_level, stop_requested
from .profile import Profile
from .progress import progress
from .quality import Quality
from .records import CodecInfo, Generation, ProfileInfo, QualityInfo, Stats, Summary
from .schedule import Schedule, validate, write_trace
from .session import Session, Slot

__version__: str = _library.gpuzip_version().decode()

__all__ = [
    "ALGORITHM_AUTO",
    "ALGORITHM_HREVOLVE",
    "ALGORITHM_ONLINE",
    "ALGORITHM_REVOLVE",
    "ALGORITHM_STORE_ALL",
    "ALGORITHM_TRACE",
    "ALGORITHM_TWO_LEVEL",
    "ALGORITHM_UNIFORM",
    "ALGORITHM_ZCUT",
    "Action",
    "ActionType",
    "ArgumentError",
    "ArrayError",
    "BACKWARD",
    "BudgetError",
    "CallbackError",
    "CodecInfo",
    "Config",
    "ConfigError",
    "ConfigKeys",
    "DUE_NO",
    "DUE_STOP",
    "DUE_YES",
    "DeviceError",
    "DeviceSizes",
    "Error",
    "FORWARD",
    "Field",
    "FileError",
    "ForkedError",
    "Generation",
    "GradientCheck",
    "HandleError",
    "Memory",
    "OutOfMemoryError",
    "PanicError",
    "ParseError",
    "Plan",
    "PoisonedError",
    "Profile",
    "ProfileInfo",
    "Quality",
    "QualityInfo",
    "RESTORE",
    "RESULT_BYTES",
    "SAVE",
    "Schedule",
    "ScheduleError",
    "Session",
    "ShapeError",
    "Slot",
    "StateError",
    "Stats",
    "Stopped",
    "StreamError",
    "Summary",
    "TERMINATE",
    "UnsupportedError",
    "ValuesError",
    "__version__",
    "adjoint",
    "agree",
    "algorithm_name",
    "catch_signals",
    "check_gradient",
    "codec_info",
    "command",
    "decode",
    "decode_device",
    "device_result",
    "device_sizes",
    "encode",
    "encode_device",
    "keys",
    "log_to",
    "plan",
    "progress",
    "register_codec",
    "request_stop",
    "set_log_level",
    "stop_requested",
    "validate",
    "write_trace",
]
