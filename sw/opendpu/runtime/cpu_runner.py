# SPDX-License-Identifier: Apache-2.0
"""The runner of a CPU subgraph."""

import dataclasses
import functools
import time
from typing import Any

import numpy as np

from opendpu.runtime.arrays import Array, Arrays, from_tensor, match_arrays, to_tensor
from opendpu.runtime.cpu import Island
from opendpu.runtime.device import JobStatistics
from opendpu.runtime.job_runner import JobRunner
from opendpu.runtime.jobs import JobQueue
from xir import Subgraph, Tensor

SOURCES = ("data", "data-fix")
"""Ops that only name what comes from outside."""


@dataclasses.dataclass(frozen=True)
class Plain:
    """A tensor that answers to its own name only."""

    tensor: Tensor
    aliases: tuple[str, ...] = ()

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element."""
        return self.tensor.data_type.numpy()

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Dimensions."""
        return tuple(self.tensor.dims)


class CpuRunner(JobRunner[JobStatistics]):
    """Executes a CPU subgraph; the interface is that of :class:`~opendpu.runtime.Runner`.

    Raises
    ------
    UnsupportedError
        An op type has no implementation; the message says how to register one.
    """

    def __init__(self, subgraph: Subgraph, *, workers: int | None = None) -> None:
        ops = subgraph.toposort()
        given = [op.get_output_tensor() for op in ops if op.get_type() in SOURCES]
        given += subgraph.get_input_tensors()
        self._inputs = [Plain(tensor) for tensor in sorted(given, key=lambda t: t.name)]
        self._outputs = [Plain(tensor) for tensor in subgraph.get_sorted_output_tensors()]
        computed = [op for op in ops if op.get_type() not in SOURCES]
        self._island = Island(computed, [slot.tensor.name for slot in self._outputs])
        self._jobs = JobQueue(workers)

    def get_input_tensors(self) -> list[Tensor]:
        """Return the input tensors, by name."""
        return [slot.tensor for slot in self._inputs]

    def get_output_tensors(self) -> list[Tensor]:
        """Return the output tensors, by name."""
        return [slot.tensor for slot in self._outputs]

    def execute_async(self, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
        """Start a job and return its number and the status 0; TensorError for wrong arrays."""
        given = {
            slot.tensor.name: to_tensor(array, slot.tensor).copy()
            for array, slot in zip(
                match_arrays(inputs, self._inputs, "input"), self._inputs, strict=True
            )
        }
        wanted = match_arrays(outputs, self._outputs, "output")
        return self._jobs.submit(functools.partial(self._run, given, wanted)), 0

    def _run(self, given: dict[str, Array], wanted: list[Array]) -> JobStatistics:
        start = time.perf_counter()
        values = self._island.run(given)
        for array, slot in zip(wanted, self._outputs, strict=True):
            from_tensor(values[slot.tensor.name], slot.tensor, array)
        return JobStatistics(device="cpu", wall_seconds=time.perf_counter() - start)

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """Run one job and return new output arrays by tensor name."""
        outputs: dict[str, Array] = {
            tensor.name: np.empty(tensor.dims, tensor.data_type.numpy())
            for tensor in self.get_output_tensors()
        }
        self.wait(self.execute_async(inputs, outputs))
        return outputs

    def close(self) -> None:
        """Finish every job."""
        self._jobs.close()

    def __enter__(self) -> "CpuRunner":
        """Return the runner."""
        return self

    def __exit__(self, *_details: Any) -> None:
        """Close the runner."""
        self.close()
