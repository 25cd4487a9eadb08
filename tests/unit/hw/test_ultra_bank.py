# SPDX-License-Identifier: Apache-2.0
"""Banks of URAM288 against the same in plain registers, in Icarus Verilog."""

import random

import pytest
from amaranth.back import verilog
from blocks import compare, ports_of

from opendpu_hw.memory.ultra_bank import UltraBank

CYCLES = 1500


@pytest.mark.parametrize(
    ("depth", "width"), [(4096, 72), pytest.param(2048, 128, marks=pytest.mark.slow), (64, 8)]
)
def test_the_primitives_keep_words_as_a_plain_memory_does(depth, width, tmp_path):
    """Few addresses, so that ports meet in the same word often, at both ends of the bank."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    texts = {
        form: verilog.convert(
            UltraBank(depth=depth, width=width, vendor=vendor), name=form, emit_src=False,
            strip_internal_attrs=True,
        )
        for form, vendor in (("plain", None), ("blocks", "xilinx"))
    }  # fmt: skip
    assert texts["blocks"].count("URAM288_BASE #(") == -(-width // 72)
    assert "URAM288" not in texts["plain"]
    ports = ports_of(texts["plain"], "plain")
    addresses = [0, 1, depth // 2, depth - 1]
    drawn = [
        {
            "rst": int(n < 2), "a_en": rng.randrange(2), "a_addr": rng.choice(addresses),
            "b_en": rng.randrange(2), "b_write": rng.randrange(2), "b_addr": rng.choice(addresses),
            "b_wdata": rng.getrandbits(width),
        }
        for n in range(CYCLES)
    ]  # fmt: skip
    drawn = [{name: value for name, value in one.items() if name in ports} for one in drawn]
    assert compare(texts, ports, drawn, tmp_path, f"seed {seed}") > CYCLES
