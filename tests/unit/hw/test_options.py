# SPDX-License-Identifier: Apache-2.0
"""Options of the top module: what is refused, and in how many lanes blocks are spared."""

import dataclasses

import pytest

from opendpu_arch.errors import TargetError, UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.options import check


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"ultra": 4}, "no option 'ultra'; known: dsp_double_rate, leaky_blocks, taps_per_c"),
        ({"vendor": "intel"}, "option vendor is 'intel', but must be xilinx, ecp5 or None"),
        ({"ultra_ram": 9}, "ultra_ram is 9, .* of banks below id 8: 4 image banks and 4 of CONVW"),
        ({"ultra_ram": True}, "ultra_ram is True, but must be a number of banks"),
        ({"leaky_blocks": 5}, "leaky_blocks is 5, .* of lanes: DPUCZDX8G_ISA1_B64 has 4 lanes"),
        ({"leaky_blocks": "all"}, "leaky_blocks is 'all', but must be True, False, None or a"),
        ({"leaky_blocks": 2}, "leaky_blocks is for DSP48E2, but vendor is None; allowed with it"),
        ({"leaky_blocks": True, "vendor": "ecp5"}, "is for DSP48E2, but vendor is ecp5; allowed"),
        ({"taps_per_cycle": 0}, "taps_per_cycle is 0, but must be a number"),
        ({"window": 1}, "window is 1, but must be True or False"),
        ({"ultra_ram": 4, "vendor": "ecp5"}, "ultra_ram is 4, but ECP5 has no UltraRAM"),
        ({"dsp_double_rate": "no"}, "dsp_double_rate is 'no', but must be True or False"),
    ],
)
def test_refused(option, text):
    with pytest.raises(UnsupportedError, match=text):
        verilog.elaborate(Target.from_name("B64"), **option)


def test_means_are_refused_before_anything_is_made():
    """No target tells where they are."""
    target = dataclasses.replace(Target.from_name("B64"), load_mean=True)
    with pytest.raises(TargetError, match="load_mean=True, but must have False"):
        check(target)


def test_deep_banks_are_not_in_ultra_ram():
    deep = dataclasses.replace(Target.from_name("B64"), bank_depth=8192)
    check(deep)
    with pytest.raises(UnsupportedError, match="have 8192 words, but 4096 at most may be in Ultra"):
        check(deep, ultra_ram=4)


def test_all_options_together():
    check(
        Target.from_name("B64"), vendor="xilinx", leaky_blocks=2, ultra_ram=8, taps_per_cycle=3,
        window=False,
    )  # fmt: skip
