# SPDX-License-Identifier: Apache-2.0
"""The extension ``scaled``: records of SCALE and terms of TERM, as an instruction reads them."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, numerics, scaled
from opendpu_arch.scaled import Rounding
from opendpu_arch.target import Target
from opendpu_sim.model.memory import Index, Memory, Taint, Words


@dataclasses.dataclass(frozen=True)
class Records:
    """The records of an instruction, one a group of output channels."""

    number: int
    mnemonic: str
    field: str
    """The field that has the address."""
    words: Index
    """Word index, shape (groups, :data:`opendpu_arch.scaled.RECORD_WORDS`)."""

    def results(self, memory: Memory, total: npt.NDArray[Any]) -> Words:
        """Return the int8 results of sums, shape (..., groups, CP)."""
        record = memory.words[self.words]
        lanes, common = record[:, : scaled.COMMON_WORD], record[:, scaled.COMMON_WORD]
        made = np.empty(total.shape, np.int8)
        for group in range(record.shape[0]):
            zero, low, high, rounding = (int(byte) for byte in common[group, : scaled.COMMON_BYTES])
            made[..., group, :] = numerics.requantize_scaled(
                total[..., group, :],
                _integers(lanes[group, scaled.BIAS_WORD :][:4]),
                _integers(lanes[group, scaled.MULTIPLIER_WORD :][:4]) & 0x7FFF_FFFF,
                lanes[group, scaled.SHIFT_WORD].astype(np.int64) & scaled.MAX_SHIFT,
                zero=zero,
                low=low,
                high=high,
                rounding=Rounding(rounding & 1),
            )
        return made

    def taint(self, memory: Memory) -> Taint:
        """Return the taint of every group's lanes, shape (groups, CP)."""
        unused = np.zeros((*self.words.shape, memory.words.shape[1]), np.bool_)
        unused[:, scaled.COMMON_WORD, scaled.COMMON_BYTES :] = True
        taint = memory.taint_of(self.words, self.number, self.mnemonic, self.field, unused)
        common = taint[:, scaled.COMMON_WORD].max(axis=1, keepdims=True)
        return np.asarray(np.maximum(taint[:, : scaled.COMMON_WORD].max(axis=1), common))


def _integers(words: Words) -> npt.NDArray[np.int64]:
    """Return the signed 32-bit integers whose bytes lie in four successive words."""
    whole: npt.NDArray[np.int32] = np.ascontiguousarray(words.T).view("<i4")[:, 0]
    return whole.astype(np.int64)


def records(
    number: int, i: isa.Instruction, field: str, first: int, groups: int, target: Target
) -> Records:
    """Return the records of an instruction whose ``field`` is ``first``."""
    at = (first + np.arange(groups)) % scaled.records(target.bank_depth) * scaled.RECORD_STRIDE
    words = target.scale_bank * target.bank_depth + at[:, None] + np.arange(scaled.RECORD_WORDS)
    return Records(number, i.mnemonic(), field, np.asarray(words, np.intp))


@dataclasses.dataclass(frozen=True)
class Terms:
    """The tables that stand for the bytes of an ELEW's inputs."""

    number: int
    mnemonic: str
    words: tuple[Index, ...]
    """Word index of each input's, shape (256,)."""

    def total(
        self, memory: Memory, inputs: Sequence[Words], *, multiply: bool
    ) -> npt.NDArray[np.int64]:
        """Return sums, or products, of inputs."""
        tables = [
            np.ascontiguousarray(memory.words[words, : scaled.TERM_BYTES]).view("<i4")[:, 0]
            for words in self.words
        ]
        if multiply:
            return numerics.scaled_mult(inputs, tables)
        return numerics.scaled_add(inputs, tables)

    def taint(self, memory: Memory) -> int:
        """Return the taint of all of them: results depend on it."""
        unused = np.zeros((scaled.SLOT_TERMS, memory.words.shape[1]), np.bool_)
        unused[:, scaled.TERM_BYTES :] = True
        found = (memory.taint_of(w, self.number, self.mnemonic, "term", unused) for w in self.words)
        return max(int(taint.max()) for taint in found)


def terms(number: int, i: isa.Elew, inputs: Sequence[isa.ElewInit], target: Target) -> Terms:
    """Return the tables of an ELEW's inputs."""
    first, size = target.term_bank * target.bank_depth, scaled.SLOT_TERMS
    return Terms(
        number,
        i.mnemonic(),
        tuple(np.asarray(first + size * entry.term + np.arange(size), np.intp) for entry in inputs),
    )
