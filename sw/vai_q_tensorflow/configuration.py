# SPDX-License-Identifier: Apache-2.0
"""What the options of ``quantize`` mean for our quantizer."""

import argparse
import dataclasses
import glob
from typing import Any

from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.tensor_spec import BITS, Override, TensorSpec
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow.graph import names

METHODS = {0: "nonoverflow", 1: "diffs", 2: "diffs"}
WEIGHTS = "/weights"
"""Behind the name of a layer, where its weights alone are meant."""


def configuration(given: argparse.Namespace) -> QuantizeConfig:
    """Return what the options say.

    Raises
    ------
    UnsupportedError
        A bit width, method or type that there is not.
    """
    if given.convert_datatype:
        raise UnsupportedError(
            f"convert_datatype is {given.convert_datatype}, but must be 0: opendpu quantize --set "
            "number_format=bfloat16 does this", code="QUANTIZER_TF1_INVALID_TARGET_DTYPE",
        )  # fmt: skip
    if given.arch_type != "DEFAULT":
        raise UnsupportedError(f"arch_type is {given.arch_type!r}, but must be 'DEFAULT'")
    method = _method("method", given.method)
    start = QuantizeConfig.with_method(method)
    widths = {
        "input": given.activation_bit, "activation": given.activation_bit,
        "weights": given.weight_bit, "bias": given.weight_bit,
    }  # fmt: skip
    specs = {
        role: dataclasses.replace(getattr(start, role), bits=_bits(role, bits))
        for role, bits in widths.items()
    }
    config = dataclasses.replace(
        start, **specs, cross_layer=given.do_cle != 0,
        relu6_to_relu=bool(given.replace_relu6) and bool(given.do_cle),
        activation_substitution="hard" if given.replace_sigmoid else "none",
    )  # fmt: skip
    return dataclasses.replace(config, overrides=tuple(_rules(config, given)))


def _rules(config: QuantizeConfig, given: argparse.Namespace) -> list[Override]:
    """Return the rules of single nodes, bits and methods together."""
    changes: dict[str, dict[str, Any]] = {}
    readers: list[tuple[str, str, Any]] = [
        ("nodes_bit", "bits", _bits), ("nodes_method", "method", _method),
    ]  # fmt: skip
    for option, field, read in readers:
        for item in names(getattr(given, option)):
            node, _, value = item.rpartition(":")
            if not node or not value.isdigit():
                raise UnsupportedError(f"{option} has {item!r}, but must have items node:number")
            changes.setdefault(node, {})[field] = read(item, int(value))
    found = []
    for node, fields in changes.items():
        roles = ("weights",) if node.endswith(WEIGHTS) else ("activation",)
        name = node.removesuffix(WEIGHTS)
        changed: dict[str, Any] = {
            role: dataclasses.replace(getattr(config, role), **fields) for role in roles
        }
        found.append(Override(names=_patterns(name), **changed))
    none: Any = TensorSpec(number_format="float32")
    if ignored := names(given.ignore_nodes):
        patterns = tuple(pattern for name in ignored for pattern in _patterns(name))
        found.append(Override(names=patterns, weights=none, bias=none, activation=none))
    return found


def _patterns(node: str) -> tuple[str, ...]:
    """Return patterns of a node, and of those in a scope of its name."""
    return glob.escape(node), f"{glob.escape(node)}/*"


def _bits(what: str, bits: int) -> int:
    if bits not in BITS:
        raise UnsupportedError(
            f"{what}: {bits} bits, but there are {BITS[0]} to {BITS[-1]}",
            code="QUANTIZER_TF1_INVALID_BITWIDTH",
        )
    return bits


def _method(what: str, method: int) -> str:
    if method not in METHODS:
        raise UnsupportedError(
            f"{what}: method is {method}, but must be one of {', '.join(map(str, METHODS))}",
            code="QUANTIZER_TF1_INVALID_METHOD",
        )
    return METHODS[method]
