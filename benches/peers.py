#!/usr/bin/env python3
"""Compares gpuzip's codecs with other compressors of arrays, on FP32 arrays in raw files.

    python3 benches/peers.py [--repeat N] [--only "NAME;NAME"] [N1,N2,N3:]FILE ...

N1,N2,N3 are the extents, fastest first; without them the file's name has them, as in snapshot_256x256x256_step0900_curr.f32.
Needs NumPy, and the library that `make build` builds or GPUZIP_LIBRARY names. The peers SZ3, zfp and zstd after a shuffle of
bytes are the packages pysz, zfpy and numcodecs of the Python that runs this. Variables name the others:

    SPERR=FILE     libSPERR.so of SPERR, from 0.8 on (by default where the loader finds it)
    PFPL=FOLDER    PFPL's programs abs_compress_ser and abs_decompress_ser (by default on the PATH)

Every codec gets the same absolute bound: a fraction of the largest magnitude, rounded to FP32. Then come the settings that reach
60 and 80 dB of PSNR (of the range of values) and 5 % of relative L2 error, found by a search. This program compares decoded
values itself: "max error" is the largest error over the bound, "violations" the values beyond the bound, or, without loss, with other
bits. A codec that fails or crashes has the reason in its row and no ratio. Speeds are in GB of values per second of processor
time of one thread, which other users of the machine disturb least: the median of at most N calls, from memory to memory, with what
a peer's interface allocates and copies. PFPL's programs code several times, nine in 2025: their time is that of a program over
this number, with its files.
"""

import argparse
import concurrent.futures
import ctypes
import importlib.metadata
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: peers.py needs NumPy: pip install numpy")
    sys.exit(0)

ROOT = Path(__file__).resolve().parent.parent
BOUNDS, PSNRS, L2 = (1e-2, 1e-3, 1e-4), (60, 80), 0.05


class Missing(Exception):
    """The peer is not here."""


def package(name):
    try:
        return importlib.import_module(name), f"{name} {importlib.metadata.version(name)}"
    except ModuleNotFoundError:
        raise Missing from None


class Codec:
    """`open` finds the codec and returns its version. `encode` makes a stream within an absolute bound, `encode_psnr` one of about so
    many dB, `decode` an array. What runs in another process leaves its time in `seconds`."""

    lossless, bounds, seconds, install = False, True, None, "make build"

    def __init__(self, array):
        self.array, self.out = array, np.empty_like(array)
        self.range = float(array.max()) - float(array.min())
        self.version = self.open()

    def encode_psnr(self, decibels):
        # Errors that are spread evenly within the bound have a root mean square of the bound over sqrt(3).
        return self.encode(3**0.5 * self.range * 10 ** (-decibels / 20))


class Gpuzip(Codec):
    def open(self):
        release = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"
        os.environ.setdefault("GPUZIP_LIBRARY", str(release))
        sys.path.insert(0, str(ROOT / "python/src"))
        import gpuzip.codec as codec

        self.codec, self.config = codec, codec.Config(compressor=self.compressor)
        self.fields, self.into = codec.fields_of([self.array], False), codec.fields_of([self.out], True)
        size = ctypes.c_uint64()
        codec.check(codec.library.gpuzip_codec_bound(self.config._struct, self.fields.array, 1, size))
        self.room = np.zeros(size.value, np.uint8)

    def encode(self, bound, mode="absolute"):
        if not self.lossless:
            self.config.update({"error_bound": bound, "error_bound_mode": mode})
        size, room, call = ctypes.c_uint64(), self.room, self.codec.library.gpuzip_codec_compress
        self.codec.check(call(self.config._struct, self.fields.array, 1, room.ctypes.data, room.nbytes, size))
        return room[: size.value]

    def encode_psnr(self, decibels):
        return self.encode(decibels, "psnr")

    def decode(self, stream):
        call = self.codec.library.gpuzip_codec_decompress
        self.codec.check(call(stream.ctypes.data, len(stream), self.into.array, 1))
        return self.out


class SZ3(Codec):
    install = "pip install pysz"

    def open(self):
        self.sz, version = package("pysz")
        return version

    def encode(self, bound):
        config = self.sz.szConfig(self.array.shape)
        config.errorBoundMode, config.absErrorBound = self.sz.szErrorBoundMode.ABS, bound
        return self.sz.sz.compress(self.array, config)[0]

    def decode(self, stream):
        return self.sz.sz.decompress(stream, np.float32, self.array.shape)[0]


class SPERR(Codec):
    install = "build libSPERR.so of github.com/NCAR/SPERR, and name it in SPERR"

    def open(self):
        name = os.environ.get("SPERR") or "libSPERR.so"
        try:
            self.lib, self.free = ctypes.CDLL(name), ctypes.CDLL(None).free
        except OSError:
            raise Missing from None
        # What all calls share: the extents as C's size_t, fastest first.
        self.n = [ctypes.c_size_t(n) for n in self.array.shape[::-1]]
        if len(self.n) == 1:
            raise ValueError("SPERR has no arrays of one dimension")
        return os.path.basename(os.path.realpath(name))

    def call(self, name, *words):
        """Calls a function of SPERR with the pointer to its result in place of None."""
        made = ctypes.c_void_p()
        status = getattr(self.lib, f"sperr_{name}_{len(self.n)}d")(*(ctypes.byref(made) if w is None else w for w in words))
        if status:
            raise RuntimeError(f"sperr_{name} returned {status}")
        return made

    def encode(self, bound, mode=3):
        size, values, quality = ctypes.c_size_t(), ctypes.c_void_p(self.array.ctypes.data), ctypes.c_double(bound)
        if len(self.n) == 2:
            words = [mode, quality, 0]
        else:
            words = [*(ctypes.c_size_t(min(n.value, 256)) for n in self.n), mode, quality, ctypes.c_size_t(1)]
        made = self.call("comp", values, 1, *self.n, *words, None, ctypes.byref(size))
        stream = ctypes.string_at(made, size.value)
        self.free(made)
        return stream

    def encode_psnr(self, decibels):
        return self.encode(decibels, 2)

    def decode(self, stream):
        found = [ctypes.c_size_t(n.value) for n in self.n]
        words = found if len(found) == 2 else [ctypes.c_size_t(1), *map(ctypes.byref, found)]
        made = self.call("decomp", stream, ctypes.c_size_t(len(stream)), 1, *words, None)
        if [n.value for n in found] != [n.value for n in self.n]:
            raise RuntimeError("the decoded array has other extents")
        ctypes.memmove(self.out.ctypes.data, made, self.out.nbytes)
        self.free(made)
        return self.out


class Zfp(Codec):
    install = "pip install zfpy"

    def open(self):
        self.zfpy, version = package("zfpy")
        return version

    def encode(self, bound):
        return self.zfpy.compress_numpy(self.array, tolerance=bound)

    def decode(self, stream):
        return self.zfpy.decompress_numpy(stream)


class ZfpRate(Zfp):
    bounds = False

    def encode_psnr(self, decibels):
        return self.zfpy.compress_numpy(self.array, rate=max(decibels / 10, 0.1))


class PFPL(Codec):
    install = "make serial in github.com/burtscher/PFPL, and name its folder bin/f32/serial in PFPL"

    def open(self):
        self.programs = [shutil.which(f"abs_{what}_ser", path=os.environ.get("PFPL")) for what in ("compress", "decompress")]
        if not all(self.programs):
            raise Missing
        self.folder = tempfile.TemporaryDirectory()
        self.files = [Path(self.folder.name, name) for name in ("values", "stream", "again")]
        self.array.tofile(self.files[0])

    def run(self, *words):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(words, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times = done.stdout.count("ecltime")
        if done.returncode or not times:
            raise RuntimeError(f"the program ended with {done.returncode}")
        self.seconds = (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / times

    def encode(self, bound):
        self.run(self.programs[0], *self.files[:2], repr(float(np.float32(bound))))
        return self.files[1].read_bytes()

    def decode(self, stream):
        self.files[2].unlink(missing_ok=True)
        self.run(self.programs[1], *self.files[1:])
        return np.fromfile(self.files[2], np.float32).reshape(self.array.shape)


class Zstd(Codec):
    lossless, install = True, "pip install numcodecs"

    def open(self):
        # Without its module for zfpy, which fails to read some version numbers of that package.
        sys.modules["numcodecs.zfpy"] = None
        numcodecs, version = package("numcodecs")
        numcodecs.blosc.use_threads = False
        self.codec = numcodecs.Blosc(cname="zstd", clevel=1, shuffle=numcodecs.Blosc.SHUFFLE)
        return version

    def encode(self, bound):
        return self.codec.encode(self.array)

    def decode(self, stream):
        return self.codec.decode(stream, out=self.out)


OURS = {f"gpuzip {name}": type(name, (Gpuzip,), {"compressor": name}) for name in ("lorenzo", "dct", "cuszp")}
OURS["gpuzip lossless"] = type("lossless", (Gpuzip,), {"compressor": "lossless", "lossless": True})
PUBLISHED = """published, not measured here: an autoencoder of wavefields (arXiv 2304.04781): ratio 64 at a mean relative error of 5 % over its
test data, which bounds no value; "close to ideal" is its time beside a run that keeps every state, without checkpointing"""
PEERS = {"SZ3": SZ3, "SPERR": SPERR, "zfp, tolerance": Zfp, "zfp, fixed rate": ZfpRate, "PFPL": PFPL, "zstd -1, shuffled": Zstd}


def checked(codec, stream):
    """The decoded values, none of them left over from before, their errors, and the PSNR."""
    codec.out.fill(np.nan)
    again = np.asarray(codec.decode(stream))
    if again.dtype != np.float32 or again.shape != codec.array.shape:
        raise RuntimeError(f"the decoded array has {again.dtype} values of shape {again.shape}")
    error = np.abs(again.astype(np.float64) - codec.array)
    if not np.isfinite(error).all():
        raise RuntimeError("decoded values are not finite")
    mean = float(np.mean(error**2))
    return again, error, 20 * np.log10(codec.range / mean**0.5) if mean else np.inf


def reach(codec, target):
    """The decibels to ask for that give the smallest stream found of at least so many decibels."""
    asked, low, high, best = target, -np.inf, np.inf, None
    for step in range(14):
        stream = codec.encode_psnr(asked)
        size, psnr = len(stream), checked(codec, stream)[2]
        if psnr < target:
            low = max(low, asked)
            asked += max(target + 0.02 - psnr, 0.3)
        else:
            high, best = min(high, asked), min(best or (size, asked), (size, asked))
            if psnr < target + 0.05:
                break
            asked += target + 0.02 - psnr
        # First by what is missing; then, and where this leaves the interval, by halves of it.
        if step > 5 and np.isfinite(high - low) or not low < asked < high:
            asked = (low + high) / 2
    if best is None:
        raise RuntimeError(f"{target:.1f} dB were not reached")
    return best[1]


def timed(codec, repeat, call, *words):
    """The result and the median time of at most `repeat` calls, of three if these take 3 seconds."""
    times = []
    while len(times) < repeat and (len(times) < 3 or sum(times) < 3):
        begin = time.process_time()
        result = call(*words)
        times.append(time.process_time() - begin)
        if codec.seconds is not None:
            return result, codec.seconds
    return result, statistics.median(times)


def row(codec, repeat, bound, decibels):
    """The cells behind those of the codec and of what was asked."""
    way = (codec.encode, bound) if decibels is None else (codec.encode_psnr, reach(codec, decibels))
    stream, coding = timed(codec, repeat, *way)
    again, error, psnr = checked(codec, stream)
    decoding = timed(codec, repeat, codec.decode, stream)[1]
    judged = ["–", "–"]
    if codec.lossless:
        judged[1] = np.count_nonzero(again.view(np.uint32) != codec.array.view(np.uint32))
    elif bound is not None:
        judged = [f"{error.max() / bound:.6f}", np.count_nonzero(error > bound)]
    l2 = 100 * np.sqrt(np.sum(error**2) / np.sum(codec.array.astype(np.float64) ** 2))
    size = codec.array.nbytes
    return [f"{size / len(stream):.2f}", f"{psnr:.1f}", f"{l2:.2g}", *judged, f"{size / coding / 1e9:.2f}", f"{size / decoding / 1e9:.2f}"]


def rows_of(name, array, repeat):
    """The version of a codec, None if it is missing, and its rows. Runs in a process of its own."""
    try:
        codec = {**OURS, **PEERS}[name](array)
    except Missing:
        return None, []
    except Exception as reason:
        return "", [["", f"failed: {reason}"]]
    rms = np.sqrt(np.mean(array.astype(np.float64) ** 2))
    asked = [(f"{x:g}", float(np.float32(x * np.abs(array).max())), None) for x in BOUNDS if codec.bounds]
    asked += [(f"{psnr} dB", None, psnr) for psnr in PSNRS] + [(f"{L2:.0%} L2", None, 20 * np.log10(codec.range / (L2 * rms)))]
    rows = []
    for what, bound, decibels in [("all bits", 0, None)] if codec.lossless else asked:
        try:
            rows.append([what, *row(codec, repeat, bound, decibels)])
        except Exception as reason:
            rows.append([what, f"failed: {reason}"])
    return codec.version or "", rows


def array_of(word):
    extents, _, path = word.rpartition(":")
    found = re.search(r"(\d+)x(\d+)(?:x(\d+))?", os.path.basename(path))
    if not extents and not found:
        sys.exit(f"{path}: its name has no extents: write N1,N2,N3:{path}")
    try:
        n = [int(k) for k in (extents.split(",") if extents else found.groups("1"))]
        values = np.fromfile(path, "<f4")
    except (OSError, ValueError) as reason:
        sys.exit(f"{word}: {reason}")
    while len(n) > 1 and n[-1] == 1:
        n.pop()
    if values.size != np.prod(n) or not np.isfinite(values).all() or np.ptp(values) == 0:
        sys.exit(f"{path}: these are not {' x '.join(map(str, n))} finite FP32 values that differ")
    return os.path.basename(path), values.reshape(n[::-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="calls per speed at most")
    parser.add_argument("--only", help="names of codecs as in the table, with ; between them")
    parser.add_argument("files", nargs="+", metavar="[N1,N2,N3:]FILE")
    given = parser.parse_args()
    names = given.only.split(";") if given.only else [*OURS, *PEERS]
    versions, failed = {}, False
    for title, array in map(array_of, given.files):
        print(f"\n{title}: {' x '.join(map(str, array.shape[::-1]))} values\n")
        print("| codec | asked | ratio | PSNR dB | L2 error % | max error | violations | compress | decompress GB/s |\n|" + "---|" * 9)
        for name in names:
            try:
                with concurrent.futures.ProcessPoolExecutor(1) as pool:
                    versions[name], rows = pool.submit(rows_of, name, array, max(1, given.repeat)).result()
            except concurrent.futures.process.BrokenProcessPool:
                versions[name], rows = "", [["", "failed: the process crashed"]]
            for what, *cells in rows:
                failed |= len(cells) == 1 and name in OURS
                print(f"| {name} | {what} | {' | '.join(map(str, cells + 6 * ['–'] if len(cells) == 1 else cells))} |", flush=True)
    print()
    for name, version in versions.items():
        if version:
            print(f"{name}: {version}")
        elif version is None:
            print(f"not found: {name}: {PEERS[name].install}")
    print(PUBLISHED)
    return failed


if __name__ == "__main__":
    sys.exit(main())
