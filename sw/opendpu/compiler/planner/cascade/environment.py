# SPDX-License-Identifier: Apache-2.0
"""What a cascade must know of the rest of the network."""

import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.network import Network
from opendpu.compiler.planner.cascade.list_schedule import IssueOrder
from opendpu.compiler.planner.cascade.stage import Stripe
from opendpu_arch.target import Target

Cut = tuple[tuple[Stripe, ...], int]
"""Stripes, and the number of all that are like them."""


@dataclasses.dataclass(frozen=True)
class Before:
    """What was found for cascades before, by all that it depends on.

    Resizes and recurrent layers are hundreds of layers that differ in their constants only.
    """

    cuts: dict[Hashable, Cut | None] = dataclasses.field(default_factory=dict)
    """Stripes that layers were cut into."""
    numbers: dict[tuple[Stripe, ...], int] = dataclasses.field(default_factory=dict)
    """A number for each different cut."""
    orders: dict[Hashable, IssueOrder] = dataclasses.field(default_factory=dict)
    """Estimates, by stages, buffers and capacities."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Environment:
    """The network around a cascade, and what of it is on chip."""

    network: Network
    target: Target
    resident: Mapping[str, Region]
    """Feature maps that are on chip whole."""
    streamed: Collection[tuple[int, str]]
    """(layer, feature map) where a layer reads from DDR all the same."""
    readers: Mapping[str, Sequence[int]]
    """Numbers of the layers that read each feature map."""
    before: Before = dataclasses.field(default_factory=Before, repr=False)

    def is_resident(self, number: int, name: str) -> bool:
        """Tell whether layer ``number`` finds a feature map on chip whole."""
        return name in self.resident and (number, name) not in self.streamed
