# SPDX-License-Identifier: Apache-2.0
"""Whether layers fit the image banks one at a time, with nothing else there."""

from collections.abc import Mapping

from opendpu.compiler.layers import Layer
from opendpu.compiler.network import Network
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.proposal import Proposal, Restrictions, Revision, Tiled
from opendpu.compiler.planner.residency import allocate_banks
from opendpu.compiler.planner.tile import tile
from opendpu.compiler.planner.tiling.problem import Tilings
from opendpu_arch.target import Target


def fits_alone(network: Network, target: Target, tilings: Mapping[type[Layer], Tilings]) -> bool:
    """Return whether every layer has a tiling when all feature maps go through DDR.

    That is the last thing that revisions try, so where it holds, no layer is ever refused.
    """
    revision = Revision(
        network=network, restrictions=Restrictions(spilled=frozenset(network.features)),
        costs=CascadeCosts(network, target),
    )  # fmt: skip
    residency = allocate_banks(Proposal(revision=revision, cascades=()), target)
    return isinstance(tile(residency, target, tilings), Tiled)
