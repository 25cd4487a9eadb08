# SPDX-License-Identifier: Apache-2.0
"""The stand-in of an AMD-compiled MobileNetV2 has the figures it says, and keeps the rules."""

import collections
import importlib
import pathlib
import types

import pytest

from opendpu_arch import isa
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan

B4096 = Target.from_name("B4096")


@pytest.fixture(scope="module")
def instructions(repository: pathlib.Path) -> list[isa.Instruction]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "scripts" / "bench"))
        module: types.ModuleType = importlib.import_module("amd_stream")
    program: list[isa.Instruction] = module.program(B4096)[0]
    return program


def test_it_has_the_size_of_amds(instructions: list[isa.Instruction]) -> None:
    assert len(instructions) == pytest.approx(12_684, rel=0.02)
    inits: dict[type, isa.Instruction] = {}
    cycles: collections.Counter[str] = collections.Counter()
    for i in instructions:
        inits[type(i)] = i
        if isinstance(i, isa.Conv):
            init = inits[isa.ConvInit]
            assert isinstance(init, isa.ConvInit)
            cycles["conv"] += i.length * i.channel_group * init.kernel_h * init.kernel_w
        elif isinstance(i, isa.Alu):
            alu = inits[isa.AluInit]
            assert isinstance(alu, isa.AluInit)
            cycles["alu"] += alu.length * alu.channel_group * alu.kernel_h * alu.kernel_w
        elif isinstance(i, isa.Elew):
            cycles["elew"] += i.length * i.channel_group * i.num
        elif isinstance(i, isa.Load):
            cycles["load"] += i.length * -(-i.channel // B4096.channel_parallel)
    assert (cycles["alu"], cycles["elew"]) == (342_356, 7_952)
    assert cycles["conv"] == pytest.approx(161_806, rel=0.03)
    assert cycles["load"] == pytest.approx(235_570, rel=0.04)


def test_it_is_legal_and_its_tokens_work_out(instructions: list[isa.Instruction]) -> None:
    planned = plan(isa.encode(instructions), B4096)  # raises where they do not
    assert len(planned.steps) == sum(
        not i.mnemonic().endswith(("INIT", "END")) for i in instructions
    )
