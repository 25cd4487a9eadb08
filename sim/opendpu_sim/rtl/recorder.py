# SPDX-License-Identifier: Apache-2.0
"""From what each engine did, in its order, to a timeline in the order of the program."""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opendpu.runtime.device import Timeline
from opendpu_arch import isa
from opendpu_arch.isa import Engine, Opcode

_WORDS = {opcode: cls.WORDS for opcode, cls in isa.INSTRUCTIONS.items()}
_ENGINES = {opcode: cls.ENGINE for opcode, cls in isa.INSTRUCTIONS.items()}


class Recorder:
    """Knows which instruction of a program is the n-th one of an engine.

    Attributes
    ----------
    counts
        Instructions of each :class:`~opendpu_arch.isa.Engine` up to END, or up to the first word
        that is no instruction.
    """

    def __init__(self, code: bytes) -> None:
        self._engine = _engines(code)
        self.counts = [int(np.count_nonzero(self._engine == e)) for e in Engine]

    def timeline(
        self, stamps: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
    ) -> Timeline:
        """Return the timeline; ``stamps`` has the starts and the ends of each engine."""
        start = np.full(self._engine.size, -1, np.int64)
        end = np.full(self._engine.size, -1, np.int64)
        for engine in Engine:
            start[self._engine == engine], end[self._engine == engine] = stamps[engine]
        return Timeline(start, end)


def _engines(code: bytes) -> npt.NDArray[np.uint8]:
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    engines = bytearray()
    at = 0
    while at < len(words) and words[at] >> 28 in _WORDS:
        opcode = Opcode(words[at] >> 28)
        engines.append(_ENGINES[opcode])
        if opcode == Opcode.END:
            break
        at += _WORDS[opcode]
    return np.frombuffer(bytes(engines), np.uint8)
