# SPDX-License-Identifier: Apache-2.0
"""Which channels of a network are cut together, whatever framework the network is of."""

import dataclasses
from collections.abc import Mapping

from opendpu_arch.errors import UnsupportedError

OUT, IN = "out", "in"
"""Side of a layer whose channels are meant; what has one side only has OUT."""


@dataclasses.dataclass(frozen=True)
class Member:
    """Channels of one layer or parameter that belong to a group.

    Parameters
    ----------
    path
        Name of the module, or of a parameter that no known module holds.
    side
        ``out`` or ``in``.
    indices
        Channels of the layer; several may belong to one of the group, for example behind a flatten.
    units
        For each of ``indices``, the unit of the group that it belongs to.
    """

    path: str
    side: str
    indices: tuple[int, ...]
    units: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Channels that are cut together.

    Parameters
    ----------
    name
        Path of the first layer, in the order of the network's modules, whose outputs they are.
    units
        How many choices there are: channels, or sets of channels that cannot be told apart.
    size
        Channels of the layer ``name`` in each unit.
    members
        What is cut.
    depthwise
        Whether a depthwise convolution is among them.
    """

    name: str
    units: int
    size: int
    members: tuple[Member, ...]
    depthwise: bool = False

    @property
    def channels(self) -> int:
        """Channels of the layer that gives the group its name."""
        return self.units * self.size

    def producers(self) -> list[str]:
        """Return the paths of the layers whose outputs the channels are."""
        return [member.path for member in self.members if member.side == OUT]


@dataclasses.dataclass(frozen=True)
class Dependencies:
    """All groups of a network, and why the channels of other layers stay.

    Parameters
    ----------
    groups
        By name, in the order of the network's modules.
    kept
        Reasons by the name of a layer.
    """

    groups: dict[str, Group]
    kept: dict[str, str]

    def need_groups(self, network: str) -> None:
        """Refuse to go on where there is nothing to prune of a network.

        Raises
        ------
        UnsupportedError
            No layer has channels that can be cut.
        """
        if not self.groups:
            kept = list(self.kept.items())[:3]
            reasons = "; ".join(f"{name or 'it'}: {why}" for name, why in kept)
            raise UnsupportedError(
                f"nothing of {network} can be pruned: {reasons or 'it has no convolutions'}",
                code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
            )

    def without(self, names: Mapping[str, str]) -> "Dependencies":
        """Return the same with groups left out, for the reasons given."""
        groups = {name: group for name, group in self.groups.items() if name not in names}
        return Dependencies(groups, {**self.kept, **names})
