# SPDX-License-Identifier: Apache-2.0
"""How many entries there are, a cycle later: without a carry chain, or with one."""

from amaranth.hdl import Cat, Mux


def next_level(level, more, less):
    """Return a level with one entry more, one less, or as many: an expression of its width.

    Without a carry chain, so that what comes late reaches the level through one LUT: each bit
    turns over if all below it are ones, or zeros.
    """
    return Cat(
        bit ^ ((more ^ less) & Mux(more, level[:i].all(), ~level[:i].any()) if i else more ^ less)
        for i, bit in enumerate(level))


def next_count(count, more, less):
    """Return the same of a wide one, with one carry chain: 1, -1 or 0 is added."""
    down = less & ~more
    return (count + Cat(more ^ less, down.replicate(len(count) - 1)))[:len(count)]
