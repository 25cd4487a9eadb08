# SPDX-License-Identifier: Apache-2.0
"""What the planner proposes for a network, pass by pass, until every layer has its words.

``cascade`` makes a :class:`Proposal`, ``residency`` a :class:`Residency`, ``tile`` a :class:`Tiled`
network, or a :class:`Refusal` that :mod:`opendpu.compiler.planner.revise` turns into a
:class:`Revision` for ``cascade`` to start from again.
"""

import dataclasses
from collections.abc import Mapping
from typing import Self

from opendpu.compiler.banks import Region
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.plan import CascadePlan, LayerPlan
from opendpu.compiler.planner.cascade.costs import Cascade, CascadeCosts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Restrictions:
    """What refusals have ruled out so far; revisions only ever add to it."""

    spilled: frozenset[str] = frozenset()
    """Feature maps that go through DDR."""
    apart: frozenset[LayerRange] = frozenset()
    """Layers that do not run as one cascade."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Revision:
    """A network to plan, and what must not be proposed for it."""

    network: Network
    restrictions: Restrictions
    costs: CascadeCosts = dataclasses.field(repr=False)
    """Those of possible cascades, under these restrictions."""

    def without(self, name: str) -> Self:
        """Return the network with one more feature map that goes through DDR."""
        known = self.restrictions
        restrictions = dataclasses.replace(known, spilled=known.spilled | {name})
        return dataclasses.replace(self, restrictions=restrictions, costs=self.costs.without(name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """Which layers run together; layers of no cascade run one after the other."""

    revision: Revision
    cascades: tuple[Cascade, ...]

    @property
    def network(self) -> Network:
        """What is planned."""
        return self.revision.network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Residency:
    """Feature maps that stay on chip whole, where, and during which layers.

    ``streamed`` holds (layer number, feature map) where a layer reads from DDR all the same,
    because it needs the rows in other banks.
    """

    proposal: Proposal
    regions: Mapping[str, Region]
    live_ranges: Mapping[str, LayerRange]
    streamed: frozenset[tuple[int, str]] = frozenset()

    @property
    def network(self) -> Network:
        """What is planned."""
        return self.proposal.network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tiled:
    """Layers with their loops and all words on chip."""

    residency: Residency
    layers: tuple[LayerPlan, ...]
    cascades: tuple[CascadePlan, ...]

    @property
    def network(self) -> Network:
        """What is planned."""
        return self.residency.network


@dataclasses.dataclass(frozen=True, kw_only=True)
class Refusal:
    """What did not fit beside the feature maps that a proposal keeps on chip."""

    residency: Residency
    layers: LayerRange
    """A cascade, or a single layer."""
    is_cascade: bool
    """Whether they were to run as a cascade."""
    alive: Mapping[str, int]
    """The feature maps in the way, and the words a bank that each takes."""
    free_words: int
    """Words a bank that they leave, over all bank groups."""
