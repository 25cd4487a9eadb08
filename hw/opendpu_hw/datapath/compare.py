# SPDX-License-Identifier: Apache-2.0
"""Comparison of bytes without carry chains."""

from amaranth.hdl import Cat, Const


def above(one, other):
    """Return whether an unsigned value is larger than another one of as many bits.

    Three bits of both fit a LUT of six inputs: it says whether they are larger, another one whether
    they are as large at least, and a third joins that with what the bits below say.
    """
    larger = Const(0)
    for low in range(0, len(one), 3):
        more, least = Const(0), Const(1)
        for x, y in zip(one[low:low + 3], other[low:low + 3], strict=True):
            more, least = ((x & ~y) | ((x | ~y) & below) for below in (more, least))
        larger = more | (least & larger)
    return larger


def exceeds(one, other):
    """Return whether an INT8 value is larger than another."""
    return above(*(Cat(value[:7], ~value[7]) for value in (one, other)))
