# SPDX-License-Identifier: Apache-2.0
"""LOAD: pixels from DDR, or a constant, to a bank.

Pixel l is ``channel`` bytes from ``ddr_addr + l * jump_read``, written to successive words from
``bank_addr + l * jump_write``, modulo the depth; the rest of the last word becomes zero. TABLE has
fewer words, and only the first bytes of each.

Channel augmentation: where ``jump_read <= channel <= 64``, the first
``pad_start - l * jump_read`` bytes of pixel l are zero, and so are, in the last ``pad_idx`` pixels,
the bytes from ``channel aligned up to CP - e`` on, where e is ``pad_end`` in the first of them and
``jump_read`` more in each one after. Zeros go before constants and means.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, numerics, scaled, table
from opendpu_arch.extensions import Extension
from opendpu_sim.ddr import Access, pixels
from opendpu_sim.model.memory import Index, Memory
from opendpu_sim.model.walk import Walker

MASK_LIMIT = 64
"""Bytes of the longest pixel that can be masked."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadStep:
    """A planned LOAD."""

    number: int
    mnemonic: str
    spans: tuple[tuple[str, int, int], ...]
    access: Access | None
    """None: a constant."""
    destination: Index
    """Word index, shape (pixels, words)."""
    flat: slice | None
    """The same as a slice of bytes, where DDR and bank are both contiguous and nothing changes."""
    shape: tuple[int, int]
    """Pixels, bytes of one."""
    constant: int
    keep: npt.NDArray[np.bool_] | None
    """Bytes that are not padding, shape (pixels, bytes); None: all."""
    padding: int
    """What the others become, and lanes beyond the pixel."""
    mean: Index | None
    """Words that hold the mean."""
    mode_avg: int

    def run(self, memory: Memory) -> None:
        """Copy."""
        if self.flat is not None and self.access is not None:
            start = self.access.address
            stop = start + self.shape[0] * self.shape[1]
            memory.flat[self.flat] = memory.segments[self.access.reg_id][start:stop]
            return
        length, size = self.shape
        words = self.destination.shape[1]
        buffer = np.full((length, words * memory.words.shape[1]), self.padding, np.uint8)
        data = buffer[:, :size]
        if self.access is None:
            data[:] = self.constant
        else:
            data[:] = pixels(memory.segments[self.access.reg_id], self.access)
            if self.mean is not None:
                mean = memory.words[self.mean].view(np.uint8).reshape(-1)[:size]
                data[:] = numerics.subtract_mean(data, mean, mode_avg=self.mode_avg)
        if self.keep is not None:
            data[~self.keep] = self.padding
        memory.write(self.destination, buffer)

    def trace(self, memory: Memory) -> None:
        """Everything in DDR is defined; an unwritten mean is not."""
        if self.mean is None:
            memory.set_taint(self.destination, 0)
            return
        length, size = self.shape
        lanes = memory.words.shape[1]
        taint = np.zeros((length, self.destination.shape[1] * lanes), np.int32)
        unused = np.arange(self.mean.size * lanes).reshape(-1, lanes) >= size
        mean = memory.taint_of(self.mean, self.number, self.mnemonic, "mode_avg", unused)
        taint[:, :size] = mean.reshape(-1)[:size]
        if self.keep is not None:
            taint[:, :size] *= self.keep
        memory.set_taint(self.destination, taint)


def plan(number: int, i: isa.Load, walker: Walker) -> LoadStep:
    """Return the step of a LOAD."""
    target = walker.target
    lanes, depth = target.channel_parallel, target.bank_depth
    words = -(-i.channel // lanes)
    constant = i.broadcast == isa.LOAD_CONSTANT
    keep = _keep(i, words * lanes)
    start = i.bank_addr % depth
    destination = walker.runs(
        range(i.bank_id, i.bank_id + 1), i.bank_addr, i.jump_write, i.length, words
    )[0]
    shallow = _shallow(i, walker)
    if shallow:
        first = i.bank_id * depth
        destination = first + (destination - first) % shallow
    padding = 0
    if Extension.SCALED in target.extensions and _is_augmented(i) and not constant:
        padding = i.const_value
    flat = None
    if (
        not constant
        and not i.mode_avg
        and not shallow
        and keep is None
        and i.channel == words * lanes
        and (i.length == 1 or (i.jump_read == i.channel and i.jump_write == words))
        and start + i.length * words <= depth
    ):
        first = (i.bank_id * depth + start) * lanes
        flat = slice(first, first + i.length * i.channel)
    return LoadStep(
        number=number,
        mnemonic=i.mnemonic(),
        spans=(("bank_addr", i.bank_addr, (i.length - 1) * i.jump_write + words),),
        access=None
        if constant
        else Access(number, "LOAD", i.reg_id, i.ddr_addr, i.length, i.channel, i.jump_read),
        destination=destination,
        flat=flat,
        shape=(i.length, i.channel),
        constant=i.const_value,
        keep=keep,
        padding=padding,
        mean=walker.runs(range(target.bias_bank, target.bias_bank + 1), 0, 1, 1, words)[0, 0]
        if i.mode_avg and not constant
        else None,
        mode_avg=i.mode_avg,
    )


def _shallow(i: isa.Load, walker: Walker) -> int:
    """Return the words of a bank of an extension that has fewer than others, or 0."""
    target = walker.target
    if Extension.TABLE in target.extensions and i.bank_id == target.table_bank:
        return table.WORDS
    if Extension.SCALED in target.extensions and i.bank_id == target.term_bank:
        return scaled.TERM_WORDS
    return 0


def _is_augmented(i: isa.Load) -> bool:
    """Tell whether pixels are those of channel augmentation, which have padding."""
    return i.jump_read <= i.channel <= MASK_LIMIT


def _keep(i: isa.Load, aligned: int) -> npt.NDArray[np.bool_] | None:
    """Return which bytes are no padding, shape (length, channel); None if all are not."""
    if not _is_augmented(i):
        return None
    pixel = np.arange(i.length)[:, None]
    byte = np.arange(i.channel)
    after = pixel - (i.length - i.pad_idx)
    end = np.where(after >= 0, i.pad_end + i.jump_read * after, 0)
    keep = (byte >= i.pad_start - pixel * i.jump_read) & (byte < aligned - end)
    return None if keep.all() else keep
