# SPDX-License-Identifier: Apache-2.0
"""Live ranges: when feature maps are needed."""

from collections.abc import Iterable, Mapping

from opendpu.compiler.network import LayerRange, Network, root_of


def live_ranges(network: Network) -> dict[str, LayerRange]:
    """Return those of all feature maps; aliases live as long as what they are bytes of."""
    found: dict[str, LayerRange] = {}

    def touch(name: str, number: int) -> None:
        old = found.get(name, LayerRange(number, number))
        found[name] = LayerRange(min(old.first, number), max(old.last, number))
        if name in network.aliases:
            touch(network.aliases[name].holder, number)
        for plane in network.features[name].planes:
            if root_of(network.aliases, plane) != name:
                touch(plane, number)

    for name in network.inputs:
        touch(name, 0)
    for number, layer in enumerate(network.layers):
        for name in (*layer.operands, layer.output):
            touch(name, number)
    for name in network.outputs:
        touch(name, len(network.layers))
    for name, alias in network.aliases.items():
        if alias.holder in found:
            found[name] = found[alias.holder]
    return found


def widened(alive: LayerRange, together: Iterable[LayerRange]) -> LayerRange:
    """Return a live range with the whole of those layers at its ends that run ``together``."""
    first, last = alive.first, alive.last
    for run in together:
        first = run.first if run.first <= alive.first <= run.last else first
        last = run.last if run.first <= alive.last <= run.last else last
    return LayerRange(first, last)


def alive(every: Mapping[str, LayerRange], number: int) -> set[str]:
    """Return the feature maps that are alive during layer ``number``."""
    return {name for name, span in every.items() if span.first <= number <= span.last}
