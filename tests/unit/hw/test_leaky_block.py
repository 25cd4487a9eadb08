# SPDX-License-Identifier: Apache-2.0
"""LEAKYRELU's factor in a DSP48E2 against the same in plain registers, in Icarus Verilog."""

import random

import pytest
from amaranth.back import verilog
from blocks import compare, ports_of

from opendpu_hw.datapath.leaky_block import LeakyBlock

CYCLES = 500


@pytest.mark.parametrize("width", [28, 32])
def test_the_block_multiplies_as_plain_registers_do(width, tmp_path):
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    texts = {
        form: verilog.convert(
            LeakyBlock(width=width, vendor=vendor), name=form, emit_src=False,
            strip_internal_attrs=True,
        )
        for form, vendor in (("plain", None), ("blocks", "xilinx"))
    }  # fmt: skip
    ports = ports_of(texts["plain"], "plain")
    drawn = [
        {
            "rst": int(n < 2), "leaky": rng.randrange(2),
            "stage": 3 if n < 20 else rng.randrange(4),
            "value": rng.choice([1 << width - 1, (1 << width) - 1, rng.getrandbits(width)])
            ^ rng.choice([0, 1 << 26, (1 << 26) - 1]),
        }
        for n in range(CYCLES)
    ]  # fmt: skip
    drawn = [{name: value for name, value in one.items() if name in ports} for one in drawn]
    assert compare(texts, ports, drawn, tmp_path, f"seed {seed}") > CYCLES // 2
