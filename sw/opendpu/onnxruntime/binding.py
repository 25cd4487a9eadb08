# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs that are bound to memory, for sessions without onnxruntime's library."""

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from opendpu.ir import Array
from opendpu_arch.errors import TensorError, UnsupportedError


class Region:
    """Memory of a program: what lies there, and how.

    Parameters
    ----------
    address
        Where it begins.
    dtype, shape
        Of the array in it.
    """

    def __init__(self, address: int, dtype: np.dtype[Any], shape: Sequence[int]) -> None:
        self.address, self.dtype, self.shape = address, dtype, tuple(shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self) -> Array:
        """Return a copy of what lies there."""
        raw = ctypes.string_at(self.address, self.size)
        return np.frombuffer(raw, self.dtype).reshape(self.shape)

    def write(self, array: Array, name: str) -> None:
        """Put an array there.

        Raises
        ------
        TensorError
            It is another one than the memory was bound for.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            raise TensorError(
                f"output {name!r} is {array.dtype} {list(array.shape)}, but was bound to memory "
                f"for {self.dtype} {list(self.shape)}"
            )
        ctypes.memmove(self.address, np.ascontiguousarray(array).ctypes.data, self.size)


class IOBinding:
    """Names of a session bound to memory of the CPU, with the interface of onnxruntime's class.

    Parameters
    ----------
    inputs, outputs
        Names that the session has.
    """

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._names = {"input": tuple(inputs), "output": tuple(outputs)}
        self._inputs: dict[str, Array | Region | Any] = {}
        self._outputs: dict[str, Region | None] = {}
        self._results: dict[str, Any] = {}
        self._held: dict[str, Any] = {}

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an input to an array, which is read when the session runs."""
        self._known("input", name)
        self._inputs[name] = arr_on_cpu

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any,
        shape: Sequence[int], buffer_ptr: int,
    ) -> None:  # fmt: skip
        """Bind an input to an address in memory."""
        self._known("input", name)
        _check_device(name, device_type)
        self._inputs[name] = Region(buffer_ptr, _dtype(element_type), shape)

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Bind an input to an ``OrtValue``."""
        self._known("input", name)
        _check_device(name, ortvalue.device_name())
        self._inputs[name] = ortvalue

    def bind_output(
        self, name: str, device_type: str = "cpu", device_id: int = 0, element_type: Any = None,
        shape: Sequence[int] | None = None, buffer_ptr: int | None = None,
    ) -> None:  # fmt: skip
        """Bind an output: to an address, or to memory that the session makes.

        Raises
        ------
        TensorError
            There is no such output, or an address without type and shape.
        UnsupportedError
            The device is not the CPU, whose memory the DPU reads and writes.
        """
        self._known("output", name)
        _check_device(name, device_type)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise TensorError(
                f"output {name!r} is bound to an address: element_type and shape must be given"
            )
        self._outputs[name] = Region(buffer_ptr, _dtype(element_type), shape)

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Bind an output to an ``OrtValue``, which is written into."""
        self._known("output", name)
        _check_device(name, ortvalue.device_name())
        self._held[name] = ortvalue
        dtype = ortvalue.numpy().dtype
        self._outputs[name] = Region(ortvalue.data_ptr(), dtype, ortvalue.shape())

    def synchronize_inputs(self) -> None:
        """Do nothing: memory of the CPU is there at once."""

    def synchronize_outputs(self) -> None:
        """Do nothing: memory of the CPU is there at once."""

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        for kept in (self._outputs, self._results, self._held):
            kept.clear()

    def get_outputs(self) -> list[Any]:
        """Return the results of the last run as ``OrtValue``, in the order of the bindings."""
        return [self._results[name] for name in self._outputs if name in self._results]

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Return the results of the last run as arrays, in the order of the bindings."""
        return [value.numpy() for value in self.get_outputs()]

    def feeds(self) -> dict[str, Any]:
        """Return what the session is to be given."""
        return {
            name: value.read() if isinstance(value, Region) else value
            for name, value in self._inputs.items()
        }

    def wanted(self) -> list[str]:
        """Return the outputs that are bound.

        Raises
        ------
        TensorError
            None is.
        """
        if not self._outputs:
            raise TensorError("no output is bound: call bind_output or bind_ortvalue_output")
        return list(self._outputs)

    def take(self, results: Sequence[Array]) -> None:
        """Put the results of a run where they belong."""
        for (name, region), array in zip(list(self._outputs.items()), results, strict=True):
            if region is not None:
                region.write(array, name)
            made = self._held.get(name)
            self._results[name] = made or as_ort_value(name, array)

    def _known(self, role: str, name: str) -> None:
        names = self._names[role]
        if name not in names:
            raise TensorError(f"there is no {role} {name!r}; there are {', '.join(names)}")


def as_ort_value(name: str, result: Any) -> Any:
    """Return a result as ``OrtValue``.

    Raises
    ------
    UnsupportedError
        It is a list or a dictionary, for which onnxruntime's own Python package has no function.
    """
    if not isinstance(result, np.ndarray):
        raise UnsupportedError(
            f"output {name!r} is a {type(result).__name__}, but only tensors can be made an "
            "OrtValue in Python: call run()"
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(result)


def _check_device(name: str, device: str) -> None:
    if device.lower() != "cpu":
        raise UnsupportedError(
            f"{name!r} is bound to memory of {device!r}, but the DPU's is 'cpu': the host's own"
        )


def _dtype(element_type: Any) -> np.dtype[Any]:
    """Return a type that is given as numpy has it, or by its number in ONNX."""
    known = isinstance(element_type, int)
    found: np.dtype[Any] = (
        onnx.helper.tensor_dtype_to_np_dtype(element_type) if known else np.dtype(element_type)
    )
    return found
