# SPDX-License-Identifier: Apache-2.0
"""What a DPU takes of a device at the least: more than there is cannot be built."""

from typing import Any

from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw.boards.catalog import Board
from opendpu_hw.memory.ultra_bank import BITS

#: Bits of a block RAM, as :class:`opendpu_hw.boards.catalog.Resources` counts them.
_BLOCK_RAM_BITS = {"xilinx": 36_864, "ecp5": 18_432}


def check(board: Board, target: Target, options: dict[str, Any]) -> None:
    """Raise an error if the array or the banks alone are more than a board's device has.

    What else the DPU takes is not counted, so what passes need not fit. Without ``vendor`` nothing
    is: what becomes of plain multiplications and memories is for synthesis to say.

    Raises
    ------
    UnsupportedError
        It cannot fit.
    """
    if options.get("vendor") is None:
        return
    ultra_banks = options.get("ultra_ram", 0)
    width = 8 * target.channel_parallel
    bits = (target.bias_bank + 1 - ultra_banks) * target.bank_depth * width
    there = board.resources
    for what, of, least, most in (
        ("DSP blocks", "CONV's array", _array_blocks(target, options), there.dsp),
        ("block RAMs", "banks", -(-bits // _BLOCK_RAM_BITS[board.vendor]), there.block_ram),
        ("UltraRAMs", "banks", ultra_banks * -(-width // BITS), there.ultra_ram),
    ):
        if least > most:
            raise UnsupportedError(
                f"{target.name} does not fit {board.name}: with these options it takes {least} "
                f"{what} for {of} alone, and the {board.part} has {most:g}")


def _array_blocks(target: Target, options: dict[str, Any]) -> int:
    """Return the DSP blocks of CONV's array: pixels share them in twos, or in fours."""
    shared = 1
    if options.get("vendor") == "xilinx":
        shared = 4 if options.get("dsp_double_rate") else 2
    return -(-target.pixel_parallel // shared) * target.channel_parallel**2
