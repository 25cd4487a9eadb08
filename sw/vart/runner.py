# SPDX-License-Identifier: Apache-2.0
"""Runners with the interface of AMD's ``vart.Runner`` and ``vart.RunnerExt``."""

import enum
from typing import Any

import opendpu.runtime
from opendpu.runtime import CpuRunner, Device, JobStatistics
from opendpu.runtime.arrays import Arrays
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from vart.tensor_buffer import TensorBuffer
from xir import Subgraph, Tensor

_DEVICES = {"": None, "run": None, "ref": "iss", "sim": "iss"}
"""Device of each mode; nothing leaves the choice to the caller and the environment."""


class Runner:
    """Executes one subgraph; made by :meth:`create_runner`."""

    class TensorFormat(enum.IntEnum):
        """Order of dimensions."""

        NHWC = 0
        NCHW = 1

    def __init__(self, runner: opendpu.runtime.Runner | CpuRunner) -> None:
        self._runner = runner

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
    ) -> "Runner":
        """Return a runner for a compiled subgraph.

        Modes ``run`` and the empty one use ``device``; ``ref`` and ``sim`` always use the
        functional simulator. A CPU subgraph runs on the CPU in every mode. Keywords are those of
        :class:`opendpu.runtime.Runner`.

        Raises
        ------
        UnsupportedError
            The mode is unknown, or the subgraph is neither for the DPU nor for the CPU.
        """
        if mode not in _DEVICES:
            known = ", ".join(repr(name) for name in _DEVICES)
            raise UnsupportedError(f"runner mode is {mode!r}, but must be one of {known}")
        if subgraph.has_attr("device") and str(subgraph.get_attr("device")).upper() == "CPU":
            return cls(CpuRunner(subgraph))
        chosen = _DEVICES[mode] or device
        return cls(
            opendpu.runtime.Runner(subgraph, device=chosen, memory=memory, target=target, **options)
        )

    def get_input_tensors(self) -> list[Tensor]:
        """Return the input tensors, by name."""
        return self._runner.get_input_tensors()

    def get_output_tensors(self) -> list[Tensor]:
        """Return the output tensors, by name."""
        return self._runner.get_output_tensors()

    def get_tensor_format(self) -> TensorFormat:
        """Return the order of dimensions: always NHWC."""
        return Runner.TensorFormat.NHWC

    def execute_async(
        self, inputs: Arrays, outputs: Arrays, enable_dynamic_array: bool = False
    ) -> tuple[int, int]:
        """Start a job and return its number and the status 0.

        ``enable_dynamic_array`` is taken for compatibility: batches of the DPUCZDX8G are 1, so
        there are no smaller ones.
        """
        return self._runner.execute_async(inputs, outputs)

    def wait(self, job: int | tuple[int, int], timeout: int = -1) -> int:
        """Wait for a job, at most ``timeout`` milliseconds if that is positive; return 0.

        Raises
        ------
        DPUError
            The job failed, or is not known.
        """
        return self._runner.wait(job, timeout / 1000 if timeout > 0 else None)

    def statistics(self, job: int | tuple[int, int]) -> JobStatistics:
        """Return what a job took."""
        return self._runner.statistics(job)

    @property
    def last_statistics(self) -> JobStatistics | None:
        """What the job that finished last took; nothing before the first."""
        return self._runner.last_statistics


class RunnerExt(Runner):
    """A runner that also owns one buffer a tensor."""

    def __init__(self, runner: opendpu.runtime.Runner | CpuRunner) -> None:
        super().__init__(runner)
        self._inputs = [TensorBuffer.create(tensor) for tensor in self.get_input_tensors()]
        self._outputs = [TensorBuffer.create(tensor) for tensor in self.get_output_tensors()]

    def get_inputs(self) -> list[TensorBuffer]:
        """Return the input buffers; the same ones each time."""
        return list(self._inputs)

    def get_outputs(self) -> list[TensorBuffer]:
        """Return the output buffers; the same ones each time."""
        return list(self._outputs)
