# SPDX-License-Identifier: Apache-2.0
"""What layers with weights have, on either engine."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from opendpu.compiler.layers import PER_CHANNEL, Int8Array
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.scaled import layer_channels, requantization
from opendpu.compiler.shifts import shifts_of
from opendpu.ir import Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.isa import ActType

ACTIVATIONS = {
    "NONE": ActType.NONE, "RELU": ActType.RELU, "RELU6": ActType.RELU6,
    "LEAKYRELU": ActType.LEAKYRELU,
}  # fmt: skip


def layer_fields(context: LoweringContext, node: Node, name: str) -> dict[str, Any]:
    """Return what layers of both engines have, for the feature map ``name`` as result."""
    if is_scaled(node):
        return {
            "name": name, "source": node.inputs["input"][0], "output": name,
            "bias": layer_channels(context, node), "shift_cut": 0, "shift_bias": 0,
            "requantization": requantization(context, node),
        }  # fmt: skip
    cut, bias, shifts = shifts_of(node, context.graph).fields()
    return {
        "name": name, "source": node.inputs["input"][0], "output": name,
        "bias": _bias(context, node), "shifts": shifts, "shift_cut": cut, "shift_bias": bias,
        "act_type": ACTIVATIONS[node.attrs["nonlinear"]],
    }  # fmt: skip


def of_channels(fields: Mapping[str, Any], taken: slice) -> dict[str, Any]:
    """Return the fields of a layer that makes some of the output channels."""
    return {**fields, **{name: values[taken] for name, values in _own(fields).items()}}


def repeated(fields: Mapping[str, Any], times: int) -> dict[str, Any]:
    """Return the fields of a layer that makes every output channel several times, in turn."""
    return {**fields, **{name: np.tile(values, times) for name, values in _own(fields).items()}}


def _own(fields: Mapping[str, Any]) -> dict[str, Int8Array]:
    """Return what output channels have of their own."""
    return {name: fields[name] for name in PER_CHANNEL if fields.get(name) is not None}


def _bias(context: LoweringContext, node: Node) -> Int8Array:
    if node.inputs.get("bias"):
        return context.constant(node, "bias").reshape(-1)
    return np.zeros(node.shape[-1], dtype=np.int8)
