"""CUDA streams: what an argument `stream` may be."""

from typing import Any, Optional


def handle_of(stream: Any) -> Optional[int]:
    """Returns the address of a CUstream.

    `stream` is None (the default stream), the address as an int, an object with the protocol
    `__cuda_stream__` (cuda.core), or a stream of PyTorch (`cuda_stream`), CuPy (`ptr`) or Numba
    (`handle`). 1, which other libraries write for the legacy default stream, is that stream.
    """
    if stream is None:
        return None
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        stream = (protocol() if callable(protocol) else protocol)[1]
    else:
        for name in ("cuda_stream", "ptr", "handle"):
            if hasattr(stream, name):
                stream = getattr(stream, name)
                break
    stream = getattr(stream, "value", stream)
    if stream is None:
        return None
    if not isinstance(stream, int):
        raise TypeError(
            f"stream: {type(stream).__name__} is neither an address (int) nor an object with "
            "__cuda_stream__, cuda_stream, ptr or handle"
        )
    return None if stream in (0, 1) else stream
