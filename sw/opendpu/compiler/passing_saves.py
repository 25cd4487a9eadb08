# SPDX-License-Identifier: Apache-2.0
"""SAVEs that may pass those before them.

The engine has two channels. A SAVE that waits for its predecessor, by its own bit, is held back
while one on the other channel writes between the same first and last byte. Rows of a map whose
pixels lie apart in DDR, such as the columns of a map seen with rows and columns exchanged, do so
all the time, although they have no byte in common. Without that bit they run side by side.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu_arch.columns import Columns
from opendpu_arch.isa import Instruction, Save

IN_FLIGHT = 8
"""SAVEs that the engine has under way at most."""

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]


def passing_saves(instructions: Sequence[Instruction]) -> list[int]:
    """Return the numbers of the SAVEs that need not wait for their predecessors.

    They share no byte with any SAVE that can be under way then, but lie between the first and the
    last byte of one. ``instructions`` are in the order of issue.
    """
    numbers = [number for number, one in enumerate(instructions) if type(one) is Save]
    saves = _Saves.of([instructions[number] for number in numbers])
    apart = np.ones(len(numbers), np.bool_)
    between = np.zeros(len(numbers), np.bool_)
    for distance in range(1, min(IN_FLIGHT, len(numbers))):
        meets = saves.meets(distance)
        between[distance:] |= meets
        apart[distance:] &= ~meets | saves.takes_turns(distance)
    return [numbers[place] for place in np.flatnonzero(apart & between).tolist()]


class _Saves:
    """SAVEs as arrays: register, first byte, end, bytes of a pixel, and between pixels."""

    def __init__(
        self, register: Int64Array, first: Int64Array, size: Int64Array, length: Int64Array,
        jump: Int64Array,
    ) -> None:  # fmt: skip
        self.register, self.first, self.size, self.jump = register, first, size, jump
        self.end = first + (length - 1) * jump + size

    @classmethod
    def of(cls, saves: Sequence[Instruction]) -> "_Saves":
        """Return what instructions, which are all SAVEs, write."""
        fields = Columns(saves)
        register, first, length, jump, size, search, constant = (
            fields.column(Save, name)
            for name in (
                "reg_id", "ddr_addr", "length", "jump_write", "channel", "argmax", "const_en"
            )
        )  # fmt: skip
        size = np.where((search & 2 > 0) & (constant == 0), 1, size)
        return cls(register, first, size, length, jump)

    def meets(self, distance: int) -> BoolArray:
        """Tell which SAVEs lie between the first and last byte of the one so far before them."""
        one, other = slice(distance, None), slice(None, -distance)
        same = self.register[one] == self.register[other]
        meets: BoolArray = (
            same & (self.first[one] < self.end[other]) & (self.first[other] < self.end[one])
        )
        return meets

    def takes_turns(self, distance: int) -> BoolArray:
        """Tell which SAVEs write between the pixels of the one so far before them, and not in them.

        Pixels of both are equally far apart.
        """
        one, other = slice(distance, None), slice(None, -distance)
        jump = self.jump[one]
        place = (self.first[one] - self.first[other]) % jump
        turns: BoolArray = (
            (jump == self.jump[other])
            & (place >= self.size[other])
            & (place + self.size[one] <= jump)
        )
        return turns
