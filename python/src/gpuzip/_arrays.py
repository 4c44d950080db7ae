"""Arrays of any library as fields of the C interface."""

import ctypes
import sys
from operator import index
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from . import _abi
from .errors import ArgumentError, ArrayError
from .streams import handle_of

_ssize = ctypes.c_ssize_t


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p),
        ("obj", ctypes.c_void_p),
        ("len", _ssize),
        ("itemsize", _ssize),
        ("readonly", ctypes.c_int),
        ("ndim", ctypes.c_int),
        ("format", ctypes.c_char_p),
        ("shape", ctypes.POINTER(_ssize)),
        ("strides", ctypes.POINTER(_ssize)),
        ("suboffsets", ctypes.POINTER(_ssize)),
        ("internal", ctypes.c_void_p),
    ]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int)
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = (ctypes.POINTER(_Buffer),)
_release_buffer.restype = None
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer.restype = ctypes.c_void_p
_has_buffer = ctypes.pythonapi.PyObject_CheckBuffer
_has_buffer.argtypes = (ctypes.py_object,)

# PyBUF_STRIDED_RO | PyBUF_FORMAT
_STRIDED = 0x18 | 4
_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}

# Kind of a value and its bytes: the type of the C interface. Half precision and booleans are stored
# exactly, as integers of their size are.
_TYPES = {
    ("f", 4): _abi.TYPE_F32,
    ("f", 8): _abi.TYPE_F64,
    ("f", 2): _abi.TYPE_I16,
    ("c", 8): _abi.TYPE_COMPLEX_F32,
    ("c", 16): _abi.TYPE_COMPLEX_F64,
    ("b", 1): _abi.TYPE_I8,
    ("S", 1): _abi.TYPE_BYTE,
    ("V", 1): _abi.TYPE_BYTE,
}
for _kind in "iu":
    for _type, _bytes in enumerate((1, 2, 4, 8), _abi.TYPE_I8):
        _TYPES[_kind, _bytes] = _type
# Type of the C interface: kind and bytes in the notation of NumPy.
TYPESTRS = {
    _abi.TYPE_F32: "<f4",
    _abi.TYPE_F64: "<f8",
    _abi.TYPE_I8: "|i1",
    _abi.TYPE_I16: "<i2",
    _abi.TYPE_I32: "<i4",
    _abi.TYPE_I64: "<i8",
    _abi.TYPE_COMPLEX_F32: "<c8",
    _abi.TYPE_COMPLEX_F64: "<c16",
    _abi.TYPE_BYTE: "|u1",
}
# Characters of the module struct, and those that NumPy adds to them: kind of the value.
_KINDS = {**dict.fromkeys("efd", "f"), "Z": "c", "?": "b", "c": "S", "s": "S"}
_KINDS.update(dict.fromkeys("bhilqn", "i"))
_KINDS.update(dict.fromkeys("BHILQN", "u"))
_NAMES = {
    "float": ("f", 8),
    "double": ("f", 8),
    "half": ("f", 2),
    "single": ("f", 4),
    "complex": ("c", 16),
    "int": ("i", 8),
    "bool": ("b", 1),
    "bool_": ("b", 1),
    "bytes": ("S", 1),
}


def type_of(dtype: Any) -> Tuple[int, str]:
    """Returns the type of the C interface for a dtype of any library, or for its name, and the kind of
    its values in the notation of NumPy."""
    text = getattr(dtype, "str", None)  # numpy.dtype
    if not isinstance(text, str):
        text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = text.split(".")[-1]  # torch.float32
    if name[:1] in "<>|=" and len(name) > 1:
        return _typestr(name), name[1]
    word, digits = name.rstrip("0123456789"), name[len(name.rstrip("0123456789")) :]
    if len(word) == 1 and digits:
        kind, size = word, int(digits)
    elif digits:
        kinds = {"float": "f", "complex": "c", "int": "i", "uint": "u", "bfloat": "f"}
        kind, size = kinds.get(word, ""), int(digits) // 8
    else:
        kind, size = _NAMES.get(name, ("", 0))
    found = _TYPES.get((kind, size))
    if found is None:
        raise ArrayError(f"there is no type of fields for {dtype!r}")
    # NumPy has no bfloat16.
    return found, "" if word == "bfloat" else kind


def typestr_of(found: "Described") -> str:
    """Returns the type of the values in the notation of NumPy; bytes for other types of one byte."""
    if found.kind in ("", "S", "V"):
        return TYPESTRS[found.type]
    return f"{'|' if found.itemsize == 1 else '<'}{found.kind}{found.itemsize}"


def _typestr(text: str) -> int:
    found = _TYPES.get((text[1:2], int(text[2:]))) if text[2:].isdigit() else None
    if found is None or (text[0] == ">" and text[2:] != "1") or sys.byteorder != "little":
        raise ArrayError(f"values of type {text} cannot be fields; pass a view of them as bytes")
    return found


_FORMATS: "dict[Tuple[bytes, int], Tuple[int, str]]" = {}


def _format_type(form: bytes, itemsize: int) -> Tuple[int, str]:
    """Returns the type and the kind of the values for a format of the buffer protocol."""
    known = _FORMATS.get((form, itemsize))
    if known is not None:
        return known
    text = form.decode("latin-1")
    plain = text[1:] if text[:1] in ("@", "=", "<") else text
    kind = _KINDS.get(plain[:1], "") if len(plain) == 1 or plain in ("Zf", "Zd", "1s") else ""
    found = _TYPES.get((kind, itemsize))
    if found is None:
        raise ArrayError(
            f"values with the format {text!r} of {itemsize} bytes cannot be fields: the types are "
            "floats of 2, 4 and 8 bytes, complex values of 8 and 16, integers of 1 to 8 and bytes, "
            "in the byte order of this machine"
        )
    _FORMATS[form, itemsize] = found, kind
    return found, kind


class Described(NamedTuple):
    """What an array is; strides are in bytes, None if the array is contiguous in C order."""

    data: int
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    type: int
    itemsize: int
    readonly: bool
    # Whether the array named itself as memory of a CUDA device or as managed memory.
    device: bool
    # Address of the stream that orders the work on the array; 0: the array names none.
    stream: int
    # Keeps the memory valid while it exists.
    owner: Any
    # Kind of the values in the notation of NumPy; "" where NumPy has none.
    kind: str


class _Held:
    """A buffer of the buffer protocol, released when this object goes."""

    __slots__ = ("view",)

    def __init__(self, array: Any) -> None:
        self.view = _Buffer()
        _get_buffer(array, self.view, _STRIDED)

    def __del__(self, release: Any = _release_buffer) -> None:
        if self.view.obj:
            release(self.view)


def _by_buffer(array: Any) -> Described:
    try:
        held = _Held(array)
    except (BufferError, ValueError, TypeError) as reason:
        raise ArrayError(f"{type(array).__name__} gives no access to its memory: {reason}") from None
    view = held.view
    n, form, size = view.ndim, view.format or b"B", view.itemsize
    shape = tuple(view.shape[:n]) if n else ()
    strides = tuple(view.strides[:n]) if n and view.strides else None
    found, kind = _format_type(form, size)
    return Described(view.buf or 0, shape, strides, found, size, bool(view.readonly), False, 0, held, kind)


def _by_cuda(array: Any, described: Any) -> Described:
    """The array by `__cuda_array_interface__`."""
    if described.get("mask") is not None:
        raise ArrayError("an array with a mask cannot be a field")
    data, readonly = described["data"]
    text, strides, stream = described["typestr"], described.get("strides"), described.get("stream")
    if stream is None and type(array).__module__.split(".")[0] == "torch":
        # PyTorch's interface (version 2) does not name the stream.
        stream = sys.modules["torch"].cuda.current_stream(array.device).cuda_stream
    return Described(
        int(data or 0),
        tuple(map(int, described["shape"])),
        None if strides is None else tuple(map(int, strides)),
        _typestr(text),
        int(text[2:]),
        bool(readonly),
        True,
        stream or 0,
        (array, described),
        text[1],
    )


def _by_dlpack(array: Any, stream: Optional[int], writable: bool) -> Described:
    device = array.__dlpack_device__()[0]
    if device not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise ArrayError(
            f"{type(array).__name__} is on a device of the kind {_DEVICES.get(device, device)}: "
            "fields are in memory of the host or of a CUDA device"
        )
    # 1 is the legacy default stream, in which the producer then orders its work before ours.
    keys = {} if device == _CPU else {"stream": stream or 1}
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **keys)
    except TypeError:
        capsule = array.__dlpack__(**keys)
    except BufferError as reason:
        raise ArrayError(f"{type(array).__name__} gives no access to its memory: {reason}") from None
    flags = 0
    if _capsule_is(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise ArrayError(f"DLPack {versioned.major}.{versioned.minor} is not known; 1.x is")
        tensor, flags = versioned.tensor, versioned.flags
    elif _capsule_is(capsule, b"dltensor"):
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise ArrayError("__dlpack__ gave no capsule of a tensor, or one that was used before")
    n, size = tensor.ndim, tensor.bits // 8
    kind = {0: "i", 1: "u", 2: "f", 3: "V", 4: "f", 5: "c", 6: "b"}.get(tensor.code, "")
    found = _TYPES.get((kind, size)) if tensor.lanes == 1 and tensor.bits % 8 == 0 else None
    if found is None:
        raise ArrayError(
            f"{type(array).__name__}: values of DLPack's type code {tensor.code} with "
            f"{tensor.lanes} x {tensor.bits} bits cannot be fields"
        )
    if writable and flags & 2:
        raise ArrayError(f"{type(array).__name__}: DLPack gives a copy, which cannot be written to")
    strides = tuple(s * size for s in tensor.strides[:n]) if tensor.strides else None
    return Described(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[:n]),
        strides,
        found,
        size,
        bool(flags & 1),
        device in (_CUDA, _CUDA_MANAGED),
        0,
        capsule,
        "" if tensor.code == 4 else kind,
    )


def describe(array: Any, writable: bool, stream: Optional[int] = None) -> Described:
    """Finds the memory of an array: by `__cuda_array_interface__`, by the buffer protocol, or by
    DLPack, in this order."""
    own: Optional[Callable[[bool], Described]] = getattr(array, "_gpuzip_memory", None)
    if own is not None:
        return own(writable)
    cuda = getattr(array, "__cuda_array_interface__", None)
    if cuda is not None:
        found = _by_cuda(array, cuda)
    elif _has_buffer(array):
        found = _by_buffer(array)
    elif hasattr(array, "__dlpack__"):
        found = _by_dlpack(array, stream, writable)
    elif isinstance(array, Mapping):
        raise ArrayError(f"a {type(array).__name__} is not an array: give a list of its arrays, list(state.values())")
    else:
        raise ArrayError(
            f"{type(array).__name__} is not an array: it has neither the buffer protocol nor "
            "__cuda_array_interface__ nor __dlpack__"
        )
    if writable and found.readonly:
        raise ArrayError(
            f"{type(array).__name__} of shape {found.shape} is read-only, and the call writes to it: "
            "pass an array that can be written to"
        )
    return found


def _layout_error(found: Described, why: str) -> ArrayError:
    return ArrayError(
        f"the array of shape {found.shape} and strides {found.strides} bytes {why}: pass a "
        "contiguous copy (numpy.ascontiguousarray), or for an array in Fortran order its transpose or "
        'gpuzip.Field(array, order="F")'
    )


def extents_of(shape: Any) -> Tuple[int, ...]:
    """Returns a shape as a tuple of ints: a number is the shape of one dimension."""
    extents = tuple(map(index, shape)) if hasattr(shape, "__iter__") else (index(shape),)
    if any(n < 1 for n in extents):
        raise ArrayError(f"a field of shape {extents} has no values")
    return extents


def int32(name: str, value: Any) -> int:
    """Returns a whole number of any type as an int that C's int32_t can hold; ctypes would drop
    the upper bits of a larger one."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} = {value!r}: use a whole number") from None
    if not -(2**31) <= number < 2**31:
        raise ArgumentError(f"{name} = {number}: use a number from {-(2**31)} to {2**31 - 1}")
    return number


def _extents(shape: Sequence[int]) -> Tuple[int, int, int]:
    """n1, n2, n3 of a shape in C order: the last dimension is n1, and all dimensions before the
    last two are n3."""
    n3 = 1
    for n in shape[:-2]:
        n3 *= n
    return (
        shape[-1] if shape else 1,
        shape[-2] if len(shape) > 1 else 1,
        n3,
    )


def strides_of(shape: Sequence[int], size: int, order: str) -> Tuple[int, ...]:
    """Returns the strides, in bytes, of a contiguous array with values of `size` bytes."""
    strides, step = [], size
    for n in shape if order == "F" else reversed(shape):
        strides.append(step)
        step *= n
    return tuple(strides if order == "F" else reversed(strides))


def fill(field: _abi.gpuzip_field_t, found: Described, order: str) -> None:
    """Writes address, extents, pitches and type of an array to a field: n1 is the last dimension in
    C order, and the first one in Fortran order."""
    strides, size, shape = found.strides, found.itemsize, found.shape
    if order == "F":
        strides = (strides_of(shape, size, "C") if strides is None else strides)[::-1]
        shape = shape[::-1]
    n1, n2, n3 = _extents(shape)
    field.data, field.type = found.data, found.type
    field.n1, field.n2, field.n3 = n1, n2, n3
    if strides is None:
        return
    step, contiguous = size, True
    for n, stride in zip(reversed(shape), reversed(strides)):
        contiguous = contiguous and (n == 1 or stride == step)
        step *= n
    if contiguous:
        return
    if n1 > 1 and strides[-1] != size:
        raise _layout_error(found, "has no contiguous rows")
    row = strides[-2] if n2 > 1 else n1 * size
    if row < n1 * size or row % size:
        raise _layout_error(found, "has rows that overlap, or in descending order")
    plane, step = n2 * row, 0
    for n, stride in zip(reversed(shape[:-2]), reversed(strides[:-2])):
        if n == 1:
            continue
        if step == 0:
            plane = stride
        elif stride != step:
            raise _layout_error(found, "has more than three dimensions, and gaps between the outer ones")
        step = stride * n
    if n3 > 1 and (plane < (n2 - 1) * row + n1 * size or plane % size):
        raise _layout_error(found, "has planes that overlap, or in descending order")
    field.pitch2, field.pitch3 = row // size, plane // size


class Field:
    """One array of the state, where an array alone does not say enough.

    `Field(array, role=1)` is the previous time level of the field with number 0. `Field(array,
    order="F")` is in Fortran order: adjacent values lie along the first axis. `Field(shape=(96, 64,
    48), dtype="float32")` describes a field without memory: its shape, by default in C order, so that
    adjacent values lie along the last axis, and the type of its values as a name or a dtype of any
    library.
    """

    __slots__ = ("array", "shape", "dtype", "role", "order")

    def __init__(self, array: Any = None, *, shape: Any = None, dtype: Any = None, role: int = 0, order: str = "C") -> None:
        if (array is None) == (shape is None) or (shape is None) != (dtype is None):
            raise TypeError("Field takes an array, or a shape and a dtype")
        if order not in ("C", "F"):
            raise ArrayError(f'order = {order!r}: use "C" (the last axis has adjacent values) or "F" (the first)')
        self.array, self.dtype, self.role, self.order = array, dtype, role, order
        self.shape: Any = None if shape is None else extents_of(shape)

    def __repr__(self) -> str:
        what = f"shape={self.shape}, dtype={self.dtype!r}" if self.array is None else repr(self.array)
        return f"Field({what}, role={self.role}, order={self.order!r})"


class Fields(NamedTuple):
    """Arrays, ready for a call."""

    array: Any
    count: int  # type: ignore[assignment]  # tuple.count
    stream: Optional[int]
    # Whether an array is on a GPU.
    device: bool
    owners: List[Any]
    found: List[Described]
    orders: List[str]
    # Whether every field has memory.
    memory: bool


def fields_of(
    arrays: Sequence[Any], writable: bool, stream: Any = None, roles: Sequence[int] = (), orders: Sequence[str] = ()
) -> Fields:
    """Makes the fields of a call. Without `stream` the arrays name the stream. `orders` are those of the
    session's fields."""
    given = handle_of(stream)
    made = (_abi.gpuzip_field_t * len(arrays))()
    owners, described, used, device, memory, streams = [], [], [], False, True, set()
    for k, array in enumerate(arrays):
        field = made[k]
        order = orders[k] if orders else "C"
        if type(array) is Field:
            if orders and order != array.order:
                raise ArrayError(f"field {k} is in order {array.order!r}, and the session's in {order!r}")
            field.role, order = array.role, array.order
            if array.array is None:
                kind, letter = type_of(array.dtype)
                found = Described(0, array.shape, None, kind, int(TYPESTRS[kind][2:]), False, False, 0, None, letter)
                fill(field, found._replace(strides=strides_of(array.shape, found.itemsize, order)), order)
                described.append(found)
                used.append(order)
                memory = False
                continue
            array = array.array
        if roles:
            field.role = roles[k]
        found = describe(array, writable, given)
        try:
            fill(field, found, order)
        except ArrayError as reason:
            raise ArrayError(f"field {k}: {reason}") from None
        owners.append(found.owner)
        described.append(found)
        used.append(order)
        device = device or found.device
        if found.device:
            streams.add(handle_of(found.stream))
    if stream is None and streams:
        if len(streams) > 1:
            raise ArrayError(
                f"the arrays name {len(streams)} different streams: give the one that orders the "
                "work on all of them as `stream`"
            )
        given = streams.pop()
    return Fields(made, len(arrays), given, device, owners, described, used, memory)
