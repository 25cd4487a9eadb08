# SPDX-License-Identifier: Apache-2.0
"""Collects steps; knows what is set up, what is loaded and where the weight banks are free."""

import dataclasses
from collections.abc import Hashable, Iterable

from opendpu.compiler.plan import (
    BankAccess,
    Feature,
    LayerPlan,
    Memory,
    MemoryAccess,
    Plan,
    Region,
    Step,
)
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import AluInit, ConvInit, Instruction
from opendpu_arch.target import Target


class WeightRing:
    """Gives out words of a weight or bias bank, round and round.

    What is overwritten is not tracked here: the schedule pass makes a LOAD wait for the last
    reader.
    """

    def __init__(self, name: str, depth: int) -> None:
        self.name = name
        self.depth = depth
        self._taken = 0
        self._held: dict[Hashable, int] = {}

    def take(self, words: int, key: Hashable = None) -> int:
        """Return the first of ``words`` consecutive words (modulo the depth), for ``key``."""
        if words > self.depth:
            raise GraphError(f"{words} words do not fit {self.name}, which holds {self.depth}")
        at = self._taken
        self._taken += words
        if key is not None:
            self._held[key] = at
        return at % self.depth

    def held(self, key: Hashable) -> int | None:
        """Return the first word of ``key``, if nothing has taken its place."""
        at = self._held.get(key)
        return None if at is None or self._taken - at > self.depth else at % self.depth


@dataclasses.dataclass(frozen=True)
class Operand:
    """A feature map of a layer: its shape, its words on chip and its bytes in DDR, if any."""

    feature: Feature
    region: Region
    memory: Memory | None


class Recorder:
    """The program so far, in sequential order."""

    def __init__(self, target: Target, plan: Plan) -> None:
        self.target = target
        self.plan = plan
        self.steps: list[Step] = []
        self.layer = ""
        self.conv_weights = WeightRing("CONVW", target.bank_depth)
        self.alu_weights = WeightRing("DWCONVW", target.bank_depth)
        self.biases = WeightRing("BIAS", target.bank_depth)
        self.on_chip: dict[str, set[int]] = {}
        """Rows of whole feature maps that are in their region."""
        self.saves = 0
        self._init: dict[type[Instruction], Instruction] = {}

    def add(
        self, instruction: Instruction, accesses: Iterable[BankAccess | MemoryAccess], cycles: int
    ) -> None:
        """Append one instruction."""
        self.steps.append(Step(instruction, tuple(accesses), max(cycles, 1), self.layer))

    def set_up(self, instruction: ConvInit | AluInit) -> None:
        """Append a sticky set-up instruction unless it is the one in force."""
        kind = type(instruction)
        if self._init.get(kind) != instruction:
            self._init[kind] = instruction
            self.add(instruction, (), 1)

    def operand(self, name: str, region: Region) -> Operand:
        """Return feature map ``name`` in ``region``."""
        return Operand(self.plan.network.features[name], region, self.plan.memory.get(name))

    def operands(self, plan: LayerPlan, names: Iterable[str]) -> tuple[Operand, ...]:
        """Return the inputs of a layer."""
        return tuple(self.operand(n, r) for n, r in zip(names, plan.sources, strict=True))
