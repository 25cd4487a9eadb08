# SPDX-License-Identifier: Apache-2.0
"""How many entries there are, a cycle later."""

from amaranth.hdl import Cat, Mux


def next_level(level, more, less):
    """Return a level with one entry more, one less, or as many: an expression of its width.

    Without a carry chain, so that what comes late reaches the level through one LUT: each bit
    turns over if all below it are ones, or zeros.
    """
    return Cat(
        bit ^ ((more ^ less) & Mux(more, level[:i].all(), ~level[:i].any()) if i else more ^ less)
        for i, bit in enumerate(level))
