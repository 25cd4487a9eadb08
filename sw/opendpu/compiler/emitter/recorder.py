# SPDX-License-Identifier: Apache-2.0
"""Collects commands; knows what is set up, what is on chip and where the weight banks are free."""

import dataclasses
from collections.abc import Hashable, Iterable

from opendpu.compiler.accesses import MemoryAccess
from opendpu.compiler.banks import BankAccess, Region
from opendpu.compiler.layers import Feature
from opendpu.compiler.plan import LayerPlan, Memory, Plan
from opendpu.compiler.program import Command
from opendpu_arch import scaled, table
from opendpu_arch.errors import GraphError
from opendpu_arch.isa import AluInit, ConvInit, Instruction
from opendpu_arch.target import Target


class CircularBuffer:
    """Gives out words of a weight or bias bank, from the start again after the last one.

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


class Slots:
    """Places for things of one size; what was used longest ago makes room."""

    def __init__(self, number: int) -> None:
        self._free = list(range(number))
        self._slots: dict[Hashable, int] = {}

    def take(self, key: Hashable) -> tuple[int, bool]:
        """Return the slot of ``key``, and whether it is there already."""
        held = key in self._slots
        if held:
            slot = self._slots.pop(key)
        elif self._free:
            slot = self._free.pop(0)
        else:
            slot = self._slots.pop(next(iter(self._slots)))
        self._slots[key] = slot  # dictionaries keep the order
        return slot, held


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
        self.commands: list[Command] = []
        self.layer = ""
        self.conv_weights = CircularBuffer("CONVW", target.bank_depth)
        self.alu_weights = CircularBuffer("DWCONVW", target.bank_depth)
        self.biases = CircularBuffer("BIAS", target.bank_depth)
        self.tables = Slots(table.SLOTS)
        self.records = CircularBuffer("SCALE", scaled.records(target.bank_depth))
        self.terms = Slots(scaled.TERM_SLOTS)
        self.on_chip: dict[str, set[int]] = {}
        """Rows of whole feature maps that are in their region."""
        self.saves = 0
        self._init: dict[type[Instruction], Instruction] = {}

    def add(
        self, instruction: Instruction, accesses: Iterable[BankAccess | MemoryAccess], cycles: int
    ) -> None:
        """Append one instruction."""
        self.commands.append(Command(instruction, tuple(accesses), max(cycles, 1), self.layer))

    def set_up(self, instruction: ConvInit | AluInit) -> None:
        """Append a sticky set-up instruction unless it is the one in force."""
        kind = type(instruction)
        known = self._init.get(kind)
        if known is not instruction and known != instruction:
            self._init[kind] = instruction
            self.add(instruction, (), 1)

    def expect_on_chip(self, plan: LayerPlan) -> None:
        """Count every row of a result that stays on chip whole as there, because it is made now."""
        if plan.output.whole:
            name = plan.layer.output
            self.on_chip[name] = set(range(self.plan.network.features[name].height))

    def operand(self, name: str, region: Region) -> Operand:
        """Return feature map ``name`` in ``region``."""
        return Operand(self.plan.network.features[name], region, self.plan.memory.get(name))

    def operands(self, plan: LayerPlan) -> tuple[Operand, ...]:
        """Return the inputs of a layer."""
        pairs = zip(plan.layer.operands, plan.sources, strict=True)
        return tuple(self.operand(name, region) for name, region in pairs)
