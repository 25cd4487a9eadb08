# SPDX-License-Identifier: Apache-2.0
"""Custom ops in shared libraries, ``libvart_op_imp_<type>.so`` of C++: ``docs/cpp.md``.

The library was linked with the one that :mod:`opendpu.cpp` builds, which makes objects of C++ from
those of Python; so its functions are found in it.
"""

import ctypes
import pathlib
import re
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import ToolError, UnsupportedError
from xir import Op

Array = npt.NDArray[Any]

_MESSAGE = 1024
"""Bytes for the text of an error."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")


class NativeOp:
    """Computes the ops of one type by a library; one object of C++ an op, one call at a time.

    Parameters
    ----------
    library
        A file, or a name that the loader looks for (``LD_LIBRARY_PATH``, ``/usr/lib``).

    Raises
    ------
    ToolError
        The library cannot be loaded, or is no custom op.
    """

    def __init__(self, library: str | pathlib.Path) -> None:
        self._name = str(library)
        try:
            loaded = ctypes.PyDLL(self._name)
        except OSError as error:
            raise ToolError(f"{self._name} cannot be loaded: {error}") from error
        try:
            self._init = loaded.vart_init_op_imp
            self._open = loaded.opendpu_custom_op_open
            self._calculate = loaded.opendpu_custom_op_calculate
            self._close = loaded.opendpu_custom_op_close
        except AttributeError as error:
            raise ToolError(
                f"{self._name} is no custom op, or was not linked with -lvart-runner of "
                f"python -m opendpu.cpp: {error}"
            ) from error
        self._open.restype = ctypes.c_void_p
        self._open.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p, ctypes.c_size_t]
        self._calculate.argtypes = [
            ctypes.c_void_p, ctypes.py_object, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_size_t,
        ]  # fmt: skip
        self._close.argtypes = [ctypes.c_void_p]
        self._close.restype = None
        self._objects: weakref.WeakKeyDictionary[Op, int] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, op: Op, inputs: Sequence[Array]) -> Array:
        """Return the result of an op; UnsupportedError if the library refuses or fails."""
        given = [
            np.ascontiguousarray(array, tensor.data_type.numpy()).reshape(tensor.dims)
            for array, tensor in zip(inputs, op.get_input_tensors(), strict=True)
        ]
        tensor = op.get_output_tensor()
        result = np.zeros(tensor.dims, tensor.data_type.numpy())
        addresses = [array.ctypes.data for array in given]
        message = ctypes.create_string_buffer(_MESSAGE)
        with self._lock:
            status = self._calculate(
                self._object(op), addresses, result.ctypes.data, message, _MESSAGE
            )
        if status:
            text = message.value.decode(errors="replace") or f"its calculate returned {status}"
            raise UnsupportedError(f"{self._name}: {text}")
        return result

    def _object(self, op: Op) -> int:
        found = self._objects.get(op)
        if found is None:
            message = ctypes.create_string_buffer(_MESSAGE)
            init = ctypes.cast(self._init, ctypes.c_void_p)
            made = self._open(init, op, message, _MESSAGE)
            if not made:
                raise UnsupportedError(f"{self._name}: {message.value.decode(errors='replace')}")
            found = self._objects[op] = int(made)
            weakref.finalize(op, self._close, made).atexit = False
        return found


def find(kind: str) -> NativeOp | None:
    """Return what computes an op type by VART's name of the library, if there is one.

    Raises
    ------
    ToolError
        There is a library, but it cannot be used.
    """
    if not _NAME.fullmatch(kind):
        return None
    library = f"libvart_op_imp_{kind}.so"
    try:
        return NativeOp(library)
    except ToolError as error:
        if f"{library}: cannot open shared object file: No such file" in str(error):
            return None
        raise
