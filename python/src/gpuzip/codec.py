"""Codecs: arrays in host memory as compressed streams."""

import ctypes
from typing import Any, Callable, List, Optional, Sequence

from . import _abi
from . import config as _config
from ._arrays import TYPESTRS, Memory, fields_of
from ._library import library
from ._records import filled
from .config import Config
from .errors import check
from .records import CodecInfo


def encode(*arrays: Any, config: Optional[Config] = None, roles: Sequence[int] = (), **keys: Any) -> bytes:
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
