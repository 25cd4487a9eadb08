# SPDX-License-Identifier: Apache-2.0
"""Runners with the interface of AMD's ``vart.Runner`` and ``vart.RunnerExt``."""

import enum
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np

import opendpu.runtime
from opendpu.runtime import CpuRunner, Device, GraphRunner, GraphStatistics, JobStatistics
from opendpu.runtime.arrays import Array, Arrays
from opendpu.runtime.buffers import view
from opendpu.runtime.description import device_of
from opendpu.runtime.job_runner import JobRunner
from opendpu.runtime.program import Program
from opendpu.runtime.tensor_buffer import TensorBuffer
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from xir import Graph, Subgraph, Tensor
from xir.arguments import expect

TIMEOUT_VARIABLE = "XLNX_DPU_TIMEOUT"
ASYNC_VARIABLE = "XLNX_ENABLE_ASYNC_RUNNER"

_DEVICES = {"": None, "run": None, "ref": "ref", "sim": "iss"}
"""Device of each mode; nothing leaves the choice to the caller and the environment."""


class Runner:
    """Executes one subgraph; made by :meth:`create_runner`."""

    class TensorFormat(enum.IntEnum):
        """Order of dimensions."""

        NHWC = 0
        NCHW = 1

    def __init__(
        self, runner: opendpu.runtime.Runner | CpuRunner | GraphRunner, *others: object
    ) -> None:
        if others or not isinstance(runner, JobRunner):
            kind = type(self).__name__
            raise TypeError(
                f"vart.{kind} has no constructor for programs; use "
                f"vart.{kind}.create_runner(subgraph, mode)"
            )
        self._runner = runner
        self._inputs = runner.get_input_tensors()
        self._outputs = runner.get_output_tensors()
        self._shapes = [
            [tuple(tensor.dims) for tensor in side] for side in (self._inputs, self._outputs)
        ]

    @classmethod
    def create_runner(
        cls,
        subgraph: Subgraph,
        mode: str = "",
        *,
        device: Device | str | None = None,
        memory: str | None = None,
        target: Target | str | None = None,
        **options: Any,
    ) -> Self:
        """Return a runner for a compiled subgraph, or for the root of a graph: the whole of it.

        Modes ``run`` and the empty one use ``device``; ``ref`` computes the ops of the subgraph,
        ``sim`` uses the functional simulator. CPU subgraphs run on the CPU in every mode.
        Keywords are those of :class:`opendpu.runtime.Runner`.

        Raises
        ------
        UnsupportedError
            The mode is unknown, or the subgraph is neither for the DPU nor for the CPU.
        TypeError
            It is no subgraph.
        """
        expect(subgraph, Subgraph, "what a runner is created for")
        if mode not in _DEVICES:
            known = ", ".join(repr(name) for name in _DEVICES)
            raise UnsupportedError(
                f"runner mode is {mode!r}, but must be one of {known}",
                code="VART_FUNC_NOT_SUPPORT",
            )
        place = device_of(subgraph)
        if place == "CPU":
            return cls(CpuRunner(subgraph))
        chosen: dict[str, Any] = {"device": _DEVICES[mode] or device}
        chosen |= {"memory": memory, "target": target, **options}
        if subgraph.is_root and place in ("", "GRAPH"):  # the second is what AMD's xdputil sets
            graph = cast(Graph, subgraph.get_graph())
            return cls(GraphRunner(graph, as_vitis_ai=True, **chosen))
        return cls(opendpu.runtime.Runner(subgraph, **chosen))

    def get_input_tensors(self) -> list[Tensor]:
        """Return the input tensors, by name; of a whole graph the last input's first, as AMD's."""
        return self._runner.get_input_tensors()

    def get_output_tensors(self) -> list[Tensor]:
        """Return the output tensors, by name."""
        return self._runner.get_output_tensors()

    @property
    def program(self) -> Program | None:
        """The program of a DPU subgraph; nothing for the CPU's or a whole graph."""
        runner = self._runner
        return runner.program if isinstance(runner, opendpu.runtime.Runner) else None

    def get_tensor_format(self) -> TensorFormat:
        """Return the order of dimensions: always NHWC."""
        return Runner.TensorFormat.NHWC

    def execute_async(
        self, inputs: Arrays, outputs: Arrays, enable_dynamic_array: bool = False
    ) -> tuple[int, int]:
        """Start a job and return its number and the status 0.

        Inputs and outputs are a list in the order of the tensors, of arrays or of anything else
        with a buffer, which is used in place: see :func:`opendpu.runtime.buffers.view`; an array
        is the list of what its first axis holds. Only the memory counts, as in AMD's module: a
        buffer may be flat, or without dimensions of 1. Of one that has another shape, or is
        longer, the first elements are used, and of one whose axes are transposed the elements as
        they lie in memory, both with a warning.

        ``enable_dynamic_array`` is taken for compatibility: batches of the DPUCZDX8G are 1, so
        there are no smaller ones.

        Inputs may be changed as soon as this returns, outputs are there when :meth:`wait` returns.
        AMD's runners return with the outputs, and programs for :class:`RunnerExt` rely on it: jobs
        whose outputs are :class:`TensorBuffer` are waited for here, and all jobs where the
        environment says ``XLNX_ENABLE_ASYNC_RUNNER=0``. What made them fail is raised here, too.
        """
        job = self._runner.execute_async(
            _shaped(inputs, self._inputs, self._shapes[0], "input"),
            _shaped(outputs, self._outputs, self._shapes[1], "output"),
        )
        if _of_runner(outputs) or os.environ.get(ASYNC_VARIABLE) == "0":
            self.wait(job)
        return job

    def wait(self, job: int | tuple[int, int], timeout: float | None = -1) -> int:
        """Wait for a job, at most ``timeout`` milliseconds if that is positive; return 0.

        Without a ``timeout`` the environment's ``XLNX_DPU_TIMEOUT`` counts, if it is set.

        Raises
        ------
        DPUError
            The job failed, or is not known.
        TypeError
            The job or the timeout is no number.
        """
        if timeout is None:
            timeout = -1
        elif not isinstance(timeout, int | float | np.number):
            kind = type(timeout).__name__
            raise TypeError(f"timeout is {timeout!r} of type {kind}, but must be milliseconds")
        limit = timeout if timeout > 0 else _environments_timeout()
        return self._runner.wait(job, limit / 1000 if limit > 0 else None)

    def statistics(self, job: int | tuple[int, int]) -> JobStatistics | GraphStatistics:
        """Return what a job took."""
        return self._runner.statistics(job)

    def close(self) -> None:
        """Finish every job, then free the device if it is this runner's own."""
        self._runner.close()

    @property
    def last_statistics(self) -> JobStatistics | GraphStatistics | None:
        """What the job that finished last took; nothing before the first."""
        return self._runner.last_statistics


def _of_runner(outputs: Arrays) -> bool:
    """Tell whether all outputs are buffers that runners make."""
    if not isinstance(outputs, list | tuple):
        return False
    return bool(outputs) and all(isinstance(buffer, TensorBuffer) for buffer in outputs)


def _environments_timeout() -> int:
    """Return the milliseconds that the environment gives a job; 0 without limit."""
    text = os.environ.get(TIMEOUT_VARIABLE, "0")
    if not text.isdecimal():
        raise UnsupportedError(f"{TIMEOUT_VARIABLE} is {text!r}, but must be milliseconds")
    return int(text)


def _shaped(
    buffers: Arrays, tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], role: str
) -> Arrays:
    """Return buffers as arrays with the dimensions of their tensors, where they can have them."""
    same = type(buffers) is list and [getattr(b, "shape", None) for b in buffers] == shapes
    if same and not any(isinstance(b, np.ndarray) and not b.flags.c_contiguous for b in buffers):
        return buffers
    if isinstance(buffers, str | bytes) or not hasattr(type(buffers), "__len__"):
        raise TypeError(f"{role}s are of type {type(buffers).__name__}, but must be a list")
    if isinstance(buffers, Mapping) or len(buffers) != len(tensors):
        return buffers  # the runtime's own checks take it from here
    labels = [f"{role} {tensor.name!r}" for tensor in tensors]
    return list(map(_with_dims, buffers, tensors, labels))


def _with_dims(buffer: Any, tensor: Tensor, label: str) -> Array:
    array, dims = view(buffer, tensor.data_type.numpy(), label), tensor.dims
    size = math.prod(dims)
    if array.size < size:
        return array
    if not array.flags.c_contiguous:
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        array = array.transpose(order)
        if not array.flags.c_contiguous:  # gaps, or an axis backwards: the runtime refuses it
            return array.transpose(np.argsort(order))
        warnings.warn(
            f"{label} has transposed axes; its elements are used as they lie in memory, as on a "
            "board; use numpy.ascontiguousarray for those of the array",
            stacklevel=4,
        )
        return array.reshape(-1)[:size].reshape(dims)
    flat = array.ndim == 1 and array.size == size
    if not flat and [s for s in array.shape if s != 1] != [s for s in dims if s != 1]:
        warnings.warn(
            f"{label} has shape {array.shape}; its first {size} elements are used as {tuple(dims)}",
            stacklevel=4,
        )
    return array.reshape(-1)[:size].reshape(dims)


class RunnerExt(Runner):
    """A runner that also makes buffers for its tensors."""

    def get_inputs(self) -> list[TensorBuffer]:
        """Return a new buffer for each input tensor."""
        return [TensorBuffer.create(tensor) for tensor in self.get_input_tensors()]

    def get_outputs(self) -> list[TensorBuffer]:
        """Return a new buffer for each output tensor."""
        return [TensorBuffer.create(tensor) for tensor in self.get_output_tensors()]
