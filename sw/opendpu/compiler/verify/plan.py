# SPDX-License-Identifier: Apache-2.0
"""Rules of plans and of instructions before they are scheduled: everything is where it can be."""

from collections.abc import Iterator

from opendpu.compiler.plan import BankAccess, MemoryAccess, Plan, Region, Step
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target


def plan_rules(plan: Plan, target: Target) -> Iterator[Finding]:
    """Check that regions are in their banks, and feature maps and constants in their segments."""
    for placed in plan.layers:
        for region in (*placed.sources, placed.output):
            yield from _region(placed.layer.name, region, target)
    yield from _chains(plan)
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


def _chains(plan: Plan) -> Iterator[Finding]:
    """Check that chains do not overlap, and make every row of their layers' results once."""
    free = 0
    for chain in plan.chains:
        label = f"chain {chain.first}..{chain.last}"
        if not free <= chain.first <= chain.last < len(plan.layers):
            yield Finding(label, "chains-apart", f"of {len(plan.layers)} layers, {free} are taken")
            return
        free = chain.last + 1
        made: dict[int, list[tuple[int, int]]] = {}
        for number, first, rows in chain.turns:
            made.setdefault(number, []).append((first, rows))
        for number in range(chain.first, chain.last + 1):
            layer, at = plan.layers[number].layer, 0
            for first, rows in made.get(number, ()):
                if first != at or rows < 1:
                    yield Finding(layer.name, "rows-in-turn", f"row {at} comes after {first}")
                at = first + rows
            height = plan.network.features[layer.output].height
            if at != height:
                yield Finding(layer.name, "every-row", f"its turns make {at} rows of {height}")


def step_rules(steps: tuple[Step, ...], target: Target) -> Iterator[Finding]:
    """Check that steps have no tokens yet, and touch only banks and segments that exist."""
    for number, step in enumerate(steps):
        label = f"{step.layer}, step {number} ({step.instruction.mnemonic()})"
        if step.instruction.dpdon or step.instruction.dpdby:
            yield Finding(label, "no-tokens-yet", "its instruction already has tokens")
        if step.cycles < 0:
            yield Finding(label, "cycles", f"it takes {step.cycles} cycles")
        for access in step.accesses:
            if isinstance(access, MemoryAccess):
                if not 0 <= access.low <= access.high:
                    yield Finding(label, "memory-range", f"{access}")
            elif not _bank_access_exists(access, target):
                yield Finding(label, "bank-range", f"{access}")


def _bank_access_exists(access: BankAccess, target: Target) -> bool:
    banks = access.bank >= 0 and access.bank + access.banks <= target.bank_count
    return banks and 0 <= access.low < target.bank_depth and 0 <= access.count <= target.bank_depth


def _region(layer: str, region: Region, target: Target) -> Iterator[Finding]:
    if not 0 <= region.bank_group < target.bank_groups:
        yield Finding(
            layer, "bank-group", f"group {region.bank_group} of {target.bank_groups}: {region}"
        )
    if region.base < 0 or region.words < 1 or region.base + region.words > target.bank_depth:
        yield Finding(layer, "inside-bank", f"{region}; a bank has {target.bank_depth} words")
