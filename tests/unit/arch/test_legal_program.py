# SPDX-License-Identifier: Apache-2.0
"""Whole programs are refused for the instruction for which the rules refuse one by one."""

import dataclasses
import random
from typing import Any

import pytest

from opendpu_arch import isa, legal
from opendpu_arch.bits import Record
from opendpu_arch.columns import Columns
from opendpu_arch.legal_program import INITS, first_violation
from opendpu_arch.target import Target

TARGETS = [Target.from_name(name) for name in ("B512", "B4096+channel+scaled", "B64+table")]
MEAN = dataclasses.replace(TARGETS[0], load_mean=True)


def drawn(draw: random.Random, kind: type[isa.Instruction], limit: int) -> isa.Instruction:
    """Draw an instruction with small values, of which many are legal."""
    values = {
        f.name: draw.randint(f.minimum, min(f.maximum, f.minimum + limit))
        for f in kind.bit_fields()
        if draw.random() < 0.3
    }
    return kind(**values)


def one_by_one(program: list[isa.Instruction], target: Target) -> tuple[int, list[str]] | None:
    init: dict[type[Record], isa.Instruction] = {}
    inputs: list[isa.ElewInit] = []
    for number, instruction in enumerate(program):
        given: Any = init.get(INITS.get(type(instruction), Record))
        if isinstance(instruction, (isa.Elew, isa.ElewInit)):
            given = inputs
        if found := legal.violations(instruction, target, init=given):
            return number, found
        init[type(instruction)] = instruction
        if isinstance(instruction, isa.ElewInit):
            inputs = [*inputs, instruction]
        elif isinstance(instruction, isa.Elew):
            inputs = []
    return None


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_the_first_one_is_found(target: Target, seed: int) -> None:
    draw = random.Random(seed)
    kinds = list(isa.INSTRUCTIONS.values())
    places = set()
    for _ in range(80):
        size, limit = draw.randint(0, 40), draw.choice([0, 0, 1, 2, 40])
        program: list[isa.Instruction] = [kind() for kind in INITS.values() if draw.random() < 0.9]
        for _ in range(size):
            kind = draw.choice(kinds)
            if kind is isa.Elew and draw.random() < 0.8:
                many = draw.randint(1, 3)
                program += [isa.ElewInit(id=n, jump_bank=1) for n in range(many)]
                program.append(isa.Elew(num=many))
            elif kind not in (isa.Elew, isa.ElewInit) or draw.random() < 0.1:
                program.append(drawn(draw, kind, limit))
        wanted = one_by_one(program, target)
        assert first_violation(Columns(program), target) == wanted
        places.add(None if wanted is None else wanted[0])
    assert None in places
    assert len(places) > 10


@pytest.mark.parametrize("rule", legal.RULES, ids=lambda rule: rule.name)
def test_rules_name_the_fields_that_they_read(
    rule: legal.Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[tuple[int, str]] = set()
    plain = Record.__getattribute__

    def watched(record: Record, name: str) -> Any:
        seen.add((id(record), name))
        return plain(record, name)

    draw = random.Random(rule.name)
    every = {f.name for kind in isa.INSTRUCTIONS.values() for f in kind.bit_fields()}
    own, inits = set[str](), set[str]()
    for kind in rule.applies_to:
        for limit in (0, 1, 3, 1 << 30) * 30:
            instruction = drawn(draw, kind, limit)
            init: Any = None
            if kind in INITS and draw.random() < 0.9:
                init = drawn(draw, INITS[kind], limit)
            elif kind in (isa.Elew, isa.ElewInit):
                init = [drawn(draw, isa.ElewInit, limit) for _ in range(draw.randint(0, 5))]
            seen.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Record, "__getattribute__", watched)
                for target in (*TARGETS, MEAN):
                    list(rule.broken(instruction, target, init))
            own |= {name for record, name in seen if record == id(instruction)} & every
            inits |= {name for record, name in seen if record != id(instruction)} & every
    assert own == set(rule.reads)
    assert inits == set(rule.of_init)
