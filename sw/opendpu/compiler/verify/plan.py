# SPDX-License-Identifier: Apache-2.0
"""Rules of plans and of commands: everything is where it can be."""

from collections.abc import Iterator

from opendpu.compiler.banks import BankAccess
from opendpu.compiler.plan import Plan
from opendpu.compiler.program import CommandStream, MemoryAccess
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
        label = f"{command.layer}, command {number} ({command.instruction.mnemonic()})"
        if command.instruction.dpdon or command.instruction.dpdby:
            yield Finding(label, "no-tokens-yet", "its instruction already has tokens")
        if command.cycles < 0:
            yield Finding(label, "cycles", f"it takes {command.cycles} cycles")
        for access in command.accesses:
            if isinstance(access, MemoryAccess):
                if not 0 <= access.low <= access.high:
                    yield Finding(label, "memory-range", f"{access}")
            elif not _bank_access_exists(access, target):
                yield Finding(label, "bank-range", f"{access}")


def _bank_access_exists(access: BankAccess, target: Target) -> bool:
    banks = access.bank >= 0 and access.bank + access.banks <= target.bank_count
    return banks and 0 <= access.low < target.bank_depth and 0 <= access.count <= target.bank_depth
