# SPDX-License-Identifier: Apache-2.0
"""Rules of networks: layers in an order in which they can run."""

from collections.abc import Iterator

from opendpu.compiler.network import Network
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target


def network_rules(network: Network, target: Target) -> Iterator[Finding]:
    """Check layers, feature maps and aliases."""
    yield from _aliases(network)
    known = {*network.inputs, *network.constants}
    roots = {_root(name, network) for name in known}
    for layer in network.layers:
        for name in (*layer.operands, layer.output):
            if name not in network.features:
                yield Finding(layer.name, "known-feature", f"{name!r} is no feature map")
                return
        for name in layer.operands:
            if name not in known and _root(name, network) not in roots:
                yield Finding(layer.name, "inputs-first", f"it reads {name!r}, which is not yet")
        known.add(layer.output)
        roots.add(_root(layer.output, network))
        if not layer.op:
            yield Finding(layer.name, "known-op", "it does not say what it was lowered from")
        for rule, text in layer.broken_rules(network.features):
            yield Finding(layer.name, rule, text)
    for name in network.outputs:
        if name not in network.features:
            yield Finding(name, "known-feature", "it is an output, but no feature map")
        elif name not in known and _root(name, network) not in roots:
            yield Finding(name, "outputs-are-made", "it is an output, but no layer makes it")


def _root(name: str, network: Network) -> str:
    """Return the feature map whose bytes ``name`` is part of; broken aliases are found before."""
    for _ in network.aliases:
        if name not in network.aliases:
            break
        name = network.aliases[name].holder
    return name


def _aliases(network: Network) -> Iterator[Finding]:
    for name, alias in network.aliases.items():
        if alias.holder not in network.features or name not in network.features:
            yield Finding(name, "known-feature", f"it or its holder {alias.holder!r} is unknown")
            continue
        feature, holder = network.features[name], network.features[alias.holder]
        size = holder.height * holder.width * holder.channels
        if alias.repeats:
            whole = (holder.height * alias.repeat_h, holder.width * alias.repeat_w)
            if (feature.height, feature.width, feature.channels) != (*whole, holder.channels):
                yield Finding(name, "repeats-holder", f"it is {feature}, its holder {holder}")
            continue
        end = (
            alias.offset + (feature.height - 1) * alias.row_bytes
            + (feature.width - 1) * alias.pixel_bytes + feature.channels
        )  # fmt: skip
        if _root(name, network) in network.aliases:
            yield Finding(name, "no-cycle", f"its holder {alias.holder!r} is bytes of it")
        elif not alias.overlapping and not 0 <= alias.offset < end <= size:
            yield Finding(
                name, "inside-holder", f"bytes {alias.offset}..{end} of a holder of {size} bytes"
            )
