"""Codecs on arrays on a GPU: compressed streams in memory of the GPU, without waiting for it."""

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Sequence, Tuple

from . import _abi
from . import config as _config
from ._arrays import Fields, describe, fields_of, fill
from ._library import library
from .config import Config
from .errors import ArrayError, StreamError, ValuesError, check

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys

RESULT_BYTES = ctypes.sizeof(_abi.gpuzip_codec_result_t)


class DeviceSizes(NamedTuple):
    """Bytes of memory of the GPU for a call of `encode_device` or `decode_device`."""

    coded: int
    """Room for the compressed stream, enough for any values."""

    work: int
    """Work space."""


def device_sizes(*arrays: Any, config: Optional[Config] = None, roles: Sequence[int] = (), **keys: "Unpack[ConfigKeys]") -> DeviceSizes:
    """Returns the memory that `encode_device` and `decode_device` need for these arrays, or for fields
    without memory, `Field(shape=..., dtype=...)`."""
    made = fields_of(arrays, False, roles=roles)
    struct = _config.of(config, keys)._struct
    coded, work = ctypes.c_uint64(), ctypes.c_uint64()
    check(library.gpuzip_codec_bound(struct, made.array, made.count, coded))
    check(library.gpuzip_codec_work(struct, made.array, made.count, work))
    return DeviceSizes(coded.value, work.value)


def encode_device(
    coded: Any,
    work: Any,
    result: Any,
    *arrays: Any,
    config: Optional[Config] = None,
    roles: Sequence[int] = (),
    stream: Any = None,
    **keys: "Unpack[ConfigKeys]",
) -> None:
    """Compresses arrays on a GPU into one stream at the beginning of `coded`, with the bytes of
    `encode`. `coded` and `work` are contiguous arrays on the GPU of at least the bytes of
    `device_sizes`, aligned to 64 and 256 bytes; `result` has `RESULT_BYTES` bytes on the GPU or in
    page-locked memory. `device_result` reads it once the work has ended.

    The work is ordered on `stream`, or else on the stream that `arrays` name, or else on the default
    stream, and the call does not wait for it: all memory must stay until the work has ended.
    """
    made = fields_of(arrays, False, stream, roles=roles)
    struct, to, room = _config.of(config, keys)._struct, _memory(coded, made), _memory(work, made)
    check(
        library.gpuzip_codec_encode(
            struct, made.array, made.count, to[0], to[1], room[0], room[1], _result(result, made), made.stream
        )
    )


def decode_device(
    coded: Any,
    work: Any,
    result: Any,
    *arrays: Any,
    config: Optional[Config] = None,
    roles: Sequence[int] = (),
    stream: Any = None,
    **keys: "Unpack[ConfigKeys]",
) -> None:
    """Decompresses a stream of `encode_device` or `encode`, which lies at the beginning of `coded`, into
    arrays on a GPU. The configuration names the codec; memory and order are as for `encode_device`."""
    made = fields_of(arrays, True, stream, roles=roles)
    struct, (at, size), room = _config.of(config, keys)._struct, _memory(coded, made), _memory(work, made)
    check(
        library.gpuzip_codec_decode(
            struct, at, size, made.array, made.count, room[0], room[1], _result(result, made), made.stream
        )
    )


def device_result(result: Any) -> int:
    """Returns the bytes of the stream that a call has written or read. `result` is what the call wrote,
    in host memory. Raises the error that the call came to, a `ValuesError` or a `StreamError`."""
    told = _abi.gpuzip_codec_result_t.from_buffer_copy(memoryview(result).tobytes())
    if told.status == _abi.ERR_VALUES:
        raise ValuesError(f"field {told.field} holds {told.count} values that are NaN or infinite")
    if told.status:
        raise StreamError(f"the stream of field {told.field} is damaged, or of another codec")
    return int(told.bytes)


def _memory(array: Any, made: Fields, on_host: bool = False) -> Tuple[int, int]:
    """Address and bytes of an array that the GPU writes."""
    found, field = describe(array, True, made.stream), _abi.gpuzip_field_t()
    fill(field, found, "C")
    if field.pitch2 or not (found.device or on_host):
        raise ArrayError(f"{type(array).__name__} of shape {found.shape}: give a contiguous array on the GPU")
    return found.data, int(field.n1 * field.n2 * field.n3 * found.itemsize)


def _result(array: Any, made: Fields) -> Any:
    address, size = _memory(array, made, on_host=True)
    if size < RESULT_BYTES:
        raise ArrayError(f"result has {size} bytes, and needs {RESULT_BYTES}")
    return _abi.gpuzip_codec_result_t.from_address(address)
