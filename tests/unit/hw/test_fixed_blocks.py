# SPDX-License-Identifier: Apache-2.0
"""Results by multipliers in DSP48E2 against the same in plain registers, in Icarus Verilog."""

import random

import pytest
from amaranth.back import verilog
from blocks import compare, ports_of

from opendpu_hw.datapath.fixed_point import FixedPoint

CYCLES = 1500


def draw(rng, name, width):
    """Return an operand of any size, with many at the limits of the multipliers' parts."""
    top = (1 << width) - 1
    edges = (0, 1, top, top >> 1, 1 << width - 1, (1 << 17) - 1, 1 << 17, (1 << 15) - 1)
    value = rng.choice((*edges, rng.getrandbits(width), rng.getrandbits(rng.randrange(1, width))))
    if name.startswith(("sum", "bias")):  # around zero, and around where sums saturate
        value += rng.choice((0, 1 << 28, -(1 << 28), -value + rng.randrange(-300, 300)))
    return value & top


@pytest.mark.parametrize("width", [31, 34])
def test_blocks_give_what_plain_registers_do(width, tmp_path):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    texts = {
        form: verilog.convert(
            FixedPoint(width=width, vendor=vendor), name=form, emit_src=False,
            strip_internal_attrs=True,
        )
        for form, vendor in (("plain", None), ("blocks", "xilinx"))
    }  # fmt: skip
    ports = ports_of(texts["plain"], "plain")
    inputs = {name: size for name, (way, size) in ports.items() if way == "input" and size > 1}
    drawn = []
    for n in range(CYCLES):
        values = {name: draw(rng, name, size) for name, size in inputs.items()}
        values |= {"rst": int(n < 2), "once": rng.randrange(2)}
        if rng.random() < 0.7:
            values |= {"low": 128, "high": 127, "shift": rng.randrange(16, 29)}
        drawn.append({name: value for name, value in values.items() if name in ports})
    assert compare(texts, ports, drawn, tmp_path, f"seed {seed}") > CYCLES // 2
