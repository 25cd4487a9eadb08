# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions: one layer for each phase, which writes every stride-th pixel."""

from opendpu.compiler.constraints import before
from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.conv import layer_fields
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.phases import Phase, phases, take
from opendpu.compiler.plan import Alias, AluLayer, ConvLayer, Feature, Window
from opendpu.ir import Node
from opendpu_arch.isa import AluMode


@lowers("transposed-conv2d-fix", "transposed-depthwise-conv2d-fix")
def transposed(context: Context, node: Node) -> None:
    """Add the layers of all phases; the result is one map that they fill together."""
    top, left = before(node)
    (width, height), (step_w, step_h) = node.attrs["kernel"], node.attrs["stride"]
    whole = context.features[node.name]
    for rows in phases(int(height), int(step_h), top, whole.height):
        for columns in phases(int(width), int(step_w), left, whole.width):
            name = node.name
            if (step_w, step_h) != (1, 1):
                name = f"{node.name}/{rows.start}_{columns.start}"
                context.features[name] = Feature(
                    name=name, height=rows.count, width=columns.count, channels=whole.channels
                )
                row_bytes = whole.width * whole.channels
                context.alias(
                    name,
                    Alias(
                        holder=node.name,
                        offset=rows.start * row_bytes + columns.start * whole.channels,
                        pixel_bytes=int(step_w) * whole.channels,
                        row_bytes=int(step_h) * row_bytes,
                    ),
                )
            _layer(context, node, name, rows, columns)


def _layer(context: Context, node: Node, name: str, rows: Phase, columns: Phase) -> None:
    """Add the layer of one phase."""
    fields = layer_fields(context, node, name)
    weights = take(take(context.constant(node, "weights"), 1, rows.taps), 2, columns.taps)
    fields["window"] = Window(
        kernel_h=len(rows.taps), kernel_w=len(columns.taps), pad_top=rows.pad, pad_left=columns.pad
    )
    if node.kind == "transposed-conv2d-fix":
        context.layers.append(ConvLayer(**fields, weights=weights))
    else:
        context.layers.append(AluLayer(**fields, mode=AluMode.DWCV, weights=weights[0]))
