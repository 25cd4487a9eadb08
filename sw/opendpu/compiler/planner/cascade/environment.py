# SPDX-License-Identifier: Apache-2.0
"""What a cascade must know of the rest of the network."""

import dataclasses
from collections.abc import Collection, Hashable, Mapping, Sequence

from opendpu.compiler.banks import Region
from opendpu.compiler.network import Network
from opendpu.compiler.planner.cascade.stage import Stripe
from opendpu_arch.target import Target

StripesBefore = dict[Hashable, tuple[Stripe, ...] | None]
"""Stripes that were cut before, by all that they depend on."""


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
    stripes: StripesBefore = dataclasses.field(default_factory=dict, repr=False)

    def is_resident(self, number: int, name: str) -> bool:
        """Tell whether layer ``number`` finds a feature map on chip whole."""
        return name in self.resident and (number, name) not in self.streamed
