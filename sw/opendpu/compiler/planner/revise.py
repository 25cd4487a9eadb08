# SPDX-License-Identifier: Apache-2.0
"""What to rule out when something did not fit: the least that can help, the rest is kept.

A revision splits one cascade or sends one feature map through DDR, and nothing takes that back. So
there are at most as many revisions as there are cascades and feature maps.
"""

import dataclasses

from opendpu.compiler.layers import Layer
from opendpu.compiler.network import Network
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.proposal import Refusal, Restrictions, Revision
from opendpu_arch.errors import DPUError, PassError
from opendpu_arch.target import Target


class BankCapacityError(DPUError):
    """A layer does not fit the image banks, even when nothing else is there."""

    def __init__(self, message: str, layer: Layer) -> None:
        self.layer = layer
        super().__init__(message)


def unrestricted(network: Network, target: Target) -> Revision:
    """Return a network of which nothing is ruled out yet."""
    return Revision(
        network=network, restrictions=Restrictions(), costs=CascadeCosts(network, target)
    )


def revise(refusal: Refusal, target: Target) -> Revision:
    """Return the network with one more restriction.

    Raises
    ------
    BankCapacityError
        No feature map is in the way of the layer that does not fit.
    PassError
        What is in the way had been ruled out already: a bug of the planner, which would not end.
    """
    before = refusal.residency.proposal.revision
    known = before.restrictions
    if refusal.is_cascade:
        if refusal.layers in known.apart:
            raise PassError(f"the planner proposes layers {refusal.layers} as a cascade again")
        apart = known.apart | {refusal.layers}
        return dataclasses.replace(before, restrictions=dataclasses.replace(known, apart=apart))
    if not refusal.alive:
        layer = before.network.layers[refusal.layers.first]
        raise BankCapacityError(
            f"layer {layer.name} does not fit the image banks: {target.bank_groups} groups "
            f"of {target.bank_depth} words, of which {refusal.free_words} are free",
            layer,
        )
    spill = max(refusal.alive, key=lambda name: (refusal.alive[name], name))
    if spill in known.spilled:
        raise PassError(f"the planner keeps {spill!r} on chip again, which goes through DDR")
    return before.without(spill)
