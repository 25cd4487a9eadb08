# SPDX-License-Identifier: Apache-2.0
"""What pruning makes less of, and in which steps channels can go."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from opendpu.pruning.structure import Group
from opendpu_arch.target import Target


class Objective(Protocol):
    """Something that a network has less of with fewer channels."""

    name: str
    """One of :data:`OBJECTIVES`."""

    def cost(self, widths: Mapping[str, int]) -> float:
        """Return the cost of a network with these widths, fast; cycles are an estimate."""
        ...

    def exact(self, widths: Mapping[str, int]) -> int:
        """Return the cost of a network with these widths."""
        ...


def granularity(group: Group, divisible: int, target: Target | None = None) -> int:
    """Return how many units of a group are kept or cut at a time.

    The array of a target takes ``channel_parallel`` channels at a time, its misc engine as many of
    a depthwise convolution; a last block that is not full takes as long as a full one. Where the
    group has fewer channels than two blocks, ``divisible`` holds.
    """
    block = max(divisible, 1)
    if target is not None and group.channels >= 2 * target.channel_parallel:
        block = math.lcm(block, target.channel_parallel)
    return max(block // math.gcd(block, group.size), 1)


def levels(
    group: Group, ratios: Sequence[float], divisible: int, target: Target | None = None
) -> list[int]:
    """Return the widths of a group, ascending, that parts of it round to.

    ``ratios`` are parts of the group that are kept. Widths are rounded up to what
    :func:`granularity` says; the whole group is always one of them, nothing never.
    """
    step = granularity(group, divisible, target)
    found = {group.units}
    for ratio in ratios:
        width = math.ceil(round(ratio * group.units / step, 6)) * step
        found.add(min(max(width, min(step, group.units)), group.units))
    return sorted(found)
