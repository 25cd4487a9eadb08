# SPDX-License-Identifier: Apache-2.0
"""Words of the image banks that no whole feature map takes, and what fits there."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.network import LayerRange
from opendpu.compiler.planner.first_fit import holes
from opendpu_arch.target import Target

FreeWords = Mapping[int, list[tuple[int, int]]]
"""Free (start, end) ranges of words by bank group."""


def free_words(
    target: Target,
    regions: Mapping[str, Region],
    live_ranges: Mapping[str, LayerRange],
    layers: LayerRange,
) -> FreeWords:
    """Return what none of ``regions`` takes while ``layers`` run."""
    return {
        group: holes(
            {
                (r.base, r.base + r.words)
                for name, r in regions.items()
                if live_ranges[name].overlaps(layers) and r.bank_group == group
            },
            target.bank_depth,
        )
        for group in range(target.bank_groups)
    }


def apart_from(free: FreeWords, regions: Iterable[Region]) -> FreeWords:
    """Return the free words that are in none of ``regions``."""
    left = {group: list(ranges) for group, ranges in free.items()}
    for region in regions:
        low, high = region.base, region.base + region.words
        left[region.bank_group] = [
            part
            for start, end in left[region.bank_group]
            for part in ((start, min(end, low)), (max(start, high), end))
            if part[0] < part[1]
        ]
    return left


def total_words(free: FreeWords) -> int:
    """Return the free words of all bank groups."""
    return sum(end - start for ranges in free.values() for start, end in ranges)


def fit(
    wanted: Sequence[int],
    free: FreeWords,
    used: Sequence[int] = (),
    groups: Sequence[int] | None = None,
    busy: Collection[Region] = (),
) -> list[tuple[int, int]] | None:
    """Return (bank group, first word) of each wanted size, in groups of their own if possible.

    ``used`` are the bank groups that are busy already, once for every use; ``groups`` says which
    group each one has to be in; ``busy`` are words to leave at one end of what is free, if it is
    long enough. None if they do not fit.
    """
    holes_left = {group: list(h) for group, h in free.items()}
    load = {group: used.count(group) for group in free}
    found: dict[int, tuple[int, int]] = {}
    for index in sorted(range(len(wanted)), key=lambda i: -wanted[i]):
        options = [
            (load[group], end - start, group, at)
            for group, ranges in holes_left.items()
            for at, (start, end) in enumerate(ranges)
            if end - start >= wanted[index] and (groups is None or groups[index] == group)
        ]
        if not options:
            return None
        _, _, group, at = min(options)
        start, end = holes_left[group][at]
        last = end - wanted[index]
        at_start, at_end = (_overlap(busy, group, n, wanted[index]) for n in (start, last))
        if at_end < at_start:
            found[index], holes_left[group][at] = (group, last), (start, last)
        else:
            found[index], holes_left[group][at] = (group, start), (start + wanted[index], end)
        load[group] += 1
    return [found[i] for i in range(len(wanted))]


@dataclasses.dataclass(frozen=True)
class Placer:
    """Places the pieces of a cascade in ``free`` words, if possible beside the ``busy`` ones.

    Those are what the layers use that run before: what is in other words can be loaded already.
    """

    free: FreeWords
    busy: frozenset[Region] = frozenset()

    def place(
        self, wanted: Sequence[int], groups: Sequence[int] | None = None
    ) -> list[tuple[int, int]] | None:
        """Return (bank group, first word) of pieces of so many words, if there is room.

        In these bank ``groups``, if given.
        """
        return fit(wanted, self.free, groups=groups, busy=self.busy)

    def busy_words(self, wanted: Sequence[int], slots: Sequence[tuple[int, int]]) -> int:
        """Return how many busy words the pieces take."""
        return sum(
            _overlap(self.busy, group, start, words)
            for words, (group, start) in zip(wanted, slots, strict=True)
        )


def _overlap(regions: Iterable[Region], group: int, start: int, words: int) -> int:
    """Return how many words of regions are among ``words`` words of a bank group."""
    return sum(
        max(0, min(r.base + r.words, start + words) - max(r.base, start))
        for r in regions
        if r.bank_group == group
    )
