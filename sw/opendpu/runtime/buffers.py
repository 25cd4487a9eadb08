# SPDX-License-Identifier: Apache-2.0
"""Memory of other libraries, seen as arrays without a copy."""

from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import TensorError


def view(value: Any, raw: np.dtype[Any], label: str) -> npt.NDArray[Any]:
    """Return an array on the memory of ``value``.

    Taken are arrays; what has Python's buffer protocol (``memoryview``, ``array.array``, ctypes
    arrays, ``mmap``), where plain bytes are elements of the type ``raw``; and what hands out its
    memory as DLPack or by numpy's array interface, as tensors of PyTorch and others do.

    Raises
    ------
    TensorError
        ``value`` is none of these, its memory is not on the CPU, or bytes do not divide into
        elements; ``label`` says which tensor it was meant for.
    """
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray) if isinstance(value, np.matrix) else value
    try:
        memory = memoryview(value)
    except TypeError:
        return _exchanged(value, label)
    if memory.format != "B" or memory.ndim != 1:
        return np.asarray(memory)
    if memory.nbytes % raw.itemsize:
        raise TensorError(
            f"{label} has {memory.nbytes} bytes, but must be whole {raw} elements",
            code="VART_TENSOR_BUFFER_CHECK_ERROR",
        )
    return np.frombuffer(memory, raw)


def _exchanged(value: Any, label: str) -> npt.NDArray[Any]:
    try:
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        if hasattr(value, "__array_interface__"):
            return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TensorError(
            f"{label} is a {type(value).__name__} without memory: {error}",
            code="VART_TENSOR_BUFFER_INVALID",
        ) from None
    raise TensorError(
        f"{label} is a {type(value).__name__}, but must be an array or have the buffer protocol, "
        "__dlpack__ or __array_interface__",
        code="VART_TENSOR_BUFFER_INVALID",
    )
