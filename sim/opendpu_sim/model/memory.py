# SPDX-License-Identifier: Apache-2.0
"""State of one run: the banks, the DDR segments and, when checking, who wrote which byte."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu_arch.target import Target

Words = npt.NDArray[np.int8]
Index = npt.NDArray[np.intp]
Taint = npt.NDArray[np.int32]

UNWRITTEN = np.iinfo(np.int32).max
"""Taint of a byte that nobody wrote; 0 is a defined byte, n > 0 the n-th :class:`Origin`."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where an undefined byte entered a computation."""

    number: int
    mnemonic: str
    field: str
    bank: int
    word: int
    lane: int

    def __str__(self) -> str:
        return (
            f"instruction {self.number} ({self.mnemonic}) {self.field}: bank {self.bank}, "
            f"word {self.word}, byte {self.lane}"
        )


class Memory:
    """Banks as one array of words (bank * depth + word), and the segments of the job."""

    def __init__(
        self, target: Target, segments: Mapping[int, npt.NDArray[np.uint8]], *, check: bool = False
    ) -> None:
        count, width = target.bank_count * target.bank_depth, target.channel_parallel
        self.words: Words = np.zeros((count, width), np.int8)
        """Bank words, shape (banks * depth, CP)."""
        self.units = self.words.view(np.dtype((np.void, width))).reshape(count)
        """The same memory, one opaque item a word: much quicker to scatter to."""
        self.flat = self.words.view(np.uint8).reshape(-1)
        """The same memory as bytes."""
        self.segments = segments
        self.depth = target.bank_depth
        self.taint: Taint | None = None
        """Shape of :attr:`words`; only when checking."""
        self.origins: list[Origin] = []
        if check:
            self.taint = np.full((count, width), UNWRITTEN, np.int32)

    def write(self, index: Index, words: npt.NDArray[np.int8] | npt.NDArray[np.uint8]) -> None:
        """Write ``words`` (as many words of CP bytes as ``index``, C-contiguous) to the banks.

        Where an index comes twice, the later word stays.
        """
        self.units[index.reshape(-1)] = words.view(self.units.dtype).reshape(-1)

    def taint_of(
        self,
        index: Index,
        number: int,
        mnemonic: str,
        field: str,
        unused: npt.NDArray[np.bool_] | None = None,
    ) -> Taint:
        """Return the taint of words that an instruction reads, shape ``index.shape + (CP,)``.

        Bytes marked in ``unused`` count as defined. The first byte that nobody wrote becomes an
        :class:`Origin`, and stands for the others that this read finds.
        """
        assert self.taint is not None
        taint = self.taint[index]
        if unused is not None:
            taint[unused] = 0
        unwritten = taint == UNWRITTEN
        if unwritten.any():
            at = np.unravel_index(int(np.argmax(unwritten)), taint.shape)
            bank, word = divmod(int(index[at[:-1]]), self.depth)
            self.origins.append(Origin(number, mnemonic, field, bank, word, int(at[-1])))
            taint[unwritten] = len(self.origins)
        return taint

    def set_taint(self, index: Index, taint: Taint | int) -> None:
        """Record the taint of the words an instruction writes: as words, or one value for all."""
        assert self.taint is not None
        if not isinstance(taint, int):
            taint = taint.reshape((-1, self.words.shape[1]))
        self.taint[index.reshape(-1)] = taint
