# SPDX-License-Identifier: Apache-2.0
"""What the guide's quantizer calls a layer: ``ResNet::ResNet/Conv2d[conv1]/input.2``.

A name says the class of the whole module, then class and attribute of each module on the way, then
the operator. The last part numbers tensors of a trace, so that it differs between tracers; a name
of another one is found by what is before it, and by the operator where that is not enough.
"""

import dataclasses
import glob
from collections.abc import Mapping

from opendpu.frontend.pytorch.naming import Place
from opendpu.quantize import Override, QuantizeConfig
from pytorch_nndct import messages

_SEPARATOR = "::"


def layer_name(top: str, place: Place) -> str:
    """Return the name of an operator in a module of class ``top``."""
    attributes = place.path.split(".") if place.path else []
    classes = [name.rsplit(".", 1)[-1] for name in place.classes]
    inner = [f"{kind}[{attr}]" for kind, attr in _paired(classes[1:], attributes)]
    return f"{top}{_SEPARATOR}{'/'.join([top, *inner, place.op])}"


def layer_names(top: str, places: Mapping[str, Place]) -> dict[str, str]:
    """Return the guide's names by node."""
    return {node: layer_name(top, place) for node, place in places.items()}


def resolved(config: QuantizeConfig, names: Mapping[str, str]) -> QuantizeConfig:
    """Return a configuration whose rules name nodes where they named layers as the guide does.

    Raises
    ------
    VAIQError
        There is no such layer.
    """
    rules = tuple(_resolved(rule, names) for rule in config.overrides)
    return dataclasses.replace(config, overrides=rules)


def _resolved(rule: Override, names: Mapping[str, str]) -> Override:
    found: list[str] = []
    for pattern in rule.names:
        found += _nodes(pattern, names) if _SEPARATOR in pattern else [pattern]
    return dataclasses.replace(rule, names=tuple(found))


def _nodes(pattern: str, names: Mapping[str, str]) -> list[str]:
    """Return the nodes that a layer's name, escaped as a pattern, means."""
    wanted = pattern.replace("[[]", "[").replace("[*]", "*").replace("[?]", "?")
    found = [node for node, name in names.items() if name == wanted]
    if not found:
        before, _, last = wanted.rpartition("/")
        near = {n: name for n, name in names.items() if name.rpartition("/")[0] == before}
        found = [node for node, name in near.items() if _stem(name) == _stem(last)] or list(near)
    if not found:
        raise messages.error(
            "QUANTIZER_TORCH_QUANT_CONFIG",
            f"layer_quantize_config names layer {wanted!r}, which the module has not; its layers "
            "are in the file that calibration writes, for example "
            f"{next(iter(names.values()), 'none')!r}",
        )
    return [glob.escape(node) for node in found]


def _stem(name: str) -> str:
    """Return the operator in a name, without the number behind it."""
    return name.rpartition("/")[-1].rstrip("_0123456789")


def _paired(classes: list[str], attributes: list[str]) -> list[tuple[str, str]]:
    """Return classes with attributes; a class of a container may span several attributes."""
    short = len(attributes) - len(classes)
    if short > 0:  # the exporter leaves out modules that were not called themselves
        attributes = [".".join(attributes[: short + 1]), *attributes[short + 1 :]]
    return list(zip(classes, attributes, strict=False))
