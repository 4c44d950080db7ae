"""Memory of the library as arrays of any library (zero copy)."""

import ctypes
import weakref
from typing import Any, Dict, List, Optional, Tuple

from ._arrays import _CPU, _CUDA, Described, _capsule_is, _DLTensor, _Versioned, strides_of, typestr_of
from ._library import Unshared, library
from .errors import ArrayError, StateError, check


class Lease:
    """Keeps the library's session. Whatever reads its memory holds this object: the session is freed
    with the last holder."""

    __slots__ = ("handle", "__weakref__")

    def __init__(self, handle: int) -> None:
        self.handle = handle


# Letters of the module struct.
_LETTERS = {
    "<f4": "f", "<f8": "d", "|i1": "b", "<i2": "h", "<i4": "i", "<i8": "q", "|u1": "B", "<u2": "H", "<u4": "I", "<u8": "Q",
    "|b1": "?",
}  # fmt: skip


class Memory(Unshared):
    """Memory of the library that holds one field of a state (zero copy).

    Shape, type and order are those of the field. `array` is it as a NumPy array, and `view()` without
    NumPy. `numpy.asarray`, `cupy.asarray` and the `from_dlpack` of any library make arrays of it, too.
    All of these are the memory itself, not a copy.

    The memory is valid as the call says that returned it. Afterwards every use of this object is a
    `StateError`, and memoryviews of `view()` are released. Arrays of other libraries cannot be taken
    back: they find another state then, but never memory that is not mapped, since they keep the session
    from being freed. After `commit`, and afterwards, `array` is read-only; arrays made of it before
    are not.
    """

    __slots__ = ("_at", "shape", "type", "dtype", "order", "readonly", "device", "stream", "_lease", "_gone", "_made", "_shown", "__weakref__")

    def __init__(
        self, data: int, found: Described, readonly: bool, device: bool = False, stream: Optional[int] = None,
        lease: Optional[Lease] = None, order: str = "C",
    ) -> None:  # fmt: skip
        self._at, self.shape, self.type, self.readonly = data, found.shape, found.type, readonly
        self.dtype: str = typestr_of(found)
        self.order, self.device, self.stream = order, device, stream
        self._lease, self._gone = lease, ""
        # Weak references to arrays and views, and whether an array that cannot be counted was made.
        self._made: List[Any] = []
        self._shown = False

    @property
    def data(self) -> int:
        """The address."""
        if self._gone:
            raise StateError(self._gone)
        return self._at

    @property
    def itemsize(self) -> int:
        return int(self.dtype[2:])

    @property
    def nbytes(self) -> int:
        count = self.itemsize
        for n in self.shape:
            count *= n
        return count

    def _bytes(self) -> Any:
        """The memory as bytes, which keep the session from being freed."""
        raw = (ctypes.c_char * self.nbytes).from_address(self.data)
        raw.lease = self._lease  # type: ignore[attr-defined]
        view = memoryview(raw).cast("B")
        return view.toreadonly() if self.readonly else view

    def _strides(self) -> Optional[Tuple[int, ...]]:
        return strides_of(self.shape, self.itemsize, "F") if self.order == "F" else None

    @property
    def __array_interface__(self) -> "Dict[str, Any]":
        if self.device:
            raise AttributeError("the memory is on a GPU: use __cuda_array_interface__")
        return {
            "data": self._bytes(),
            "shape": self.shape,
            "typestr": self.dtype,
            "strides": self._strides(),
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> "Dict[str, Any]":
        if not self.device:
            raise AttributeError("the memory is on the host: use __array_interface__")
        data, self._shown = (self.data, self.readonly), True
        return {
            "data": data,
            "shape": self.shape,
            "typestr": self.dtype,
            "strides": self._strides(),
            "version": 3,
            "stream": self.stream or 1,
        }

    @property
    def array(self) -> Any:
        """The memory as a NumPy array."""
        import numpy

        if self.device:
            raise ArrayError("the memory is on a GPU: use cupy.asarray or from_dlpack")
        made = numpy.asarray(self)
        self._made.append(weakref.ref(made))
        return made

    def view(self) -> memoryview:
        """Returns the memory as a memoryview of the field's shape, or in Fortran order of the reversed
        shape; of bytes if the values are complex or of half precision."""
        if self.device:
            raise ArrayError("the memory is on a GPU: use __cuda_array_interface__")
        view: memoryview = self._bytes()
        letter: Any = _LETTERS.get(self.dtype)
        if letter:
            shape = self.shape[::-1] if self.order == "F" else self.shape
            view = view.cast(letter, shape) if shape else view.cast(letter)
        self._made.append(weakref.ref(view))
        return view

    # DLPack.

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (_CUDA, _ordinal(self.data)) if self.device else (_CPU, 0)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        """The memory for `from_dlpack` of any library. Memory that is read-only needs a consumer of
        DLPack 1.0 or newer."""
        address = self.data
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("the memory is given as it is: ask for no copy, and for no other device")
        versioned = max_version is not None and max_version[0] >= 1
        if self.readonly and not versioned:
            raise BufferError("the memory is read-only, which needs DLPack 1.0: the consumer asked for an older one")
        if self.device and stream != -1 and (stream or 1) != (self.stream or 1) and self._lease:
            # The consumer's stream is another one than that of the memory.
            check(library.gpuzip_synchronize(self._lease.handle))
        capsule = _capsule(self, address, versioned)
        self._made.append(lambda: capsule)
        return capsule

    # What the session does.

    def _freeze(self) -> None:
        """Takes back the right to write."""
        self.readonly = True
        for made in self._made:
            array = made()
            if hasattr(array, "flags"):
                array.flags.writeable = False

    def _expire(self, why: str) -> None:
        """Ends the time in which the memory may be used."""
        self._freeze()
        self._gone = why
        for made in self._made:
            found = made()
            if isinstance(found, memoryview):
                try:
                    found.release()
                except BufferError:  # An array was made of the view.
                    pass
            elif found is not None and not hasattr(found, "flags"):
                _take_back(found)
        self._made.clear()
        # An array by __cuda_array_interface__ has this object as its owner.
        if not self._shown:
            self._lease = None

    def _gpuzip_memory(self, writable: bool) -> Described:
        """The memory as a field of a call."""
        data = self.data
        if writable and self.readonly:
            raise ArrayError("memory of a snapshot that is needed again is read-only")
        strides, stream = self._strides(), self.stream or 0
        return Described(
            data, self.shape, strides, self.type, self.itemsize, self.readonly, self.device, stream, self, self.dtype[1]
        )


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = (b"dltensor", b"dltensor_versioned")
_USED = b"used_dltensor"
_deleter_t = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_rename = ctypes.pythonapi.PyCapsule_SetName
_capsule_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
# What consumers of DLPack hold, by the address that their deleter is called with.
_given: Dict[int, Tuple[Any, ...]] = {}
_deleter = _deleter_t(lambda address, given=_given: given.pop(address, None) and None)
# Consumers may call it when the interpreter ends and this module is gone.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_deleter))


def _capsule(memory: Memory, address: int, versioned: bool) -> Any:
    rank = len(memory.shape)
    numbers = ctypes.c_int64 * max(rank, 1)
    shape = numbers(*memory.shape)
    strides = numbers(*strides_of(memory.shape, 1, memory.order))
    made: Any = _Versioned(major=1, flags=int(memory.readonly)) if versioned else _Managed()
    made.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
    device, ordinal = memory.__dlpack_device__()
    made.tensor = _DLTensor(
        address, device, ordinal, rank, _CODES[memory.dtype[1]], 8 * memory.itemsize, 1, shape, strides, 0
    )
    _given[ctypes.addressof(made)] = made, shape, strides, memory._lease
    return _capsule_new(ctypes.addressof(made), _NAMES[versioned], None)


def _take_back(capsule: Any) -> None:
    """Makes a capsule that no consumer has taken useless."""
    for name in _NAMES:
        if _capsule_is(capsule, name):
            _given.pop(_capsule_pointer(capsule, name), None)
            _capsule_rename(capsule, _USED)


def _ordinal(address: int) -> int:
    """The number of the device that has this memory."""
    number, wanted = ctypes.c_int(0), ctypes.c_int(9)  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    to = (ctypes.c_void_p * 1)(ctypes.addressof(number))
    driver = ctypes.CDLL("libcuda.so.1")
    status = driver.cuPointerGetAttributes(1, ctypes.byref(wanted), to, ctypes.c_uint64(address))
    if status != 0:
        raise ArrayError(f"the driver does not know the device of the memory: CUDA error {status}")
    return number.value
