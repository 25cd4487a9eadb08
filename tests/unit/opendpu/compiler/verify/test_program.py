# SPDX-License-Identifier: Apache-2.0
"""Broken programs do not leave the compiler."""

import dataclasses
from collections.abc import Callable

import pytest
from network_draws import draw_network

from opendpu.compiler.backend import build
from opendpu.compiler.program import Program
from opendpu.compiler.verify import verify
from opendpu_arch.errors import AddressError, DeadlockError, IllegalInstructionError, TokenError
from opendpu_arch.isa import Instruction, Load
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def broken(change: Callable[[list[Instruction]], None]) -> Program:
    program = build(draw_network(1), TARGET)
    instructions = list(program.schedule.instructions)
    change(instructions)
    made = dataclasses.replace(
        program.schedule, issued=tuple(instructions), waits=tuple(i.dpdon for i in instructions),
        signals=tuple(i.dpdby for i in instructions),
    )  # fmt: skip
    return dataclasses.replace(program, schedule=made)


def first_load(instructions: list[Instruction]) -> int:
    return next(n for n, i in enumerate(instructions) if isinstance(i, Load))


def test_programs_of_the_compiler_pass() -> None:
    verify(broken(lambda instructions: None), TARGET)


def test_illegal_instruction() -> None:
    def change(instructions: list[Instruction]) -> None:
        at = first_load(instructions)
        instructions[at] = dataclasses.replace(instructions[at], bank_id=40)

    with pytest.raises(IllegalInstructionError, match=r"\(LOAD\): bank_id is 40, but must be in"):
        verify(broken(change), TARGET)


def test_address_outside_its_segment() -> None:
    def change(instructions: list[Instruction]) -> None:
        at = first_load(instructions)
        instructions[at] = dataclasses.replace(instructions[at], ddr_addr=1 << 28)

    with pytest.raises(AddressError, match=r"\(LOAD\) ends at byte \d+ of REG_\d, which has"):
        verify(broken(change), TARGET)


def test_token_that_nobody_gives() -> None:
    def change(instructions: list[Instruction]) -> None:
        at = first_load(instructions)
        instructions[at] = dataclasses.replace(instructions[at], dpdon=0b1001)

    with pytest.raises(DeadlockError, match=r"\(LOAD\) waits for a token of MISC that no instr"):
        verify(broken(change), TARGET)


def test_token_that_nobody_takes() -> None:
    def change(instructions: list[Instruction]) -> None:
        instructions[-1] = dataclasses.replace(instructions[-1], dpdby=0b0011)

    with pytest.raises(TokenError, match=r"tokens are left at the end: \{'SAVE->LOAD': 1\}"):
        verify(broken(change), TARGET)
