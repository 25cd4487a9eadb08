# SPDX-License-Identifier: Apache-2.0
"""Pass: check a finished program against the rules of the target and of its segments."""

from collections import Counter

from opendpu.compiler.program import Program
from opendpu_arch.errors import AddressError, DeadlockError, IllegalInstructionError, TokenError
from opendpu_arch.isa import (
    Alu,
    AluInit,
    Conv,
    ConvInit,
    Elew,
    ElewInit,
    Engine,
    Instruction,
    Load,
    Save,
)
from opendpu_arch.legal import violations
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
    instructions = program.schedule.instructions
    _check_legal(instructions, target)
    _check_addresses(program)
    _check_tokens(instructions)


def _check_legal(instructions: tuple[Instruction, ...], target: Target) -> None:
    init: dict[type[Instruction], Instruction] = {}
    terms: list[ElewInit] = []
    for number, instruction in enumerate(instructions):
        context: Instruction | list[ElewInit] | None = None
        if isinstance(instruction, (Conv, Alu)):
            context = init.get(ConvInit if isinstance(instruction, Conv) else AluInit)
        elif isinstance(instruction, (Elew, ElewInit)):
            context = list(terms)
        found = violations(instruction, target, init=context)
        if found:
            raise IllegalInstructionError(
                f"instruction {number} ({instruction.mnemonic()}): {'; '.join(found)}"
            )
        if isinstance(instruction, (ConvInit, AluInit)):
            init[type(instruction)] = instruction
        elif isinstance(instruction, ElewInit):
            terms.append(instruction)
        elif isinstance(instruction, Elew):
            terms = []


def _check_addresses(program: Program) -> None:
    sizes = program.plan.segment_bytes
    for number, i in enumerate(program.schedule.instructions):
        if not isinstance(i, (Load, Save)):
            continue
        jump = i.jump_read if isinstance(i, Load) else i.jump_write
        reduced = isinstance(i, Save) and i.argmax & 2 and not i.const_en
        end = i.ddr_addr + (i.length - 1) * jump + (1 if reduced else i.channel)
        if end > sizes.get(i.reg_id, 0):
            raise AddressError(
                f"instruction {number} ({i.mnemonic()}) ends at byte {end} of REG_{i.reg_id}, "
                f"which has {sizes.get(i.reg_id, 0)}"
            )


def _check_tokens(instructions: tuple[Instruction, ...]) -> None:
    """Run the program in its own order, as the tightest hardware would."""
    tokens: Counter[tuple[Engine, Engine]] = Counter()
    for number, instruction in enumerate(instructions):
        for producer in instruction.waits_for():
            pair = (producer, instruction.ENGINE)
            if not tokens[pair]:
                raise DeadlockError(
                    f"instruction {number} ({instruction.mnemonic()}) waits for a token of "
                    f"{producer.name} that no instruction before it gives"
                )
            tokens[pair] -= 1
        for consumer in instruction.signals():
            tokens[instruction.ENGINE, consumer] += 1
    left = {f"{a.name}->{b.name}": n for (a, b), n in tokens.items() if n}
    if left:
        raise TokenError(f"tokens are left at the end: {left}")
