# SPDX-License-Identifier: Apache-2.0
"""Instructions before and after they are scheduled; frozen, without logic."""

import dataclasses

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.plan import Plan
from opendpu_arch.isa import Instruction


@dataclasses.dataclass(frozen=True)
class MemoryAccess:
    """Bytes ``low .. high`` of a DDR segment."""

    write: bool
    reg_id: int
    low: int
    high: int


@dataclasses.dataclass(frozen=True)
class Command:
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """A program and what the cost model expects of it."""

    instructions: tuple[Instruction, ...]
    cycles: int
    busy_cycles: dict[str, int]
    layers: tuple[str, ...]
    """Layer of every instruction; none for END."""
    start: tuple[int, ...]
    """Cycle in which every instruction is expected to start."""
    end: tuple[int, ...]
    """Cycle in which it is expected to be done."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A compiled network: what was decided, and the instructions."""

    plan: Plan
    schedule: Schedule
