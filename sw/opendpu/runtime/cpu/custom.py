# SPDX-License-Identifier: Apache-2.0
"""Custom ops in VART's form: a class that is made for an op and fills its output."""

import importlib
import importlib.util
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.runtime.tensor_buffer import TensorBuffer
from xir import Op, Tensor

Array = npt.NDArray[Any]

PACKAGE = "vart_op_imp"
"""Where VART looks for custom ops: a module and a class, both named like the op type."""


class CustomOp:
    """Computes ops with objects of one class, one object an op, one call of it at a time.

    The class is called with the op. Its ``calculate`` gets :class:`TensorBuffer` objects, by name
    as VART passes them: ``output``, and a list for each argument of the op (``input``, for an op
    type outside the library). A ``calculate`` that takes no such names gets the output and one
    list of all inputs, in this order.
    """

    def __init__(self, implementation: type) -> None:
        self._class = implementation
        self._objects: weakref.WeakKeyDictionary[Op, _Object] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def __call__(self, op: Op, inputs: Sequence[Array]) -> Array:
        """Return the result of an op."""
        with self._lock:
            found = self._objects.get(op)
            if found is None:
                found = self._objects[op] = _Object(self._class(op), op)
        output = TensorBuffer.create(op.get_output_tensor())
        given = [
            TensorBuffer.on(_in_type_of(tensor, array), tensor)
            for array, tensor in zip(inputs, op.get_input_tensors(), strict=True)
        ]
        found.calculate(op, output, given)
        return np.asarray(output)


def _in_type_of(tensor: Tensor, array: Array) -> Array:
    return np.ascontiguousarray(array, tensor.data_type.numpy()).reshape(tensor.dims)


class _Object:
    """An object of a user's class."""

    def __init__(self, made: Any, op: Op) -> None:
        self._method: Callable[..., Any] = made.calculate
        self._lock = threading.Lock()
        names = dict.fromkeys(op.get_input_ops())
        try:
            inspect.signature(self._method).bind(output=None, **names)
            self._by_name = True
        except TypeError:
            self._by_name = False

    def calculate(self, op: Op, output: TensorBuffer, inputs: list[TensorBuffer]) -> None:
        """Let the object fill ``output``."""
        with self._lock:
            if not self._by_name:
                self._method(output, inputs)
                return
            rest = iter(inputs)
            by_name = {
                name: [next(rest) for _ in sources] for name, sources in op.get_input_ops().items()
            }
            self._method(output=output, **by_name)


def find(kind: str) -> type | None:
    """Return the class for an op type out of the package ``vart_op_imp``, if there is one."""
    if not kind.isidentifier() or not _is_there():
        return None
    module = f"{PACKAGE}.{kind}"
    try:
        found = getattr(importlib.import_module(module), kind, None)
    except ModuleNotFoundError as error:
        if error.name not in (PACKAGE, module):
            raise
        return None
    return found if isinstance(found, type) else None


def _is_there() -> bool:
    """Tell whether there is such a package: every op of a graph asks for its module."""
    return PACKAGE in sys.modules or importlib.util.find_spec(PACKAGE) is not None
