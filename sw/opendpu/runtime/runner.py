# SPDX-License-Identifier: Apache-2.0
"""The runner: executes one DPU subgraph, several jobs at a time."""

import functools
import os
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from opendpu.runtime import tracing
from opendpu.runtime.arrays import Array, Arrays, from_tensor, match_arrays
from opendpu.runtime.crosscheck import crosscheck_for
from opendpu.runtime.device import Device, Job, JobStatistics, Segment
from opendpu.runtime.devices import open_device
from opendpu.runtime.fingerprint import check_fingerprint
from opendpu.runtime.job_runner import JobRunner
from opendpu.runtime.jobs import JobQueue
from opendpu.runtime.program import Program
from opendpu.runtime.segments import SegmentLayout
from opendpu_arch.errors import FingerprintError, TargetError, UnsupportedError
from opendpu_arch.target import Target
from xir import Subgraph, Tensor

WORKERS_VARIABLE = "XLNX_NUM_OF_DPU_RUNNERS"


class Runner(JobRunner[JobStatistics]):
    """Executes a compiled DPU subgraph on a device.

    ``device`` is a device or the name of one; by default the environment chooses it, see
    :func:`~opendpu.runtime.devices.open_device`. A device opened here has the ``target`` given,
    or else the one the subgraph was compiled for, gets ``options``, and is closed with the
    runner. ``workers`` bounds how many jobs run at a time: as
    many as ``XLNX_NUM_OF_DPU_RUNNERS`` in the environment says, or else as there are cores.

    Raises
    ------
    FingerprintError
        The subgraph was compiled for another DPU; ``XLNX_ENABLE_FINGERPRINT_CHECK=0`` skips this.
    ModelFormatError
        The subgraph is not compiled, or its attributes are wrong.
    TargetError
        The subgraph does not say which DPU it is for, and neither does ``target``.
    """

    def __init__(
        self,
        subgraph: Subgraph,
        *,
        device: Device | str | None = None,
        memory: str | None = None,
        target: Target | str | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        self.program = Program.from_subgraph(subgraph)
        self._subgraph = subgraph
        self._owned = device is None or isinstance(device, str)
        if device is None or isinstance(device, str):
            device = open_device(device, target or _own_target(self.program), memory, **options)
        self.device: Device = device
        try:
            check_fingerprint(
                self.program.fingerprint, device.target, f"subgraph {self.program.name!r}"
            )
        except FingerprintError:
            if self._owned:
                device.close()
            raise
        self._layout = SegmentLayout(self.program)
        self._shape = _shape_of(self.program, subgraph)
        self._crosscheck = crosscheck_for(subgraph, self.program)
        self._jobs = JobQueue(workers or _workers_of_environment())
        if self._owned:  # a forgotten runner frees its device when the last job is done
            self._finalizer = weakref.finalize(self, device.close)

    def get_input_tensors(self) -> list[Tensor]:
        """Return the input tensors, by name; arrays of a job are given in this order."""
        return [port.tensor for port in self.program.inputs]

    def get_output_tensors(self) -> list[Tensor]:
        """Return the output tensors, by name; arrays of a job are given in this order."""
        return [port.tensor for port in self.program.outputs]

    def get_input_names(self) -> dict[str, Tensor]:
        """Return the input tensors by each name they answer to."""
        ports = self.program.inputs
        return {name: port.tensor for port in ports for name in (port.name, *port.aliases)}

    def execute_async(self, inputs: Arrays, outputs: Arrays) -> tuple[int, int]:
        """Start a job and return its number and the status 0.

        Arrays are int8 or float32, dense NHWC, with the dimensions of their tensors. Inputs are
        copied before this returns; outputs are filled before :meth:`wait` returns.
        float32 is converted as VART does: times ``2**fix_point``, toward zero, wrapping.

        Raises
        ------
        TensorError
            An array is missing or too many, or has a wrong dtype, shape or memory layout.
        """
        given = match_arrays(inputs, self.program.inputs, "input")
        wanted = match_arrays(outputs, self.program.outputs, "output")
        segments = self._layout.filled(given)
        return self._jobs.submit(functools.partial(self._run, segments, wanted)), 0

    def _run(self, segments: dict[int, Segment], outputs: list[Array]) -> JobStatistics:
        complete = self._layout.complete(segments)
        statistics = self._execute(complete, wanted=bool(outputs))
        for array, port in zip(outputs, self.program.outputs, strict=True):
            from_tensor(port.view(complete[port.reg_id]), port.tensor, array)
        return statistics

    def compute(self, inputs: Sequence[Array]) -> tuple[dict[str, Array], JobStatistics]:
        """Run one job in this thread; return its outputs by name, and what it took.

        ``inputs`` are arrays in the types and dimensions of the tensors, and must stay as they
        are. They are the job's memory where they can be, and the outputs are that memory, too: a
        subgraph that follows takes them without a copy.
        """
        complete = self._layout.complete(self._layout.lent(inputs))
        statistics = self._execute(complete, wanted=True)
        outputs = {
            port.name: port.view(complete[port.reg_id]).reshape(port.shape)
            for port in self.program.outputs
        }
        return outputs, statistics

    def _execute(self, segments: dict[int, Segment], *, wanted: bool) -> JobStatistics:
        if wanted and self.program.outputs and not getattr(self.device, "computes", True):
            raise UnsupportedError(
                f"device {self.device.name!r} was opened to compute no results, but "
                f"{self.program.outputs[0].name!r} is wanted; give its run() a Job for statistics"
            )
        begin, start = time.time(), time.perf_counter()
        layout, check = self._layout, self._crosscheck
        if check is None:
            job = Job(self.program.code, segments, self._subgraph, layout.given, layout.wanted)
            statistics = self.device.run(job)
        else:
            check.before(segments)
            statistics = self.device.run(Job(self.program.code, segments, self._subgraph))
            check.after(segments, statistics)
        if tracing.is_enabled():
            seconds = time.perf_counter() - start
            tracing.record(self._shape, self.device.target.name, begin, seconds, statistics)
        return statistics

    def run(self, inputs: Arrays) -> dict[str, Array]:
        """Run one job and return new output arrays by tensor name, in the tensors' dtypes."""
        outputs = {p.name: np.empty(p.tensor.dims, p.dtype) for p in self.program.outputs}
        self.wait(self.execute_async(inputs, outputs))
        return outputs

    def cancel(self) -> None:
        """Drop the jobs that have not begun, end the one that runs where the device can."""
        super().cancel()
        end = getattr(self.device, "cancel", None) if self._owned else None
        if end is not None:
            end()

    def close(self) -> None:
        """Finish every job, then free the device if this runner opened it."""
        super().close()
        if self._owned:
            self._finalizer()


def _workers_of_environment() -> int | None:
    text = os.environ.get(WORKERS_VARIABLE)
    if not text:
        return None
    if not text.isdecimal() or not int(text):
        raise UnsupportedError(f"{WORKERS_VARIABLE} is {text!r}, but must be a positive number")
    return int(text)


def _shape_of(program: Program, subgraph: Subgraph) -> tracing.SubgraphShape:
    """Return what records of jobs say of a subgraph."""
    workload = subgraph.get_attr("workload") if subgraph.has_attr("workload") else 0
    sizes = [sum(p.tensor.get_data_size() for p in s) for s in (program.inputs, program.outputs)]
    weights = sum(len(value) for value in program.constants.values())
    return tracing.SubgraphShape(program.name, int(workload), weights, *sizes)


def _own_target(program: Program) -> Target:
    if not program.fingerprint:
        raise TargetError(
            f"subgraph {program.name!r} has no dpu_fingerprint; say which target",
            code="VART_GRAPH_FINGERPRINT_ERROR",
        )
    return Target.from_fingerprint(program.fingerprint)
