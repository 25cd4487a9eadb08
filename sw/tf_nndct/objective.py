# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates of a Keras model with any widths of its groups."""

from collections import Counter
from collections.abc import Iterable, Mapping

from tf_nndct.groups import Channel, Structure


class Macs:
    """Multiply-accumulates of one sample."""

    name = "macs"

    def __init__(self, structure: Structure) -> None:
        self._units = {name: g.units for name, g in structure.dependencies.groups.items()}
        self._work = [
            (item.each, _counted(item.made), None if item.read is None else _counted(item.read))
            for item in structure.work
        ]

    def cost(self, widths: Mapping[str, int]) -> float:
        """Return the multiply-accumulates."""
        return sum(
            each * self._left(made, widths) * (1 if read is None else self._left(read, widths))
            for each, made, read in self._work
        )

    def exact(self, widths: Mapping[str, int]) -> int:
        """Return the multiply-accumulates."""
        return round(self.cost(widths))

    def _left(self, counts: Mapping[str, int], widths: Mapping[str, int]) -> float:
        return sum(
            count * (widths[name] / self._units[name] if name else 1)
            for name, count in counts.items()
        )


def _counted(channels: Iterable[Channel]) -> Counter[str]:
    """Return how many channels each group has; under no name those that stay."""
    return Counter("" if channel is None else channel[0] for channel in channels)
