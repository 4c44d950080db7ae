"""Codecs: arrays in host memory as compressed streams."""

import ctypes
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple

from . import _abi
from . import config as _config
from ._arrays import TYPESTRS, Described, fields_of
from ._library import library
from ._memory import Memory
from ._records import filled
from .config import Config
from .errors import ArgumentError, check, raised
from .records import CodecInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys


def encode(*arrays: Any, config: Optional[Config] = None, roles: Sequence[int] = (), **keys: "Unpack[ConfigKeys]") -> bytes:
    """Compresses arrays in host memory into one stream, with the codec `compressor` and the bound
    `error_bound` of the configuration: `encode(u, compressor="lorenzo", error_bound=1e-3)`.

    An array with `roles[k] = j + 1` is coded as field j minus this array.
    """
    made = fields_of(arrays, False, roles=roles)
    struct = _config.of(config, keys)._struct
    count = ctypes.c_uint64()
    check(library.gpuzip_codec_bound(struct, made.array, made.count, count))
    room = ctypes.create_string_buffer(count.value)
    check(
        library.gpuzip_codec_compress(struct, made.array, made.count, room, count.value, count)
    )
    return ctypes.string_at(room, count.value)


def decode(stream: Any, *arrays: Any, roles: Sequence[int] = ()) -> None:
    """Decompresses a stream of `encode` into arrays of the shapes, types and roles that were
    compressed. Damaged streams are a `StreamError`."""
    data, made = bytes(stream), fields_of(arrays, True, roles=roles)
    check(library.gpuzip_codec_decompress(data, len(data), made.array, made.count))


def info(stream: Any) -> List[CodecInfo]:
    """Describes the arrays of a compressed stream, in the order of the stream."""
    data = bytes(stream)

    def one(index: int) -> CodecInfo:
        return filled(
            CodecInfo,
            _abi.gpuzip_codec_info_t,
            lambda raw: library.gpuzip_codec_info(data, len(data), index, raw),
        )

    first = one(0)
    return [first, *(one(index) for index in range(1, first.arrays))]


Compress = Callable[[Memory, float, bool], Optional[bytes]]
Decompress = Callable[[bytes, Memory], Any]

_registered: List[Tuple[Any, ...]] = []  # The library calls these functions as long as the process lives.


def register_codec(name: str, compress: Compress, decompress: Decompress) -> int:
    """Registers a codec of the application for the rest of the process, and returns its number for
    the key `compressor`: 64, 65, ... in the order of registration. No other codec has this name.
    Streams can be read where the same codecs are registered in the same order.

    `compress(values, bound, rms)` returns the compressed bytes of `values`, a `Memory` on the host
    that it must not keep, or None to store them as they are. It keeps `bound` for every value, or
    with `rms` as root mean square error. `decompress(stream, values)` fills `values` from these
    bytes. The library calls both in the thread that saves or retrieves, which then holds the
    interpreter's lock. An exception of theirs is the `__cause__` of the error of that call; a
    KeyboardInterrupt or SystemExit ends the call itself.
    """
    if not (callable(compress) and callable(decompress)):
        raise ArgumentError(f"codec {name!r}: compress = {compress!r} and decompress = {decompress!r} must be functions")
    if "\0" in name:
        raise ArgumentError(f"name = {name!r}: a name has no zero characters")

    def memory(field: Any, readonly: bool) -> Memory:
        shape = (field.n3, field.n2, field.n1)
        found = Described(field.data, shape, None, field.type, int(TYPESTRS[field.type][2:]), readonly, False, 0, None, "")
        return Memory(field.data, found, readonly)

    def max_bytes(_user: Any, field: Any) -> int:
        f = field[0]
        return int(f.n1 * f.n2 * f.n3 * int(TYPESTRS[f.type][2:]))

    def pack(_user: Any, field: Any, rms: int, bound: float, to: int, room: int, size: Any) -> int:
        compressed = compress(memory(field[0], True), bound, rms == 1)
        if compressed is None:
            return 1
        # Of an array of 4-byte values, `len` is not the number of bytes.
        stream = memoryview(compressed).tobytes()
        if len(stream) > room:
            return 1
        ctypes.memmove(to, stream, len(stream))
        size[0] = len(stream)
        return 0

    def unpack(_user: Any, stream: int, size: int, field: Any) -> int:
        decompress(ctypes.string_at(stream, size), memory(field[0], False))
        return 0

    plugin = _abi.gpuzip_codec_plugin_t()
    plugin.struct_size, plugin.name = ctypes.sizeof(plugin), name.encode()
    plugin.max_bytes = _abi.gpuzip_codec_max_bytes_t(max_bytes)
    plugin.compress = _abi.gpuzip_codec_compress_t(raised(pack))
    plugin.decompress = _abi.gpuzip_codec_decompress_t(raised(unpack))
    number = ctypes.c_int32()
    check(library.gpuzip_codec_register(plugin, number))
    _registered.append((plugin.max_bytes, plugin.compress, plugin.decompress))
    return number.value
