# SPDX-License-Identifier: Apache-2.0
"""A board that is simulated: what a driver needs of one, with the RTL behind it."""

import pathlib

import numpy as np
import numpy.typing as npt

from opendpu_arch.target import Target
from opendpu_sim.rtl.build import library
from opendpu_sim.rtl.memory import memory_model
from opendpu_sim.rtl.verilated import Verilated

ADDRESS = 0x7_0000_0000
"""Where the memory is: above 4 GiB, as boards with more have it."""


class Memory:
    """Contiguous memory of host and DPU."""

    def __init__(self, size: int) -> None:
        self.address, self.size = ADDRESS, size
        self.content = np.zeros(size, np.uint8)

    def store(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Write bytes."""
        self.content[offset : offset + data.size] = data

    def load(self, offset: int, data: npt.NDArray[np.uint8]) -> None:
        """Read bytes."""
        data[:] = self.content[offset : offset + data.size]


class SimulatedBoard:
    """A transport of ``opendpu.runtime.board`` whose DPU is the RTL.

    Each access of a register is one of AXI4-Lite; time passes while the interrupt is waited for.

    Parameters
    ----------
    target
        The DPU.
    memory
        Model of the memory's timing: ``kv260``, ``ideal`` or ``stall:<seed>``.
    size
        Bytes of the memory.
    clock
        Cycles of a second, by which time-outs are counted.
    simulator
        A library of :func:`opendpu_sim.rtl.build.build` to use instead of the target's.
    """

    def __init__(
        self,
        target: Target,
        *,
        memory: str = "kv260",
        size: int = 16 << 20,
        clock: int = 100_000_000,
        simulator: pathlib.Path | None = None,
    ) -> None:
        self.memory = Memory(size)
        self._clock = clock
        self._dpu = Verilated(simulator or library(target))
        self._dpu.configure(memory_model(memory))
        self._dpu.map(self.memory.address, self.memory.content)
        self._dpu.reset()
        self.read, self.write = self._dpu.read, self._dpu.write

    def wait(self, seconds: float) -> bool:
        """Run until the interrupt comes, or so long; return whether it came."""
        done, _ = self._dpu.run(round(seconds * self._clock))
        return done

    def close(self) -> None:
        """Free the simulator."""
        self._dpu.close()
