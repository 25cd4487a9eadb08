# SPDX-License-Identifier: Apache-2.0
"""Rules of plans and of commands: everything is where it can be."""

from collections.abc import Iterator

import numpy as np

from opendpu.compiler.accesses import BoolArray, Int64Array, MemoryAccess
from opendpu.compiler.banks import BankAccess
from opendpu.compiler.plan import Plan
from opendpu.compiler.program import CommandStream
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target


def plan_rules(plan: Plan, target: Target) -> Iterator[Finding]:
    """Check that feature maps and constants are in their segments."""
    for name, memory in plan.memory.items():
        size = plan.segment_bytes.get(memory.reg_id, 0)
        if not 0 <= memory.address < size:
            yield Finding(
                name, "inside-segment",
                f"address {memory.address} of REG_{memory.reg_id}, which has {size} bytes",
            )  # fmt: skip
    for name, address in plan.constants.items():
        if not 0 <= address < max(len(plan.blob), 1):
            yield Finding(
                name, "inside-segment", f"address {address} of {len(plan.blob)} bytes of constants"
            )


def command_rules(stream: CommandStream, target: Target) -> Iterator[Finding]:
    """Check that commands have no tokens yet, and touch only banks and segments that exist."""
    for number, command in enumerate(stream.commands):
        instruction = command.instruction
        if instruction.dpdon or instruction.dpdby:
            yield _finding(stream, number, "no-tokens-yet", "its instruction already has tokens")
        if command.cycles < 0:
            yield _finding(stream, number, "cycles", f"it takes {command.cycles} cycles")
    number, _, bank, banks, low, words, _ = stream.accesses.banks
    exists = (bank >= 0) & (bank + banks <= target.bank_count)
    inside = (low >= 0) & (low < target.bank_depth) & (words >= 0) & (words <= target.bank_depth)
    yield from _bad_accesses(stream, number, exists & inside, BankAccess, "bank-range")
    number, _, _, low, high = stream.accesses.memory
    yield from _bad_accesses(
        stream, number, (low >= 0) & (low <= high), MemoryAccess, "memory-range"
    )


def _bad_accesses(
    stream: CommandStream, number: Int64Array, good: BoolArray,
    kind: type[BankAccess] | type[MemoryAccess], rule: str,
) -> Iterator[Finding]:  # fmt: skip
    """Yield a finding for every access of a kind that is not good, all of which are in order."""
    for place in np.flatnonzero(~good).tolist():
        command = int(number[place])
        which = place - int(np.searchsorted(number, command))
        accesses = [a for a in stream.commands[command].accesses if isinstance(a, kind)]
        yield _finding(stream, command, rule, f"{accesses[which]}")


def _finding(stream: CommandStream, number: int, rule: str, text: str) -> Finding:
    command = stream.commands[number]
    label = f"{command.layer}, command {number} ({command.instruction.mnemonic()})"
    return Finding(label, rule, text)
