# SPDX-License-Identifier: Apache-2.0
"""The whole DPU on a cocotb bench: software on the register port, memories on the others."""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from cocotb.triggers import RisingEdge
from cocotbext.axi import (
    AxiBus,
    AxiLiteBus,
    AxiLiteMaster,
    AxiRam,
    AxiRamRead,
    AxiReadBus,
)
from cocotbext.axi.sparse_memory import SparseMemory

from opendpu_arch.regs import OFFSET
from opendpu_sim.tb.clock import stalls

_SPACE = 2**40
_CODE_BASE = 0x1000_0000


class DpuBench:
    """Drives ``opendpu_top`` as software and memory would, with random stalls on every channel."""

    def __init__(self, dut: Any, seed: int) -> None:
        self.dut = dut
        self._rng = random.Random(seed)
        self._memory = SparseMemory(_SPACE)
        clock, reset = dut.aclk, dut.aresetn
        options: dict[str, Any] = {"reset_active_level": False}
        self._control = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axi_control"), clock, reset, **options
        )
        ports: list[Any] = [
            AxiRamRead(
                AxiReadBus.from_prefix(dut, "m_axi_instr"),
                clock,
                reset,
                size=_SPACE,
                mem=self._memory,
                **options,
            )
        ]
        ports += [
            AxiRam(
                AxiBus.from_prefix(dut, f"m_axi_data{i}"),
                clock,
                reset,
                size=_SPACE,
                mem=self._memory,
                **options,
            )
            for i in range(2)
        ]
        for port in ports:
            read = getattr(port, "read_if", port)
            channels = [read.ar_channel, read.r_channel]
            if hasattr(port, "write_if"):
                write = port.write_if
                channels += [write.aw_channel, write.w_channel, write.b_channel]
            for channel in channels:
                channel.set_pause_generator(stalls(random.Random(self._rng.random())))

    async def run(self, code: bytes, segments: Mapping[int, npt.NDArray[np.uint8]]) -> None:
        """Load a program and its segments, start the DPU, wait for the interrupt.

        What the DPU wrote is copied back to the segments; a status that is not zero fails.
        """
        bases = {reg: (reg + 1) << 36 for reg in segments}
        self._memory.write(_CODE_BASE, code)
        for reg, content in segments.items():
            self._memory.write(bases[reg], content.tobytes())
        await self._write64("INSTR_ADDR", _CODE_BASE)
        for reg, content in segments.items():
            await self._write64(f"ADDR_{reg}", bases[reg])
            await self.write(f"SEGMENT_SIZE_{reg}", content.size)
        await self.write("GIE", 1)
        await self.write("IER", 1)
        await self.write("AP_CTRL", 1)
        while not int(self.dut.interrupt.value):
            await RisingEdge(self.dut.aclk)
        status = await self.read("STATUS")
        assert status == 0, (
            f"STATUS is {status:#x} at instruction {await self.read('FAULT_INSTRUCTION')}"
        )
        await self.write("ISR", 1)
        assert await self.read("AP_CTRL") & 2, "the interrupt came, but AP_CTRL.done is 0"
        assert int(self.dut.interrupt.value) == 0, "writing ISR did not clear the interrupt"
        for reg, content in segments.items():
            content[:] = np.frombuffer(self._memory.read(bases[reg], content.size), np.uint8)

    async def write(self, name: str, value: int) -> None:
        """Write a register by name."""
        await self._control.write_dword(OFFSET[name], value)

    async def read(self, name: str) -> int:
        """Read a register by name."""
        return int(await self._control.read_dword(OFFSET[name]))

    async def _write64(self, name: str, value: int) -> None:
        await self.write(f"{name}_L", value & 0xFFFF_FFFF)
        await self.write(f"{name}_H", value >> 32)
