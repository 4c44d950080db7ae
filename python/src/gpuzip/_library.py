"""Finds and opens libgpuzip.

The library is the file, or is in the folder or in its folder lib, that the environment variable GPUZIP_LIBRARY
names; else it is the file in this package; else the one that the system's loader finds.
"""

import ctypes
import os
from typing import Any, NoReturn

from . import _abi

SONAME = "libgpuzip.so.0"
PACKAGE = os.path.dirname(os.path.abspath(__file__))


def _path() -> str:
    named = os.environ.get("GPUZIP_LIBRARY")
    if named and os.path.isdir(named):
        # The folder of the library, or PREFIX of `make install`.
        folder, prefix = os.path.join(named, SONAME), os.path.join(named, "lib", SONAME)
        return prefix if os.path.exists(prefix) and not os.path.exists(folder) else folder
    if named:
        return named
    packaged = os.path.join(PACKAGE, SONAME)
    return packaged if os.path.exists(packaged) else SONAME


def _open() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(path)
    except OSError as reason:
        raise ImportError(
            f"gpuzip cannot open its library {path}: {reason}. Install the package with pip, which "
            "builds the library into it, or set GPUZIP_LIBRARY to the library's file or folder"
        ) from None
    try:
        version = library.gpuzip_abi_version
    except AttributeError:
        raise ImportError(f"{path} is not libgpuzip: it has no gpuzip_abi_version") from None
    version.restype = ctypes.c_uint32
    if version() != _abi.ABI_VERSION:
        raise ImportError(
            f"{path} has version {version()} of the ABI, and this package needs version "
            f"{_abi.ABI_VERSION}: install the package and the library from one release"
        )
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(
                f"{path} has no function {name}: it is older than this package; install the "
                "package and the library from one release"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return library


library = _open()


class Unshared:
    """An object of one process that cannot be copied: the library knows it by a number, or it is memory."""

    __slots__ = ()

    def __reduce_ex__(self, _protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"a gpuzip.{name} cannot be pickled or copied: it belongs to the process that made it; "
            "give a worker a gpuzip.Config and make what it needs there"
        )
