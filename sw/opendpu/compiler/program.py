# SPDX-License-Identifier: Apache-2.0
"""Instructions before and after they are scheduled; frozen, without logic."""

import dataclasses
import functools
from typing import NamedTuple

from opendpu.compiler.accesses import Accesses, MemoryAccess
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.plan import Plan
from opendpu_arch.columns import Columns
from opendpu_arch.isa import Instruction


class Command(NamedTuple):
    """An instruction without tokens, what it touches, and the cycles it is expected to take."""

    instruction: Instruction
    accesses: tuple[BankAccess | MemoryAccess, ...]
    cycles: int
    layer: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CommandStream:
    """A plan as commands: run one after the other, they compute its network."""

    plan: Plan
    commands: tuple[Command, ...]

    @functools.cached_property
    def accesses(self) -> Accesses:
        """What the commands touch, as arrays."""
        return Accesses.of([command.accesses for command in self.commands])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A program and what the cost model expects of it."""

    issued: tuple[Instruction, ...]
    """Instructions without tokens, in the order of issue."""
    waits: tuple[int, ...]
    """Engines whose token each of them waits for, a bit each, and its own, which SAVEs lack that
    may pass those before them."""
    signals: tuple[int, ...]
    """Engines that get a token from it, and its own."""
    cycles: int
    busy_cycles: dict[str, int]
    layers: tuple[str, ...]
    """Layer of every instruction; none for END."""
    start: tuple[int, ...]
    """Cycle in which every instruction is expected to start."""
    end: tuple[int, ...]
    """Cycle in which it is expected to be done."""

    @functools.cached_property
    def fields(self) -> Columns:
        """The instructions' fields as arrays, tokens among them."""
        return Columns(self.issued, {"dpdon": self.waits, "dpdby": self.signals})

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions of the program."""
        every = zip(self.issued, self.waits, self.signals, strict=True)
        return tuple(dataclasses.replace(i, dpdon=on, dpdby=by) for i, on, by in every)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled network: what was decided, and the instructions."""

    plan: Plan
    schedule: Schedule
