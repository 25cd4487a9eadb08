# SPDX-License-Identifier: Apache-2.0
"""The cycle model as a device: what the RTL takes, in a fraction of its time."""

import inspect
import threading
import time
from collections import OrderedDict
from typing import Any

from opendpu.runtime.device import Job, JobStatistics, Timeline
from opendpu_arch import isa
from opendpu_arch.errors import (
    AddressError,
    DeadlockError,
    DPUError,
    DPUTimeoutError,
    TokenError,
)
from opendpu_arch.isa import Engine
from opendpu_arch.target import Target
from opendpu_hw.engine.misc import MiscEngine
from opendpu_hw.engine.misc_plan import effective_taps
from opendpu_sim.cycle import library
from opendpu_sim.cycle.library import Model, Run
from opendpu_sim.device import IssDevice
from opendpu_sim.rtl import tools
from opendpu_sim.rtl.memory import memory_model

CACHED_PROGRAMS = 16
"""Programs a device keeps ready."""
DEFAULT_TIMEOUT_CYCLES = 2_000_000_000


class CycleDevice:
    """Predicts the cycles of the RTL, instruction by instruction; several jobs at a time.

    Results come from the functional simulator, which also refuses illegal programs. Without
    ``results`` nothing is computed: segments stay as they are, and a program must be legal.

    Parameters
    ----------
    target
        The DPU.
    memory
        ``kv260``, ``ideal`` or ``stall:<seed>``, as for the RTL.
    timeout_cycles
        Cycles after which a job is given up.
    results
        Whether SAVEs write what the DPU would; takes much longer than the cycles.
    trace
        Whether statistics have a ``timeline``.
    options
        As for :class:`opendpu_hw.engine.misc.MiscEngine`.

    Raises
    ------
    ToolError
        There is no C++ compiler, or it failed.
    """

    name = "cycle"

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "kv260",
        timeout_cycles: int = DEFAULT_TIMEOUT_CYCLES,
        results: bool = True,
        trace: bool = True,
        **options: Any,
    ) -> None:
        self.target = target
        self.computes = results
        """Whether results are to be had."""
        self._memory = memory_model(memory)
        self._timeout = timeout_cycles
        self._trace = trace
        engine = inspect.signature(MiscEngine).bind(target, **options)
        engine.apply_defaults()
        self._taps: int = effective_taps(target, engine.arguments["taps_per_cycle"])
        self._window: bool = engine.arguments["window"] and self._taps >= 3
        self._iss = IssDevice(target, memory=memory) if results else None
        self._models: OrderedDict[bytes, Model] = OrderedDict()
        self._lock = threading.Lock()

    def run(self, job: Job) -> JobStatistics:
        """Run a job to its END.

        Raises
        ------
        DPUError
            The program or its segments are wrong.
        """
        begin = time.perf_counter()
        if self._iss is not None:
            self._iss.run(job)
        model = self._model(job.code)
        outside = model.outside({reg_id: s.size for reg_id, s in job.segments.items()})
        if outside is not None:
            i = isa.decode(job.code)[outside]
            assert isinstance(i, isa.Load | isa.Save)
            raise AddressError(
                f"instruction {outside} ({i.mnemonic()}): what begins at ddr_addr {i.ddr_addr:#x} "
                f"leaves segment {i.reg_id}, which has {_size(job, i.reg_id)} bytes"
            )
        run = model.run(self._memory, self._timeout)
        if run.result.fault:
            raise self._error(run)
        r = run.result
        busy = {e.name.lower(): int(r.busy[e]) for e in Engine}
        return JobStatistics(
            device=self.name,
            memory=self._memory.name,
            instructions=r.finished,
            cycles=r.cycles,
            busy_cycles={**busy, "array": r.conv_steps, "misc_array": r.misc_steps},
            bytes_read=4 * r.read_beats[0] + 16 * sum(r.read_beats[1:]),
            bytes_written=r.write_bytes,
            wall_seconds=time.perf_counter() - begin,
            timeline=Timeline(run.start, run.end) if self._trace else None,
        )

    @classmethod
    def check_host(cls) -> None:
        """Raise ToolError if there is no C++ compiler to build the model."""
        tools.compiler()

    def close(self) -> None:
        """Forget the programs."""
        with self._lock:
            self._models.clear()
        if self._iss is not None:
            self._iss.close()

    def _model(self, code: bytes) -> Model:
        code = bytes(code)
        with self._lock:
            if code in self._models:
                self._models.move_to_end(code)
                return self._models[code]
        model = Model(self.target, code, taps=self._taps, window=self._window)
        with self._lock:
            self._models[code] = model
            while len(self._models) > CACHED_PROGRAMS:
                self._models.popitem(last=False)
        return model

    def _error(self, run: Run) -> DPUError:
        match run.result.fault:
            case library.LEFTOVER_TOKEN:
                return TokenError("a token counter is not zero at END")
            case library.DEADLOCK:
                first = int((run.start < 0).argmax())
                return DeadlockError(
                    f"no engine can go on; instruction {first} is the first that never starts"
                )
        return DPUTimeoutError(f"no END after {self._timeout} cycles (timeout_cycles)")


def _size(job: Job, reg_id: int) -> int:
    return job.segments[reg_id].size if reg_id in job.segments else 0
