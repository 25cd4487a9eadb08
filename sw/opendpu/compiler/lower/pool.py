# SPDX-License-Identifier: Apache-2.0
"""Pooling: layers of the misc engine."""

from opendpu.compiler.average import average_factor
from opendpu.compiler.fixed import point_of
from opendpu.compiler.lower.context import Context
from opendpu.compiler.lower.registry import lowers
from opendpu.compiler.lower.window import window_of
from opendpu.compiler.plan import AluLayer
from opendpu.ir import Node
from opendpu_arch.isa import AluMode


@lowers("pool-fix")
def pool(context: Context, node: Node) -> None:
    """Add a layer that takes the maximum or the average of every window."""
    source = node.inputs["input"][0]
    window = window_of(node)
    right = point_of(context.draft[source]) - point_of(node)
    mode, factor = AluMode.MAXPOOL, 0
    if node.attrs["type"] == "AVG":
        mode = AluMode.AVEPOOL
        factor, shift = average_factor(kernel_h=window.kernel_h, kernel_w=window.kernel_w)
        right += shift
    context.layers.append(
        AluLayer(
            name=node.name, source=source, output=node.name, window=window, mode=mode,
            multi_factor=factor, shift_cut=8 + right if right >= 0 else -right,
        )
    )  # fmt: skip
