"""Arrays on a GPU, by `__cuda_array_interface__` and by DLPack. tests/foreign/python.rs runs these tests on
the software CUDA driver."""

import array
import ctypes
import math
import os
import shutil
import subprocess
import sys
import unittest

import gpuzip
from support import initial, reverse, states, step

cuda = ctypes.CDLL("libcuda.so.1")


def driver(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: CUDA error {status}")


class Gpu:
    """The primary context of device 0, current in this thread."""

    context = ctypes.c_void_p()

    @classmethod
    def open(cls):
        if not cls.context.value:
            driver("cuInit", 0)
            driver("cuDevicePrimaryCtxRetain", ctypes.byref(cls.context), 0)
        driver("cuCtxSetCurrent", cls.context)


class Stream:
    """A CUDA stream with the protocol of cuda.core."""

    def __init__(self):
        Gpu.open()
        self.handle = ctypes.c_void_p()
        driver("cuStreamCreate", ctypes.byref(self.handle), 1)

    def __cuda_stream__(self):
        return 0, self.handle.value

    def wait(self):
        driver("cuStreamSynchronize", self.handle)


class Memory:
    """Device memory of FP64 values; the number of live objects is counted."""

    live = 0

    owned = False

    def __init__(self, values, stream=None):
        Gpu.open()
        self.owned = True
        self.values, self.stream = values, stream
        self.address = ctypes.c_uint64()
        driver("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(8 * values))
        Memory.live += 1

    def __del__(self):
        if self.owned:
            Memory.live -= 1
            cuda.cuMemFree_v2(self.address)

    def handle(self):
        return self.stream.handle if self.stream else ctypes.c_void_p()

    @classmethod
    def at(cls, address, values, stream):
        """Memory of somebody else."""
        memory = cls.__new__(cls)
        memory.values, memory.stream, memory.address = values, stream, ctypes.c_uint64(address)
        return memory

    def put(self, host):
        raw = (ctypes.c_double * self.values).from_buffer(host)
        driver("cuMemcpyHtoDAsync_v2", self.address, raw, ctypes.c_size_t(8 * self.values), self.handle())
        driver("cuStreamSynchronize", self.handle())

    def get(self):
        host = array.array("d", bytes(8 * self.values))
        raw = (ctypes.c_double * self.values).from_buffer(host)
        driver("cuMemcpyDtoHAsync_v2", raw, self.address, ctypes.c_size_t(8 * self.values), self.handle())
        driver("cuStreamSynchronize", self.handle())
        return host


class ByInterface(Memory):
    """An array by `__cuda_array_interface__`; without a stream of version 2."""

    readonly = False

    @property
    def __cuda_array_interface__(self):
        described = {
            "shape": (self.values,),
            "typestr": "<f8",
            "data": (self.address.value, self.readonly),
            "version": 3 if self.stream else 2,
        }
        if self.stream:
            described["stream"] = self.stream.handle.value
        return described


class ByDlpack(Memory):
    """An array whose only interface is DLPack, in a capsule of the first form."""

    _shape = (ctypes.c_int64 * 1)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, stream=None):
        self.asked = stream
        # DLManagedTensor: the tensor, then its context and its deleter.
        self.extents = self._shape(self.values)
        raw = gpuzip._arrays._DLTensor(self.address.value, 2, 0, 1, 2, 64, 1, self.extents, None, 0)
        self.managed = ctypes.create_string_buffer(bytes(raw) + bytes(16))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def compute(memory):
    """A time step, by way of the host."""
    host = memory.get()
    step(host)
    memory.put(host)


class Sessions(unittest.TestCase):
    KEYS = {"checkpointing_algorithm": "revolve", "checkpointing_snaps": 4, "cache_capacity": 3}

    def shot(self, memory, expected, **call):
        memory.put(initial())
        with gpuzip.Session(memory, 30, **self.KEYS) as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    compute(memory)
                elif action.type == gpuzip.SAVE:
                    session.save(action.ts, memory, **call)
                elif action.type == gpuzip.RESTORE:
                    session.retrieve(action.ts, memory, **call)
                else:
                    self.assertEqual(bytes(memory.get()), expected[action.ts])
            return session.stats()

    def test_the_cuda_array_interface_on_its_stream(self):
        stats = self.shot(ByInterface(5, Stream()), states(30))
        self.assertGreater(stats.d2h + stats.h2d, 0)

    def test_the_default_stream(self):
        self.shot(ByInterface(5), states(30))

    def test_dlpack_on_the_default_stream_and_on_a_given_one(self):
        memory = ByDlpack(5)
        self.shot(memory, states(30))
        self.assertEqual(memory.asked, 1)
        stream = Stream()
        memory = ByDlpack(5, stream)
        self.shot(memory, states(30), stream=stream)
        self.assertEqual(memory.asked, stream.handle.value)

    def test_arrays_on_different_streams_need_a_stream(self):
        first, second = ByInterface(5, Stream()), ByInterface(5, Stream())
        with gpuzip.Session(first, 3, **self.KEYS) as session:
            next(session)
            with self.assertRaisesRegex(gpuzip.ArrayError, "2 different streams"):
                session.save(0, first, second)
            session.save(0, first)

    def test_arrays_live_until_the_gpu_has_read_them(self):
        state = gpuzip.Field(shape=5, dtype="float64")
        with gpuzip.Session(state, 3, backend="cuda", **self.KEYS) as session:
            next(session)
            live = Memory.live
            memory = ByInterface(5, Stream())
            memory.put(initial())
            session.save(0, memory)
            del memory
            self.assertEqual(Memory.live, live + 1)
            session.synchronize()
            self.assertEqual(Memory.live, live)

    def test_read_only_arrays(self):
        memory = ByInterface(5)
        memory.put(initial())
        with gpuzip.Session(memory, 3, **self.KEYS) as session:
            for action in session:
                if action.type == gpuzip.SAVE:
                    session.save(action.ts, memory)
                elif action.type == gpuzip.RESTORE:
                    memory.readonly = True
                    with self.assertRaisesRegex(gpuzip.ArrayError, "read-only"):
                        session.retrieve(action.ts, memory)
                    break

    def test_callbacks(self):
        expected, stream = states(30), Stream()
        buffers, live, seen, observed = [ByInterface(5, stream) for _ in range(2)], [0], [], []

        def forward(ts, ts_end, flags):
            host = buffers[live[0]].get()
            step(host)
            live[0] = 1 - live[0]
            buffers[live[0]].put(host)

        def backward(ts, flags):
            seen.append(ts)
            self.assertEqual(bytes(buffers[live[0]].get()), expected[ts])

        with gpuzip.Session(buffers[0], 30, **self.KEYS) as session:
            for _ in range(2):
                live[0] = 0
                buffers[0].put(initial())
                session.run(forward, backward, buffers[0], locate=lambda kind, ts: buffers[live[0]], observe=lambda *it: observed.append(it))
                session.setup()
        self.assertEqual(seen, 2 * list(range(29, -1, -1)))
        self.assertGreater(len(observed), 8)

    def test_exceptions_of_callbacks(self):
        memory, reason = ByInterface(5, Stream()), ValueError("in the time step")
        memory.put(initial())

        def forward(ts, ts_end, flags):
            if ts == 17:
                raise reason
            compute(memory)

        with gpuzip.Session(memory, 30, **self.KEYS) as session:
            with self.assertRaises(ValueError) as caught:
                session.run(forward, None, memory)
            self.assertIs(caught.exception, reason)

    def test_zero_copy(self):
        """A program that computes in the memory of the session, on its stream."""
        expected, stream = states(30), Stream()
        own = ByInterface(5, stream)

        def at(slot):
            described = slot[0].__cuda_array_interface__
            self.assertEqual((described["shape"], described["stream"]), ((5,), stream.handle.value))
            with self.assertRaisesRegex(gpuzip.ArrayError, "on a GPU"):
                slot[0].view()
            return Memory.at(described["data"][0], 5, stream)

        for algorithm in ("revolve", "store-all"):
            keys = {**self.KEYS, "checkpointing_algorithm": algorithm, "cache_capacity": 4}
            own.put(initial())
            u, begun, acquired = own, None, 0
            with gpuzip.Session(own, 30, zero_copy=True, **keys) as session:
                for action in session:
                    if action.type == gpuzip.FORWARD:
                        host = u.get()
                        step(host)
                        u = own
                        if action.next_is_save:
                            begun = session.save_begin(action.ts, stream)
                            u = at(begun)
                        u.put(host)
                    elif action.type == gpuzip.SAVE:
                        if action.ts == 0:
                            begun = session.save_begin(0, stream)
                            at(begun).put(u.get())
                        begun.commit()
                    elif action.type == gpuzip.RESTORE:
                        slot = session.retrieve_acquire(action.ts, stream)
                        acquired += 1
                        self.assertTrue(slot[0].__cuda_array_interface__["data"][1])
                        u = at(slot)
                    else:
                        self.assertEqual(bytes(u.get()), expected[action.ts])
                self.assertEqual(acquired, session.stats().restores)

    def test_zero_copy_by_dlpack(self):
        class ByDlpackOnly:
            def __init__(self, memory):
                self.__dlpack__, self.__dlpack_device__ = memory.__dlpack__, memory.__dlpack_device__

        class Consumer:
            """What a consumer of DLPack does on its stream."""

            def __init__(self, memory, stream):
                self.found = gpuzip._arrays.describe(ByDlpackOnly(memory), False, stream.handle.value)
                self.array = Memory.at(self.found.data, 5, stream)

        expected, stream, other = states(30), Stream(), Stream()
        own = ByInterface(5, stream)
        own.put(initial())
        u = own
        with gpuzip.Session(own, 30, zero_copy=True, **self.KEYS) as session:
            for action in session:
                if action.type == gpuzip.FORWARD:
                    host = u.get()
                    step(host)
                    u = own
                    u.put(host)
                elif action.type == gpuzip.SAVE:
                    slot = session.save_begin(action.ts, stream)
                    self.assertEqual(slot[0].__dlpack_device__(), (2, 0))
                    made = Consumer(slot[0], stream)
                    self.assertEqual((made.found.data, made.found.readonly), (slot[0].data, False))
                    made.array.put(u.get())
                    slot.commit()
                    self.assertTrue(Consumer(slot[0], stream).found.readonly)
                elif action.type == gpuzip.RESTORE:
                    # A consumer on another stream finds the state, too.
                    memory = session.retrieve_acquire(action.ts, stream)[0]
                    u = Consumer(memory, other).array
                    own.put(u.get())
                    u = own
                else:
                    self.assertEqual(bytes(u.get()), expected[action.ts])
        with self.assertRaisesRegex(gpuzip.StateError, "given back"):
            memory.__cuda_array_interface__

    def test_streams_of_dlpack_on_a_driver_that_is_late(self):
        # Where nothing orders a read behind a transfer, this mode reads first.
        name = "test_gpu.Sessions.test_zero_copy_by_dlpack"
        words, folder = [sys.executable, "-m", "unittest", name], os.path.dirname(os.path.abspath(__file__))
        done = subprocess.run(words, cwd=folder, env={**os.environ, "CUDA_EMU_MODE": "late"}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_array_keeps_the_memory_of_a_session_that_ended(self):
        class Array:
            """An array of CuPy: it has its owner, and what that said."""

            def __init__(self, memory):
                self.owner, self.said = memory, memory.__cuda_array_interface__

        session = gpuzip.Session(ByInterface(5), 9, zero_copy=True, **self.KEYS)
        session.get_action()
        slot = session.save_begin(0)
        array = Array(slot[0])
        memory = Memory.at(array.said["data"][0], 5, None)
        memory.put(initial())
        slot.commit()
        session.finalize()
        finalizer = session._finalizer
        self.assertTrue(finalizer.alive)
        self.assertEqual(memory.get(), initial())
        del array, slot
        self.assertFalse(finalizer.alive)


@unittest.skipUnless(shutil.which("c++"), "the software driver needs a compiler for kernels")
class Codecs(unittest.TestCase):
    KEYS = {"compressor": "dct", "error_bound": 1e-4}

    def test_the_streams_are_those_of_the_host(self):
        stream = Stream()
        for kind in (ByInterface, ByDlpack):
            values = array.array("d", (math.sin(0.1 * i) for i in range(3000)))
            field = kind(3000, stream)
            field.put(array.array("d", values))
            sizes = gpuzip.device_sizes(field, **self.KEYS)
            coded, work = kind(sizes.coded // 8, stream), kind(sizes.work // 8, stream)
            result = kind(gpuzip.RESULT_BYTES // 8, stream)
            gpuzip.encode_device(coded, work, result, field, stream=stream, **self.KEYS)
            expected = gpuzip.encode(values, **self.KEYS)
            self.assertEqual(gpuzip.device_result(result.get()), len(expected))
            self.assertEqual(bytes(coded.get())[: len(expected)], expected)
            field.put(array.array("d", bytes(8 * 3000)))
            gpuzip.decode_device(coded, work, result, field, stream=stream, **self.KEYS)
            self.assertEqual(gpuzip.device_result(result.get()), len(expected))
            on_host = array.array("d", bytes(8 * 3000))
            gpuzip.decode(expected, on_host)
            self.assertEqual(field.get(), on_host)

    def test_errors(self):
        stream = Stream()
        field, keys = ByInterface(100, stream), {**self.KEYS, "nonfinite": "error"}
        field.put(array.array("d", [math.nan] * 2 + [1.0] * 98))
        sizes = gpuzip.device_sizes(gpuzip.Field(shape=100, dtype="float64"), **keys)
        coded, work = ByInterface(sizes.coded // 8, stream), ByInterface(sizes.work // 8, stream)
        result = ByInterface(gpuzip.RESULT_BYTES // 8, stream)
        gpuzip.encode_device(coded, work, result, field, **keys)
        with self.assertRaisesRegex(gpuzip.ValuesError, "field 0 holds 2 values"):
            gpuzip.device_result(result.get())
        coded.put(array.array("d", bytes(sizes.coded)))
        gpuzip.decode_device(coded, work, result, field, **keys)
        with self.assertRaises(gpuzip.StreamError):
            gpuzip.device_result(result.get())
        with self.assertRaisesRegex(gpuzip.ArgumentError, "work_bytes = 800"):
            gpuzip.encode_device(coded, ByInterface(100, stream), result, field, **keys)
        with self.assertRaisesRegex(gpuzip.ArrayError, "on the GPU"):
            gpuzip.encode_device(array.array("d", bytes(sizes.coded)), work, result, field, **keys)

if __name__ == "__main__":
    unittest.main()
