# SPDX-License-Identifier: Apache-2.0
"""The gates refuse what ``opendpu_arch.legal`` refuses, and nothing else.

Fields of extensions that a target lacks are the exception: gates ignore them.
"""

import dataclasses
import random

import pytest
from amaranth.sim import Simulator

from opendpu_arch import isa, latency
from opendpu_arch.legal import violations
from opendpu_arch.target import Target
from opendpu_hw.control.legality import Legality

INIT_OF = {
    isa.Conv: isa.ConvInit,
    isa.Alu: isa.AluInit,
    isa.Pool: isa.PoolInit,
    isa.DptWise: isa.DwInit,
}
TARGETS = {
    "B64": Target.from_name("B64"),
    "B4096": Target.from_name("B4096"),
    "plain": dataclasses.replace(
        Target.from_name("B1152"), save_argmax=False, conv_leaky_relu=False
    ),
    "rich": dataclasses.replace(
        Target.from_name("B1024"), load_mean=True, alu_leaky_relu=True, bank_groups=3
    ),
    "table": Target.from_name("B512+table"),
    "both": Target.from_name("B64+table+channel"),
    "scaled": Target.from_name("B64+scaled"),
    "each": Target.from_name("B512+table+channel+scaled"),
}


def draw(rng, target, pending, extensions):
    """An instruction whose fields are near the edge of what is legal.

    ``extensions`` draws the fields of extensions.
    """
    cls = rng.choice([*isa.INSTRUCTIONS.values(), isa.ElewInit, isa.ElewInit, isa.Elew])
    values = {}
    for f in cls.bit_fields():
        if f.name in ("bank_id", "bank_id_in", "bank_id_out"):
            edges = [target.image_banks - 1, target.image_banks, target.bank_count - 1]
            values[f.name] = rng.choice(
                [rng.randrange(target.image_banks), *edges, target.bank_count]
            )
        elif f.extension:
            values[f.name] = extensions.choice(
                [0, 0, 0, 1] if f.maximum == 1 else [0, 0, 1, 8, 9, 15]
            )
        elif f.name in ("channel", "mode_avg"):
            values[f.name] = rng.choice([f.minimum, f.minimum, 1, 2, 64, 65])
        elif f.name in ("shift_bias",):
            values[f.name] = rng.choice([0, 5, 19, 20, 21, 63])
        elif f.name in ("id", "num"):
            values[f.name] = rng.choice([pending, pending, pending, rng.randint(0, 4)])
        elif f.name in ("exec_mode", "act_type", "pool_type", "elew_type", "argmax"):
            values[f.name] = rng.randint(f.minimum, min(f.maximum, f.minimum + 9))
        elif f.name in (
            "kernel_h",
            "kernel_w",
            "stride_h",
            "stride_w",
            "kernel_d",
            "stride_out",
            "valid_pixel_parallel",
            "jump_bank",
            "downsample_kernel_h",
        ):
            if f.name in ("valid_pixel_parallel", "jump_bank") and rng.random() < 0.5:
                continue
            small = rng.choice([1, 1, 1, 2, 3, 4, 5, 8, 9, f.maximum])
            values[f.name] = min(f.maximum, small)
        elif f.name in ("stride_offset_in", "stride_offset_out"):
            values[f.name] = rng.choice([0, 0, 0, 1, 2, 7])
        else:
            values[f.name] = rng.randint(f.minimum, f.maximum)
        values[f.name] = max(f.minimum, min(f.maximum, values[f.name]))
    return cls(**values)


@pytest.mark.parametrize("name", TARGETS)
def test_same_verdict(name):
    target = TARGETS[name]
    rng = random.Random(f"legality {name}")
    extensions = random.Random(f"extensions {name}")
    dut = Legality(target)
    verdicts = []

    async def bench(ctx):
        inits, pending = {}, []
        for number in range(4000):
            if number % 800 == 0:  # a new program
                ctx.set(dut.clear, 1)
                await ctx.tick()
                ctx.set(dut.clear, 0)
                inits, pending = {}, []
            instruction = draw(rng, target, len(pending), extensions)
            words = instruction.encode()
            ctx.set(dut.words, [*words, *[0] * (6 - len(words))])
            await ctx.tick().repeat(latency.JUDGEMENT)
            kind = type(instruction)
            init = pending if kind in (isa.ElewInit, isa.Elew) else inits.get(INIT_OF.get(kind))
            seen = instruction
            has = {e.label for e in target.extensions}
            lacking = {f.name: 0 for f in kind.bit_fields() if f.extension not in {"", *has}}
            seen = dataclasses.replace(instruction, **lacking)
            expected = violations(seen, target, init=init)
            assert ctx.get(dut.legal) == (not expected), (number, instruction, init, expected)
            verdicts.append((kind, not expected))
            if not expected:
                ctx.set(dut.accept, 1)
                await ctx.tick()
                ctx.set(dut.accept, 0)
                if kind in INIT_OF.values():
                    inits[kind] = instruction
                elif kind is isa.ElewInit:
                    pending.append(instruction)
                elif kind is isa.Elew:
                    pending = []

    sim = Simulator(dut)
    sim.add_clock(1e-6)
    sim.add_testbench(bench)
    sim.run()
    for kind in isa.INSTRUCTIONS.values():  # the draw reaches both sides of every format
        assert (kind, True) in verdicts, kind
        assert kind is isa.End or (kind, False) in verdicts, kind
