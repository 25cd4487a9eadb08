# SPDX-License-Identifier: Apache-2.0
"""Normalization by values of the same image."""

import numpy as np

from opendpu.frontend.context import Call
from opendpu.frontend.ops.registry import Layout, handles
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.source import as_float

LEAST_SQUARE = 1e-37
"""Of a vector without a length, which ONNX leaves as it is; float32 holds it."""


@handles("LRN", layout=Layout.SPATIAL)
def local_response(call: Call) -> None:
    """Convert to the op type ``lrn``, which XIR's library lacks; it runs on the CPU."""
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    attrs = {
        "size": int(call.attrs["size"]),
        "alpha": float(call.attrs.get("alpha", 1e-4)),
        "beta": float(call.attrs.get("beta", 0.75)),
        "bias": float(call.attrs.get("bias", 1.0)),
    }
    call.set_feature_map(
        call.context.emit(call.output, "lrn", shape, {"input": [node]}, attrs), rank
    )


@handles("InstanceNormalization", layout=Layout.SPATIAL)
def instance(call: Call) -> None:
    """Convert to ``instancenorm``."""
    _normalization(call, "instancenorm", {})


@handles("GroupNormalization", layout=Layout.SPATIAL)
def group(call: Call) -> None:
    """Convert to ``groupnorm``; in operator set 18, scale and bias are one a group."""
    groups, channels = int(call.attrs["num_groups"]), call.value(0).shape[1]
    if groups < 1 or channels % groups:
        raise Refusal(f"{channels} channels are no {groups} groups of equal size")
    _normalization(call, "groupnorm", {"num_groups": groups, "num_channels": channels})


def _normalization(call: Call, kind: str, attrs: dict[str, int]) -> None:
    """Emit a normalization of each image; weight and bias are left out where they do nothing."""
    rank = len(call.value(0).shape)
    node, shape = call.feature_map()
    given = {}
    for index, (arg, nothing) in enumerate((("weight", 1.0), ("bias", 0.0)), start=1):
        value = as_float(call.weights(index, arg))
        if value.size in (1, attrs.get("num_groups", 1)):
            value = np.repeat(value.reshape(-1), shape[3] // value.size)
        if value.shape != (shape[3],):
            raise Refusal(f"{arg} has shape {list(value.shape)}, but must be [{shape[3]}]")
        given[arg] = (value, nothing)
    affine = any(np.any(value != nothing) for value, nothing in given.values())
    inputs = {"input": [node]}
    if affine:
        for index, (arg, (value, _)) in enumerate(given.items(), start=1):
            inputs[arg] = [call.parameter(index, arg, value)]
    epsilon = float(call.attrs.get("epsilon", 1e-5))
    name = call.context.emit(
        call.output, kind, shape, inputs, {**attrs, "eps": epsilon, "affine": affine}
    )
    call.set_feature_map(name, rank)


@handles("LpNormalization")
def lengths(call: Call) -> None:
    """Convert vectors over their lengths to ``l2_normalize``.

    ``epsilon`` is none of ONNX's attributes: it is the least square of a length, and there where
    the operator stands for several others (:mod:`opendpu.frontend.feature_norms`).
    """
    if int(call.attrs.get("p", 2)) != 2:
        raise Refusal("p is 1, but lengths must be Euclidean")
    value = call.context.straight(call.value(0))
    axis = value.perm.index(int(call.attrs.get("axis", -1)) % len(value.shape))
    node = call.context.view(value.node, value.stored)
    attrs = {"axis": [axis], "epsilon": float(call.attrs.get("epsilon", LEAST_SQUARE))}
    call.bind(
        value.on(
            call.context.emit(call.output, "l2_normalize", value.stored, {"input": [node]}, attrs)
        )
    )
