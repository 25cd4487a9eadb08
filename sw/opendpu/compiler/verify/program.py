# SPDX-License-Identifier: Apache-2.0
"""Pass: check a finished program against the rules of the target and of its segments."""

import itertools
from collections.abc import Mapping

import numpy as np

from opendpu.compiler.program import Program, Schedule
from opendpu_arch.columns import Columns
from opendpu_arch.errors import AddressError, DeadlockError, IllegalInstructionError, TokenError
from opendpu_arch.isa import Engine, Instruction, Load, Save
from opendpu_arch.legal_program import first_violation
from opendpu_arch.target import Target


def verify(program: Program, target: Target) -> None:
    """Raise if a finished program breaks a rule: always a bug of the compiler, never of a model.

    Raises
    ------
    IllegalInstructionError
        The target refuses an instruction.
    AddressError
        A transfer leaves its DDR segment.
    DeadlockError, TokenError
        The program does not run in its own order, or tokens are left.
    """
    fields = program.schedule.fields
    _check_legal(fields, target)
    _check_addresses(fields, program.plan.segment_bytes)
    _check_tokens(program.schedule)


def _check_legal(fields: Columns, target: Target) -> None:
    broken = first_violation(fields, target)
    if broken is not None:
        number, found = broken
        raise IllegalInstructionError(f"{_label(fields, number)}: {'; '.join(found)}")


def _label(fields: Columns, number: int) -> str:
    instruction = fields.records[number]
    assert isinstance(instruction, Instruction)
    return f"instruction {number} ({instruction.mnemonic()})"


def _check_addresses(fields: Columns, sizes: Mapping[int, int]) -> None:
    """Check that no transfer goes beyond its segment."""
    outside = []
    for kind, jump in ((Load, "jump_read"), (Save, "jump_write")):
        registers = fields.column(kind, "reg_id")
        size = np.zeros_like(registers)
        for register in np.unique(registers).tolist():
            size[registers == register] = sizes.get(register, 0)
        wide = fields.column(kind, "channel")
        if kind is Save:
            reduced = (fields.column(kind, "argmax") & 2 > 0) & (
                fields.column(kind, "const_en") == 0
            )
            wide = np.where(reduced, 1, wide)
        steps = (fields.column(kind, "length") - 1) * fields.column(kind, jump)
        end = fields.column(kind, "ddr_addr") + steps + wide
        for place in np.flatnonzero(end > size)[:1].tolist():
            number = int(fields.numbers[kind][place])
            outside.append((number, int(end[place]), int(registers[place])))
    if outside:
        number, last, register = min(outside)
        raise AddressError(
            f"{_label(fields, number)} ends at byte {last} of REG_{register}, "
            f"which has {sizes.get(register, 0)}"
        )


def _check_tokens(schedule: Schedule) -> None:
    """Run the program in its own order, as the tightest hardware would."""
    engine = np.array([int(i.ENGINE) for i in schedule.issued])
    waited, given = np.array(schedule.waits), np.array(schedule.signals)
    missing, left = [], {}
    for producer, consumer in itertools.permutations(Engine, 2):
        gives = (engine == producer) & (given >> consumer & 1 > 0)
        takes = (engine == consumer) & (waited >> producer & 1 > 0)
        tokens = np.cumsum(gives.astype(np.int64) - takes)
        missing += [(number, producer) for number in np.flatnonzero(tokens < 0)[:1].tolist()]
        if tokens.size and tokens[-1]:
            left[f"{producer.name}->{consumer.name}"] = int(tokens[-1])
    if missing:
        number, producer = min(missing)
        raise DeadlockError(
            f"{_label(schedule.fields, number)} waits for a token of {producer.name} that no "
            "instruction before it gives"
        )
    if left:
        raise TokenError(f"tokens are left at the end: {left}")
