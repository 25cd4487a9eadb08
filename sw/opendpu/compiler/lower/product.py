# SPDX-License-Identifier: Apache-2.0
"""Products of two feature maps: layers whose weights are pixels of a feature map."""

import dataclasses

import numpy as np

from opendpu.compiler.fixed import point_of
from opendpu.compiler.layers import Feature, ProductLayer, Window
from opendpu.compiler.layers.cost import conv_cycles
from opendpu.compiler.lower.context import LoweringContext
from opendpu.compiler.lower.fields import ACTIVATIONS
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.network import Alias
from opendpu.compiler.network.strides import dense
from opendpu.ir import Node
from opendpu.ops.fixed.product import KIND
from opendpu_arch.target import Target


@lowers(KIND)
def product(context: LoweringContext, node: Node) -> None:
    """Add a layer; its pixels, a row of the op, get as many rows as the array takes best."""
    source, other = node.inputs["input"]
    one, result = context.features[source], context.features[node.name]
    rows = _rows(one, result, context.target)
    cut = sum(point_of(context.graph[name]) for name in (source, other)) - point_of(node)
    context.add(
        ProductLayer(
            name=node.name, source=_as_rows(context, source, f"{node.name}/rows", rows),
            other=other,
            output=_as_rows(context, node.name, f"{node.name}/result", rows),
            window=Window(), inputs=one.channels, outputs=result.channels,
            bias=np.zeros(result.channels, np.int8), shift_cut=cut, shift_bias=0,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )
    )  # fmt: skip


def _rows(source: Feature, result: Feature, target: Target) -> int:
    """Return the rows of a layer of so many pixels that take the fewest cycles."""
    taps = -(-source.channels // target.channel_parallel)

    def cycles(rows: int) -> int:
        return -(-rows // target.pixel_parallel) * conv_cycles(result.width // rows, taps)

    return min((n for n in range(1, result.width + 1) if result.width % n == 0), key=cycles)


def _as_rows(context: LoweringContext, name: str, view: str, rows: int) -> str:
    """Return the pixels of a feature map of one row as one of ``rows`` rows."""
    feature = context.features[name]
    if rows == 1:
        return name
    made = dataclasses.replace(feature, name=view, height=rows, width=feature.width // rows)
    context.features[view] = made
    strides = dense(made)
    alias = Alias(
        holder=name, offset=0, pixel_bytes=strides.pixel_bytes, row_bytes=strides.row_bytes
    )
    assert context.alias(view, alias)  # pixels of one row are at one distance
    return view
