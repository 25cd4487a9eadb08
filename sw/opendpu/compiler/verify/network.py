# SPDX-License-Identifier: Apache-2.0
"""Rules of networks: layers in an order in which they can run."""

from collections.abc import Iterator

from opendpu.compiler.plan import (
    AluLayer,
    ConvLayer,
    DilatedConvLayer,
    EltwiseLayer,
    MoveLayer,
    Network,
    sources_of,
)
from opendpu.compiler.verify.rules import Finding
from opendpu_arch.target import Target


def network_rules(network: Network, target: Target) -> Iterator[Finding]:
    """Check layers, feature maps and aliases."""
    yield from _aliases(network)
    known = set(network.inputs)
    for layer in network.layers:
        for name in (*sources_of(layer), layer.output):
            if name not in network.features:
                yield Finding(layer.name, "known-feature", f"{name!r} is no feature map")
                return
        for name in sources_of(layer):
            if not _is_made(name, known, network):
                yield Finding(layer.name, "inputs-first", f"it reads {name!r}, which is not yet")
        known.add(layer.output)
        if isinstance(layer, MoveLayer):
            yield from _move(layer, network)
        else:
            yield from _window(layer)
    for name in network.outputs:
        if name not in network.features:
            yield Finding(name, "known-feature", "it is an output, but no feature map")
        elif not _is_made(name, known, network):
            yield Finding(name, "outputs-are-made", "it is an output, but no layer makes it")


def _is_made(name: str, known: set[str], network: Network) -> bool:
    """Tell whether a feature map, or some of what it shares bytes with, has been made."""
    if name in known:
        return True
    root = _root(name, network)
    return any(_root(other, network) == root for other in known)


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
        end = (
            alias.offset + (feature.height - 1) * alias.row_bytes
            + (feature.width - 1) * alias.pixel_bytes + feature.channels
        )  # fmt: skip
        if _root(name, network) in network.aliases:
            yield Finding(name, "no-ring", f"its holder {alias.holder!r} is bytes of it")
        elif not alias.overlapping and not 0 <= alias.offset < end <= size:
            yield Finding(
                name, "inside-holder", f"bytes {alias.offset}..{end} of a holder of {size} bytes"
            )


def _move(layer: MoveLayer, network: Network) -> Iterator[Finding]:
    """Check that a copy has as many pixels as it should."""
    out = network.features[layer.output]
    if layer.source is None:
        if layer.value is None or not -128 <= layer.value <= 127:
            yield Finding(layer.name, "value-of-fill", f"it writes {layer.value}")
        return
    source = network.features[layer.source]
    channels = source.channels if layer.reduction is None else 1
    wanted = (source.height * layer.repeat_h, source.width * layer.repeat_w, channels)
    if (out.height, out.width, out.channels) != wanted:
        made = (out.height, out.width, out.channels)
        yield Finding(layer.name, "shape-of-move", f"it makes {wanted}, not {made}")


def _window(layer: ConvLayer | AluLayer | EltwiseLayer) -> Iterator[Finding]:
    if isinstance(layer, EltwiseLayer):
        if len(layer.shift_read) != len(layer.sources):
            yield Finding(
                layer.name, "one-shift-a-source",
                f"{len(layer.shift_read)} shifts for {len(layer.sources)} sources",
            )  # fmt: skip
        return
    window = layer.window
    outside = window.pad_top >= window.kernel_h or window.pad_left >= window.kernel_w
    if outside and not isinstance(layer, DilatedConvLayer):  # it has gaps, and copes with it
        yield Finding(
            layer.name, "padding-below-kernel",
            f"padding {window.pad_top}, {window.pad_left}; "
            f"kernel {window.kernel_h}, {window.kernel_w}",
        )  # fmt: skip
    if isinstance(layer, ConvLayer):
        kernel = layer.weights.shape[1:3]
        if kernel != (window.kernel_h, window.kernel_w):
            yield Finding(layer.name, "kernel-of-weights", f"weights have {kernel}")
        if layer.bias.size != layer.weights.shape[0]:
            yield Finding(
                layer.name, "bias-per-output",
                f"{layer.bias.size} biases for {layer.weights.shape[0]} output channels",
            )  # fmt: skip
