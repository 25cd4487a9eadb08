# SPDX-License-Identifier: Apache-2.0
"""A network of four groups of channels whose layers take blocks of channels, each at a time."""

import math

UNITS = {"stem": 32, "one": 32, "two": 64, "three": 96}
LAYERS = {("stem", "one"): 9, ("one", "stem"): 9, ("stem", "two"): 2, ("two", "three"): 2}
"""Pairs of groups that a layer reads and makes, and what it takes for a pair of blocks."""


class Blocks:
    """What the layers take, with blocks of so many channels."""

    name = "cycles"

    def __init__(self, size):
        self.size = size

    def cost(self, widths):
        return float(self.exact(widths))

    def exact(self, widths):
        """Return the cycles; groups that are not named have all of their channels."""
        blocks = {n: math.ceil(widths.get(n, units) / self.size) for n, units in UNITS.items()}
        return sum(blocks[a] * blocks[b] * each for (a, b), each in LAYERS.items())
