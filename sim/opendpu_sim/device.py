# SPDX-License-Identifier: Apache-2.0
"""The functional simulator as a device."""

import threading
import time
from collections import OrderedDict

from opendpu.runtime.device import Job, JobStatistics
from opendpu_arch.target import Target
from opendpu_sim.model.machine import Program, plan

CACHED_PROGRAMS = 16
"""Plans a device keeps; a network has one program a DPU subgraph."""


class IssDevice:
    """Runs jobs on the functional simulator; any number at a time, from any threads.

    Parameters
    ----------
    target
        The DPU to simulate.
    memory
        Ignored: the functional simulator has no memory timing.
    check
        Refuse results that depend on bytes nobody wrote, and walks that overflow a bank. Slower.
    schedule_seed
        Run instructions in a random order among those that the tokens allow.
    """

    name = "iss"

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "kv260",
        check: bool = False,
        schedule_seed: int | None = None,
    ) -> None:
        self.target = target
        self._memory = memory
        self._check = check
        self._schedule_seed = schedule_seed
        self._programs: OrderedDict[bytes, Program] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END.

        Raises
        ------
        DPUError
            The program or its segments are wrong; see :func:`opendpu_sim.model.machine.plan` and
            :meth:`opendpu_sim.model.machine.Program.run`.
        """
        start = time.perf_counter()
        program = self._plan(job.code)
        program.run(job.segments, check=self._check)
        return JobStatistics(
            device=self.name,
            memory=self._memory,
            instructions=program.instructions,
            bytes_read=program.bytes_read,
            bytes_written=program.bytes_written,
            wall_seconds=time.perf_counter() - start,
        )

    def close(self) -> None:
        """Forget the planned programs."""
        with self._lock:
            self._programs.clear()

    def _plan(self, code: bytes) -> Program:
        code = bytes(code)
        with self._lock:
            program = self._programs.get(code)
            if program is not None:
                self._programs.move_to_end(code)
                return program
        program = plan(code, self.target, schedule_seed=self._schedule_seed)
        with self._lock:
            self._programs[code] = program
            while len(self._programs) > CACHED_PROGRAMS:
                self._programs.popitem(last=False)
        return program
