# SPDX-License-Identifier: Apache-2.0
"""Device ``ref``: a job is computed from the ops of its subgraph, not from its machine code."""

import dataclasses
import math
import threading
import time
import weakref

from opendpu.integer import fixed_graph
from opendpu.ops.session import Session
from opendpu.runtime.device import Job, JobStatistics
from opendpu.runtime.program import Program
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from opendpu_arch.target import Target
from xir import Subgraph


@dataclasses.dataclass(frozen=True)
class _Kernel:
    """The ops of a subgraph as one session, and where its tensors lie in the segments."""

    program: Program
    session: Session

    @classmethod
    def of(cls, subgraph: Subgraph, threads: int) -> "_Kernel":
        """Build the session; UnsupportedError if nothing computes an op."""
        program = Program.from_subgraph(subgraph)
        graph = fixed_graph(subgraph, program.constants)
        graph.outputs = [port.name for port in program.outputs]
        return cls(program, Session(graph, threads=threads))


class ReferenceDevice:
    """Computes the ops of a job's subgraph exactly as the DPU does; several jobs at a time.

    It leaves the workspace as it is, and counts neither instructions nor cycles. The machine code
    is not looked at: what it does with the wrong code, another device tells.

    Parameters
    ----------
    target
        The DPU that the subgraph is for; results are those of every one.
    memory
        Ignored: there is no memory timing.
    threads
        How many threads compute an op; 0 for as many as there are cores.
    """

    name = "ref"
    takes_subgraphs = True

    def __init__(self, target: Target, *, memory: str = "kv260", threads: int = 0) -> None:
        self.target = target
        self._memory = memory
        self._threads = threads
        self._kernels: weakref.WeakKeyDictionary[Subgraph, _Kernel] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def run(self, job: Job) -> JobStatistics:
        """Compute the outputs of a job.

        Raises
        ------
        UnsupportedError
            The job does not say what it is compiled from, or nothing computes an op.
        ModelFormatError
            The subgraph lacks values of constants, or attributes; or ops give other dimensions than
            their tensors have.
        """
        start = time.perf_counter()
        kernel = self._kernel(job)
        given = {port.inner: port.view(job.segments[port.reg_id]) for port in kernel.program.inputs}
        results = kernel.session.run(given)
        for port in kernel.program.outputs:
            values = results[port.name]
            if values.size != math.prod(port.dims):
                raise ModelFormatError(
                    f"tensor {port.name!r} has dimensions {list(port.dims)}, but its op gives "
                    f"{list(values.shape)}"
                )
            port.view(job.segments[port.reg_id])[...] = values.reshape(port.dims)
        return JobStatistics(
            device=self.name, memory=self._memory, wall_seconds=time.perf_counter() - start
        )

    def close(self) -> None:
        """Forget the sessions."""
        with self._lock:
            self._kernels.clear()

    def _kernel(self, job: Job) -> _Kernel:
        if job.subgraph is None:
            raise UnsupportedError(
                f"device {self.name!r} computes the ops of a subgraph, but the job has machine "
                "code only; run it through a Runner, or give the job its subgraph"
            )
        with self._lock:
            kernel = self._kernels.get(job.subgraph)
            if kernel is None:
                kernel = self._kernels[job.subgraph] = _Kernel.of(job.subgraph, self._threads)
            return kernel
