# SPDX-License-Identifier: Apache-2.0
"""Rules of what the planner proposes: cascades, feature maps on chip, loops."""

import itertools
from collections.abc import Iterator

from opendpu.compiler.banks import Region
from opendpu.compiler.plan import CascadePlan
from opendpu.compiler.planner.proposal import Proposal, Residency, Tiled
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target


def proposal_rules(proposal: Proposal, target: Target) -> Iterator[Finding]:
    """Check that cascades have several layers, do not overlap, and are none that were ruled out.

    Some layers run as a cascade of their own.
    """
    free, every = 0, proposal.network.layers
    for cascade in proposal.cascades:
        layers = cascade.layers
        label = f"cascade {layers.first}..{layers.last}"
        least = layers.first if every[layers.first].CASCADES_ALONE else layers.first + 1
        if not (free <= layers.first and least <= layers.last < len(every)):
            yield Finding(label, "cascades-apart", f"of {len(every)} layers, {free} are taken")
            return
        free = layers.last + 1
        if layers in proposal.revision.restrictions.apart:
            yield Finding(label, "restrictions-kept", "it did not fit before")


def residency_rules(residency: Residency, target: Target) -> Iterator[Finding]:
    """Check that feature maps on chip have words of their own while they are alive.

    The result of an epilogue may have those of an operand.
    """
    regions, alive = residency.regions, residency.live_ranges
    spilled = residency.proposal.revision.restrictions.spilled
    for name, region in regions.items():
        yield from _region(name, region, target)
        if name in spilled:
            yield Finding(name, "restrictions-kept", "it goes through DDR, but is on chip")
    for (a, one), (b, other) in itertools.combinations(regions.items(), 2):
        if one == other or one.bank_group != other.bank_group or not alive[a].overlaps(alive[b]):
            continue
        if one.base < other.base + other.words and other.base < one.base + one.words:
            yield Finding(a, "own-words", f"it shares words of {one} with {b!r}: {other}")


def tiled_rules(tiled: Tiled, target: Target) -> Iterator[Finding]:
    """Check that every layer is there, its regions are in their banks, and cascades make rows."""
    if tuple(plan.layer for plan in tiled.layers) != tiled.network.layers:
        made = [plan.layer.name for plan in tiled.layers]
        yield Finding(made[0] if made else "", "every-layer", f"only {made} have loops")
        return
    for placed in tiled.layers:
        others = (region for region in (placed.tile, placed.alternate) if region is not None)
        for region in (*placed.sources, placed.output, *others):
            yield from _region(placed.layer.name, region, target)
    for cascade in tiled.cascades:
        yield from _stripes(tiled, cascade)


def _stripes(tiled: Tiled, cascade: CascadePlan) -> Iterator[Finding]:
    """Check that the stripes make every row of the layers' results once, in order."""
    made: dict[int, list[tuple[int, int]]] = {}
    for number, first, rows in cascade.issue_order:
        made.setdefault(number, []).append((first, rows))
    for number in cascade.layers.numbers:
        layer, at = tiled.layers[number].layer, 0
        for first, rows in made.get(number, ()):
            if first != at or rows < 1:
                yield Finding(layer.name, "rows-in-order", f"row {at} comes after {first}")
            at = first + rows
        height = tiled.network.features[layer.output].height
        if at != height:
            yield Finding(layer.name, "every-row", f"its stripes make {at} rows of {height}")


def _region(layer: str, region: Region, target: Target) -> Iterator[Finding]:
    if not 0 <= region.bank_group < target.bank_groups:
        yield Finding(
            layer, "bank-group", f"group {region.bank_group} of {target.bank_groups}: {region}"
        )
    if region.base < 0 or region.words < 1 or region.base + region.words > target.bank_depth:
        yield Finding(layer, "inside-bank", f"{region}; a bank has {target.bank_depth} words")
