# SPDX-License-Identifier: Apache-2.0
"""What AMD says its DPUCZDX8G takes on ZCU102, with the options that our targets have.

PG338's table of sizes with high DSP usage, plus its extras for depthwise convolution, LeakyReLU in
CONV and SAVE's argmax; B4096 is version 4.1's row with four ALU rows, which includes them.
"""

from cells import Resources

_BASE = {
    "B512": (20177, 31782, 69.5, 98),
    "B800": (20617, 35065, 87, 142),
    "B1024": (27377, 46241, 101.5, 194),
    "B1152": (28698, 46906, 117.5, 194),
    "B1600": (30877, 56267, 123, 282),
    "B2304": (34379, 67481, 161.5, 386),
    "B3136": (38555, 79867, 203.5, 506),
}
"""LUT, FF, BRAM36, DSP."""
_DEPTHWISE = {
    "B512": (1734, 4, 12),
    "B800": (2293, 4.5, 15),
    "B1024": (2744, 4, 24),
    "B1152": (2365, 5.5, 18),
    "B1600": (3392, 4.5, 30),
    "B2304": (3943, 5.5, 36),
    "B3136": (4269, 6.5, 42),
}
"""LUT, BRAM36, DSP."""
_LEAKY_AND_ARGMAX = {
    "B512": 465 + 422,
    "B800": 502 + 399,
    "B1024": 636 + 460,
    "B1152": 1038 + 503,
    "B1600": 831 + 590,
    "B2304": 460 + 803,
    "B3136": 812 + 832,
}
"""LUT."""


def published(size: str) -> Resources | None:
    """Return AMD's figures for a size, or None where there are none (B64 to B256)."""
    if size == "B4096":
        return Resources(lut=51388, ff=98525, dsp=710, bram36=255)
    if size not in _BASE:
        return None
    lut, ff, bram, dsp = _BASE[size]
    more_lut, more_bram, more_dsp = _DEPTHWISE[size]
    return Resources(
        lut=lut + more_lut + _LEAKY_AND_ARGMAX[size],
        ff=ff,
        dsp=dsp + more_dsp,
        bram36=bram + more_bram,
    )
