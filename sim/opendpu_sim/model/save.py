# SPDX-License-Identifier: Apache-2.0
"""SAVE: pixels from an image bank, a constant, or the argmax of each pixel, to DDR.

Pixel p is ``channel`` bytes from word ``bank_addr + p * jump_read`` on, modulo the depth, written
to ``ddr_addr + p * jump_write``. ``const_en`` goes before ``argmax``, which writes one byte a
pixel.
"""

import dataclasses

import numpy as np

from opendpu_arch import isa, numerics
from opendpu_arch.errors import UninitializedReadError
from opendpu_sim.ddr import Access, pixels
from opendpu_sim.model.memory import Index, Memory
from opendpu_sim.model.walk import Walker


@dataclasses.dataclass(frozen=True, kw_only=True)
class SaveStep:
    """A planned SAVE."""

    number: int
    mnemonic: str
    spans: tuple[tuple[str, int, int], ...]
    access: Access
    source: Index
    """Word index, shape (pixels, words)."""
    flat: slice | None
    """The same as a slice of bytes, where bank and DDR are both contiguous."""
    channel: int
    constant: int | None
    argmax: int

    def run(self, memory: Memory) -> None:
        """Copy."""
        segment = memory.segments[self.access.reg_id]
        if self.flat is not None:
            start = self.access.address
            segment[start : start + self.access.bytes] = memory.flat[self.flat]
            return
        to = pixels(segment, self.access)
        if self.constant is not None:
            to[:] = self.constant
            return
        data = memory.words.take(self.source, axis=0).reshape(self.source.shape[0], -1)
        data = data[:, : self.channel]
        if self.argmax & 2:
            to[:, 0] = numerics.argmax(data, value=bool(self.argmax & 1))
        elif self.access.jump >= self.access.size or self.access.length == 1:
            to[:] = data.view(np.uint8)
        else:  # pixels overlap: the later one stays
            for pixel, row in zip(to, data.view(np.uint8), strict=True):
                pixel[:] = row

    def trace(self, memory: Memory) -> None:
        """Refuse to let a byte out that depends on bytes that nobody wrote."""
        if self.constant is not None:
            return
        pixels_count = self.source.shape[0]
        lanes = memory.words.shape[1]
        unused = np.zeros((pixels_count, self.source.shape[1] * lanes), np.bool_)
        unused[:, self.channel :] = True
        taint = memory.taint_of(
            self.source,
            self.number,
            self.mnemonic,
            "bank_addr",
            unused.reshape(*self.source.shape, lanes),
        )
        if taint.any():
            at = int(np.argmax(taint.reshape(-1) != 0))
            pixel, byte = divmod(at, self.source.shape[1] * lanes)
            bank, word = divmod(int(self.source.reshape(-1)[at // lanes]), memory.depth)
            origin = memory.origins[int(taint.reshape(-1)[at]) - 1]
            raise UninitializedReadError(
                f"instruction {self.number} ({self.mnemonic}): pixel {pixel}, byte {byte} from "
                f"bank {bank}, word {word} depends on a byte that nobody wrote, read by {origin}"
            )


def plan(number: int, i: isa.Save, walker: Walker) -> SaveStep:
    """Return the step of a SAVE."""
    target = walker.target
    lanes, depth = target.channel_parallel, target.bank_depth
    words = -(-i.channel // lanes)
    copies = not i.const_en and not i.argmax & 2
    start = i.bank_addr % depth
    flat = None
    if (
        copies
        and (
            i.length == 1
            or (i.jump_write == i.channel and i.jump_read == words and i.channel == words * lanes)
        )
        and start + i.length * words <= depth
    ):
        first = (i.bank_id * depth + start) * lanes
        flat = slice(first, first + i.length * i.channel)
    size = 1 if i.argmax & 2 and not i.const_en else i.channel
    return SaveStep(
        number=number,
        mnemonic=i.mnemonic(),
        spans=(("bank_addr", i.bank_addr, (i.length - 1) * i.jump_read + words),)
        if not i.const_en
        else (),
        access=Access(number, "SAVE", i.reg_id, i.ddr_addr, i.length, size, i.jump_write),
        source=walker.runs(
            range(i.bank_id, i.bank_id + 1), i.bank_addr, i.jump_read, i.length, words
        )[0],
        flat=flat,
        channel=i.channel,
        constant=i.const_value if i.const_en else None,
        argmax=i.argmax,
    )
