"""gpuzip: checkpointing for adjoint codes.

`Session` saves and restores the states of a run and says what to do next, `Schedule` is the order of
actions alone, `plan` predicts, `encode` and `decode` are the codecs, `Profile` holds measured speeds.
"""

from . import _abi
from ._abi import (  # noqa: F401
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
from ._library import library as _library
from ._memory import Memory
from .actions import BACKWARD, FORWARD, RESTORE, SAVE, TERMINATE, Action, ActionType
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
from .plan import plan
from .process import agree, algorithm_name, catch_signals, command, log_to, request_stop, set_log_level, stop_requested
from .profile import Profile
from .quality import Quality
from .records import CodecInfo, Generation, ProfileInfo, QualityInfo, Stats, Summary
from .schedule import Schedule, validate, write_trace
from .session import Session, Slot

__version__: str = _library.gpuzip_version().decode()

__all__ = [name for name in dir() if not name.startswith("_")]
