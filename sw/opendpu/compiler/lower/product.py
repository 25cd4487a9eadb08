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
            name=node.name, source=rows.view(context, source, f"{node.name}/factor"), other=other,
            output=rows.view(context, node.name, f"{node.name}/result"),
            window=Window(), inputs=one.channels, outputs=result.channels,
            bias=np.zeros(result.channels, np.int8), shift_cut=cut, shift_bias=0,
            act_type=ACTIVATIONS[node.attrs["nonlinear"]],
        )
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Rows:
    """Rows of pixels, each ``step`` pixels behind the one before.

    Where the number of pixels is no multiple of that of the rows, rows overlap: what is in two of
    them is made twice, which is the same and takes less than many short rows.
    """

    count: int
    columns: int
    step: int

    @classmethod
    def of(cls, pixels: int, count: int) -> "_Rows":
        """Return ``count`` rows that hold all of some pixels."""
        step = pixels // count
        return cls(count, pixels - step * (count - 1), step)

    def view(self, context: LoweringContext, name: str, view: str) -> str:
        """Return a feature map of one row as these."""
        if self.count == 1:
            return name
        feature = context.features[name]
        context.features[view] = dataclasses.replace(
            feature, name=view, height=self.count, width=self.columns
        )
        alias = Alias(
            holder=name, offset=0, pixel_bytes=feature.channels,
            row_bytes=self.step * feature.channels,
        )  # fmt: skip
        assert context.alias(view, alias)  # pixels of one row are at one distance
        return view


def _rows(source: Feature, result: Feature, target: Target) -> _Rows:
    """Return the rows of a layer's pixels that take the fewest cycles."""
    taps = -(-source.channels // target.channel_parallel)

    def cycles(rows: _Rows) -> int:
        return -(-rows.count // target.pixel_parallel) * conv_cycles(rows.columns, taps)

    every = (_Rows.of(result.width, count) for count in range(1, result.width + 1))
    return min(every, key=cycles)
