# SPDX-License-Identifier: Apache-2.0
"""The RTL as a device: programs its registers as software would, and waits for the interrupt."""

import dataclasses
import os
import pathlib
import random
import threading
import time

import numpy as np

from opendpu.runtime.device import Job, JobStatistics, Timeline
from opendpu.runtime.driver import Driver, Placement, check_job
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, DPUTimeoutError
from opendpu_arch.target import MAX_ADDRESS_REGISTERS, Target
from opendpu_sim.rtl import tools
from opendpu_sim.rtl.build import library
from opendpu_sim.rtl.memory import memory_model
from opendpu_sim.rtl.recorder import Recorder
from opendpu_sim.rtl.verilated import PORTS, Verilated

TIMEOUT_ENVIRONMENT = "OPENDPU_TIMEOUT_CYCLES"
"""Names the number of cycles a job may take where the option is not given."""
DEFAULT_TIMEOUT_CYCLES = 2_000_000_000

CODE_SEGMENT = -1
"""Stands for the program's memory where a ``reg_id`` is asked for."""

_CHUNK = 50_000  # cycles between two looks at Ctrl-C
_CODE_BASE = 0x1000_0000
_PAGE = 4096


@dataclasses.dataclass(frozen=True, kw_only=True)
class BusFault:
    """A memory access to be answered with an error, to see what the DPU does.

    Attributes
    ----------
    port
        ``instr``, ``data0`` or ``data1``.
    write
        Whether writes or reads are meant.
    segment
        ``reg_id`` of the segment, or :data:`CODE_SEGMENT`.
    offset, size
        Bytes of the segment that cannot be accessed.
    response
        2 (SLVERR) or 3 (DECERR).
    """

    port: str
    write: bool = False
    segment: int = CODE_SEGMENT
    offset: int = 0
    size: int = 1
    response: int = 2


class RtlDevice:
    """A DPU whose RTL runs in this process.

    Parameters
    ----------
    target
        What to build; the first use of a target takes a while, later ones find it in the cache.
    memory
        ``kv260``, ``ideal`` or ``stall:<seed>``.
    timeout_cycles
        Cycles after which a job is given up; default ``OPENDPU_TIMEOUT_CYCLES``, or 2e9.
    trace
        Whether statistics have a ``timeline``: when each instruction started and ended.
    waveform
        File for an FST waveform of everything that runs.
    simulator
        A library of :func:`opendpu_sim.rtl.build.build` to use instead of the target's.
    options
        Passed to :class:`opendpu_hw.top.Top`.

    Raises
    ------
    ToolError
        The RTL cannot be built here.
    """

    name = "rtl"

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "kv260",
        timeout_cycles: int | None = None,
        trace: bool = False,
        waveform: str | pathlib.Path | None = None,
        simulator: pathlib.Path | None = None,
        **options: object,
    ) -> None:
        self.target = target
        self._model = memory_model(memory)
        self._timeout = timeout_cycles or _timeout_from_environment()
        self.bus_faults: list[BusFault] = []
        """Errors the memory answers with, from the next job on."""
        self._trace = trace
        self._lock = threading.Lock()
        self._dirty = True
        self._cancelled = False
        if waveform is not None:
            outputs.check(waveform)
        path = simulator or library(target, trace=waveform is not None, **options)
        self._dpu = Verilated(path)
        self._dpu.configure(self._model)
        # Bases are pages anywhere in 40 bits, so that every address bit is used.
        spread = random.Random(self._model.seed)
        offsets = [
            0 if self._model.seed is None else spread.randrange(2**20)
            for _ in range(MAX_ADDRESS_REGISTERS)
        ]
        bases = [((i + 1) << 36) + _PAGE * n for i, n in enumerate(offsets)]
        self._place = Placement(_CODE_BASE, bases)
        self._driver = Driver(self._dpu, target)
        if waveform is not None:
            self._dpu.trace(pathlib.Path(waveform))

    @classmethod
    def check_host(cls) -> None:
        """Raise ToolError if a program is missing that builds the simulator."""
        tools.check()

    def cancel(self) -> None:
        """End the job that runs, and refuse all further ones; from any thread."""
        self._cancelled = True

    def close(self) -> None:
        """Free the simulator and end the waveform."""
        self._dpu.close()

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END.

        Raises
        ------
        DPUError
            The program, the memory or the RTL failed; the next job works again.
        """
        with self._lock:
            start = time.perf_counter()
            dpu = self._dpu
            try:
                if self._dirty:
                    dpu.reset()
                self._dirty = True  # until the interrupt has been taken
                self._map(job)
                recorder = Recorder(job.code) if self._trace else None
                stamps = dpu.record(recorder.counts if recorder else None)
                self._driver.prepare(job, self._place)
                dpu.begin()
                self._driver.start()
                self._wait()
                timeline = recorder.timeline(stamps) if recorder else None
                statistics = self._finish(job, start, timeline)
                self._dirty = False
                return statistics
            finally:
                dpu.unmap()

    def _map(self, job: Job) -> None:
        dpu = self._dpu
        check_job(job)
        dpu.map(_CODE_BASE, np.frombuffer(job.code, np.uint8))
        for reg_id, memory in job.segments.items():
            dpu.map(self._place.bases[reg_id], memory)
        dpu.forget_faults()
        for fault in self.bus_faults:
            base = _CODE_BASE if fault.segment == CODE_SEGMENT else self._place.bases[fault.segment]
            low = base + fault.offset
            dpu.inject(PORTS.index(fault.port), fault.write, low, low + fault.size, fault.response)

    def _wait(self) -> None:
        left = self._timeout
        done = False
        while not done and left > 0:
            if self._cancelled:
                raise DPUError("the job was cancelled")
            done, ran = self._dpu.run(min(left, _CHUNK))
            left -= ran
        if not done:
            running = ", ".join(self._driver.unfinished())
            raise DPUTimeoutError(
                f"no interrupt after {self._timeout} cycles (timeout_cycles); "
                f"engines with unfinished instructions: {running or 'none'}"
            )

    def _finish(self, job: Job, start: float, timeline: Timeline | None) -> JobStatistics:
        traffic = self._dpu.counters()
        error = self._driver.failure(job, self._place)
        counted = self._driver.counts()
        statistics = JobStatistics(
            device=self.name,
            memory=self._model.name,
            instructions=counted.instructions,
            cycles=counted.cycles,
            busy_cycles=counted.busy_cycles,
            bytes_read=4 * traffic.read_beats[0] + 16 * sum(traffic.read_beats[1:]),
            bytes_written=sum(traffic.write_bytes),
            wall_seconds=time.perf_counter() - start,
            timeline=timeline,
        )
        self._driver.acknowledge()
        if error is not None:
            self._dirty = False
            raise error
        return statistics


def _timeout_from_environment() -> int:
    text = os.environ.get(TIMEOUT_ENVIRONMENT, "")
    if not text:
        return DEFAULT_TIMEOUT_CYCLES
    if not text.isdigit() or int(text) == 0:
        raise DPUTimeoutError(
            f"{TIMEOUT_ENVIRONMENT} is {text!r}, but must be a positive number of cycles"
        )
    return int(text)
