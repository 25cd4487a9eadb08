# SPDX-License-Identifier: Apache-2.0
"""How many rows of a feature map on chip share a bank: what producer and readers prefer."""

import dataclasses
import math
from collections.abc import Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.banks.layout import Layout, address_groups
from opendpu.compiler.layers import ComputeLayer, Feature, Layer, MoveLayer, channel_groups
from opendpu.compiler.layers.cost import LATENCY, transfer_cycles
from opendpu.compiler.limits import ADDRESS_GROUPS, CONV_REACH, MAX_STRIDE_OUT
from opendpu.compiler.network import Network
from opendpu_arch.target import Target

ALWAYS_TRIED = (1, 2, 4, 8)
"""Rows a bank that are tried although no reader prefers them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preference:
    """The cheapest rows a bank, and the readers that had better load from DDR."""

    rows_per_bank: int
    elsewhere: frozenset[int]


def preferred_layout(
    network: Network, target: Target, name: str, producer: ComputeLayer | None,
    readers: Sequence[int],
) -> Preference:  # fmt: skip
    """Return the layout of a feature map that costs its producer and ``readers`` least."""
    feature = network.features[name]
    row = transfer_cycles(
        feature.width, feature.channels, feature.channels, target.channel_parallel
    )
    transfer = LATENCY + feature.height * row
    preferred = {network.layers[n].preferred_rows_per_bank(name) for n in readers}
    preferred = {rows for rows in preferred if rows <= CONV_REACH.rows_per_bank}
    best: tuple[float, Preference] | None = None
    for rows in sorted(preferred | {*ALWAYS_TRIED}):
        misfits = {n: _misfit(network, target, network.layers[n], feature, rows) for n in readers}
        elsewhere = {number for number, misfit in misfits.items() if misfit > transfer}
        apart = transfer * (1 + len(elsewhere))  # saved once, loaded by each
        if apart >= sum(misfits[number] for number in elsewhere):
            elsewhere, apart = set(), 0
        cost: float = _written_alone(network, target, producer, rows)
        cost += apart + sum(misfit for n, misfit in misfits.items() if n not in elsewhere)
        if best is None or cost < best[0]:
            best = (cost, Preference(rows_per_bank=rows, elsewhere=frozenset(elsewhere)))
    assert best is not None
    return best[1]


def _written_alone(
    network: Network, target: Target, producer: ComputeLayer | None, rows_per_bank: int
) -> int:
    """Return the cycles lost if the producer has to write one row at a time."""
    if producer is None or rows_per_bank == 1:
        return 0
    if rows_per_bank <= MAX_STRIDE_OUT and not producer.ends_in_elew:
        return 0
    return producer.single_row_cycles(network.features, target)


def _misfit(
    network: Network, target: Target, layer: Layer, feature: Feature, rows_per_bank: int
) -> float:
    """Return the cycles lost when ``layer`` reads it so, infinitely many if it cannot."""
    if isinstance(layer, MoveLayer):
        return layer.apart_cycles(feature, target)
    if not isinstance(layer, ComputeLayer):
        return 0
    made = network.features[layer.output].height
    if layer.reads_from_ddr(feature.name):
        return math.inf
    if not _readable(feature, layer, made, rows_per_bank, target):
        return math.inf
    if layer.preferred_rows_per_bank(feature.name) == rows_per_bank:
        return 0
    return layer.single_row_cycles(network.features, target)


def _readable(
    feature: Feature, layer: Layer, made: int, rows_per_bank: int, target: Target
) -> bool:
    """Tell whether ``layer`` can make its rows one at a time of ``feature`` so stored."""
    window = layer.sliding_window(feature.name)
    if window is None:
        return True
    groups = channel_groups(feature, target)
    reach = layer.REACH
    far = feature.width * groups > reach.row_jump
    if rows_per_bank > reach.rows_per_bank or (rows_per_bank > 1 and far):
        return False
    capacity = address_groups(target, rows_per_bank, feature.height)
    region = Region(
        bank_group=0, base=0, words=0, stride=rows_per_bank, capacity=capacity, whole=True
    )
    layout = Layout(target=target, region=region, columns=feature.width, groups=groups)
    tops = range(-window.pad_top, made * window.stride_h - window.pad_top, window.stride_h)
    return all(layout.groups_touched(top, window.kernel_h) <= ADDRESS_GROUPS for top in tops)
