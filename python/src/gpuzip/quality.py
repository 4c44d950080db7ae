"""The error of the result as the setting."""

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Optional

from . import _abi
from . import config as _config
from ._arrays import fields_of
from ._library import Unshared, library
from ._records import filled
from .config import Config
from .errors import check
from .records import QualityInfo

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._keys import ConfigKeys


def _close(handle: int, process: int) -> None:
    if os.getpid() == process:
        check(library.gpuzip_quality_close(handle))


class Quality(Unshared):
    """Chooses `error_bound` from the error of a result, such as an image or a gradient, as the key
    `quality` asks: `gradient:1e-3` is a relative error (root of the sum of squares) of at most 1e-3,
    `image:60dB` a PSNR of at least 60 dB relative to the range.

        chosen = gpuzip.Quality(compressor="dct", quality="gradient:1e-3", host_budget="4G")
        for config in chosen.runs():            # first with raw snapshots, then with some bounds
            chosen.result(gradient(shot, config))   # one shot, with a `Session` of `config`
        config = chosen.config                   # for all shots

    The bound is an estimate for other shots. After `check`, `runs` measures another shot and makes the
    bound tighter if the error is larger than asked. Codecs that keep no bound are a `ConfigError`.
    """

    def __init__(self, config: Optional[Config] = None, **keys: "Unpack[ConfigKeys]") -> None:
        self._given = _config.of(config, keys).copy()  # has the strings that the library points to
        handle = ctypes.c_void_p()
        check(library.gpuzip_quality_open(self._given._struct, handle))
        self._handle = handle.value or 0
        self._finalizer = weakref.finalize(self, _close, self._handle, os.getpid())

    def _next(self) -> "tuple[Config, bool]":
        config, wanted = Config(), ctypes.c_int32()
        check(library.gpuzip_quality_next(self._handle, config._struct, wanted))
        return config.copy(), wanted.value != 0

    def runs(self) -> Iterator[Config]:
        """Yields the configuration of each run of the shot; call `result` before the next one."""
        while True:
            config, wanted = self._next()
            if not wanted:
                return
            yield config

    @property
    def config(self) -> Config:
        """The configuration of the next run, or with the chosen bound once no run is left."""
        return self._next()[0]

    def result(self, *arrays: Any) -> None:
        """Takes the result of the run: arrays of FP32 or FP64 in host memory, each of which must keep
        the error. NaN, infinities and arrays of zeros of the first run are a `ValuesError`."""
        made = fields_of(arrays, False)
        check(library.gpuzip_quality_result(self._handle, made.array, made.count))

    def compare(self, *arrays: Any) -> "tuple[list[float], list[float]]":
        """Returns sums and maxima of this rank's part of a result, which may be empty: add the sums of all
        ranks, take the maxima, and give both to `judge`."""
        made = fields_of(arrays, False)
        sums, maxima = (ctypes.c_double * (3 * made.count))(), (ctypes.c_double * (2 * made.count))()
        check(library.gpuzip_quality_compare(self._handle, made.array, made.count, sums, maxima))
        return list(sums), list(maxima)

    def judge(self, sums: Any, maxima: Any) -> None:
        """Judges the run by the sums and maxima of all ranks."""
        count = len(sums) // 3
        c_sums, c_maxima = (ctypes.c_double * (3 * count))(*sums), (ctypes.c_double * (2 * count))(*maxima)
        check(library.gpuzip_quality_judge(self._handle, c_sums, c_maxima, count))

    def check(self) -> None:
        """Begins to measure another shot with `runs`."""
        check(library.gpuzip_quality_check(self._handle))

    def info(self) -> QualityInfo:
        """Returns what was measured and chosen so far."""
        return filled(QualityInfo, _abi.gpuzip_quality_info_t, lambda raw: library.gpuzip_quality_info(self._handle, raw))

    def close(self) -> None:
        """Gives the handle back; garbage collection does so, too."""
        self._finalizer()
