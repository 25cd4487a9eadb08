# SPDX-License-Identifier: Apache-2.0
"""What an engine should do to banks and segments in a program, from the model."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan
from opendpu_sim.model.memory import Memory

Bytes = npt.NDArray[np.uint8]


@dataclasses.dataclass(frozen=True)
class Expectation:
    """One engine's part of a program: before, instructions, after."""

    instructions: list[isa.Instruction]
    words: npt.NDArray[np.int8]
    """Bank words before, shape (banks * depth, CP); given to the DUT."""
    segments: dict[int, Bytes]
    """DDR before; given to the DUT."""
    words_after: npt.NDArray[np.int8]
    segments_after: dict[int, Bytes]

    def check(self, words: npt.NDArray[np.int8], depth: int) -> None:
        """Compare the banks with what they should be."""
        different = np.flatnonzero((words != self.words_after).any(axis=1))
        assert not different.size, (
            f"{different.size} bank words differ, first word {different[0] % depth} of bank "
            f"{different[0] // depth}: {words[different[0]].tolist()} instead of "
            f"{self.words_after[different[0]].tolist()}"
        )

    def check_segment(self, number: int, content: bytes) -> None:
        """Compare a segment with what it should be."""
        found = np.frombuffer(content, np.uint8)
        different = np.flatnonzero(found != self.segments_after[number])
        assert not different.size, (
            f"segment {number} differs in {different.size} bytes, first at {different[0]:#x}"
        )


def expectation(
    code: bytes, segments: Mapping[int, Bytes], engine: isa.Engine, target: Target
) -> Expectation:
    """Return what the instructions of ``engine`` do in a program.

    What other engines do before the first of them is done by the model; what they do later, as a
    SAVE of results, is left out.
    """
    program = [i for i in isa.decode(code) if not isinstance(i, isa.End)]
    mine = [n for n, i in enumerate(program) if engine == i.ENGINE]
    steps = {step.number: step for step in plan(code, target).steps}
    memory = Memory(target, {reg: content.copy() for reg, content in segments.items()})
    for number, step in sorted(steps.items()):
        if number < mine[0] and number not in mine:
            step.run(memory)
    words = memory.words.copy()
    before = {reg: content.copy() for reg, content in memory.segments.items()}
    for number in mine:
        if number in steps:
            steps[number].run(memory)
    after = {reg: content.copy() for reg, content in memory.segments.items()}
    return Expectation([program[n] for n in mine], words, before, memory.words.copy(), after)
