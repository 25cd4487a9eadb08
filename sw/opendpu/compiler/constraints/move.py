# SPDX-License-Identifier: Apache-2.0
"""Limits of ops that only move data."""

from opendpu.compiler.constraints.registry import constraint, inputs_of, pair
from opendpu.compiler.fixed import point_of
from opendpu.compiler.limits import MAX_SHIFT_CUT
from opendpu.ir import Graph, Node
from opendpu.ops.bilinear import weights_of
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.target import Target

MAX_SCALE = 256
"""Pixels that LOAD lays side by side, for a word each."""
MAX_INDEXED = 256
MAX_REDUCED = 4096


@constraint(
    "SYMMETRIC and REFLECT padding is of rows and columns, and at most as large as the feature map "
    "(REFLECT: less).", "pad-fix", lift="less padding", code="XCOM_UNEXPECTED_VALUE",
)  # fmt: skip
def mirrored_pad(node: Node, graph: Graph, target: Target) -> str | None:
    """Each row and column of the border is a copy of one inside."""
    mode, amounts = node.attrs["mode"], node.attrs["paddings"]
    if mode == "CONSTANT":
        return None
    if any(amounts[6:]):
        return f'DPU only supports "paddings"({amounts}) of channels with "mode"({mode}) CONSTANT'
    shape = inputs_of(node, graph)[0].shape
    for axis in (1, 2):
        most = shape[axis] - (mode == "REFLECT")
        if max(amounts[2 * axis : 2 * axis + 2]) > most:
            return f'DPU only supports "paddings"({amounts}) with "mode"({mode}) up to {most} here'
    return None


@constraint(
    "Rows of reorg are a multiple of the square of its scale.", "reorg-fix",
    lift="padding before", code="XCOM_TENSOR_SHAPE_UNMATCH",
)  # fmt: skip
def row_groups(node: Node, graph: Graph, target: Target) -> str | None:
    """reorg exchanges rows inside groups of ``scale`` x ``scale`` rows of pixels."""
    fine = node if node.attrs["reverse"] else inputs_of(node, graph)[0]
    rows = int(node.attrs["scale"]) ** 2
    if fine.shape[1] % rows:
        return f'DPU only supports "height"({fine.shape[1]}) in multiples of {rows}'
    return None


@constraint(
    f"Resize repeats pixels at most {MAX_SCALE} times each way.", "upsample-fix",
    lift="several resize ops", code="XCOM_UNEXPECTED_VALUE",
)  # fmt: skip
def resize_scale(node: Node, graph: Graph, target: Target) -> str | None:
    """``jump_write`` of LOAD has ten bits."""
    for name, size in pair(node, "scale"):
        if size > MAX_SCALE:
            return f'DPU only supports "{name}"({size}) up to {MAX_SCALE}'
    return None


@constraint(
    f"Bilinear resize shifts by 0..{MAX_SHIFT_CUT} bits, those of its weights counted.",
    "upsample-fix", lift="another fix point", code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def resize_shift(node: Node, graph: Graph, target: Target) -> str | None:
    """Each phase is a depthwise convolution."""
    if node.attrs["mode"] != "BILINEAR" or is_scaled(node):
        return None
    made = weights_of(node.attrs)
    assert made is not None
    cut = point_of(inputs_of(node, graph)[0]) + made[0] - point_of(node)
    if 0 <= cut <= MAX_SHIFT_CUT:
        return None
    return f'DPU only supports "shift_cut"({cut}) in 0..{MAX_SHIFT_CUT}'


@constraint(
    "The largest channel needs a target with `save_argmax`.", "argmax-fix", "reduction_max-fix",
    lift="a target with that option", code="XCOM_OPERATOR_UNUPPORT",
)  # fmt: skip
def save_argmax(node: Node, graph: Graph, target: Target) -> str | None:
    """The comparators are a target option."""
    if target.save_argmax:
        return None
    return f"DPU of target {target.name} does not support {node.kind}"


@constraint(
    f"The index of the largest channel is a byte: at most {MAX_INDEXED} channels; the value, of at "
    f"most {MAX_REDUCED}.", "argmax-fix", "reduction_max-fix", lift="fewer channels",
    code="XCOM_UNEXPECTED_VALUE",
)  # fmt: skip
def reduced_channels(node: Node, graph: Graph, target: Target) -> str | None:
    """``channel`` of SAVE has twelve bits."""
    limit = MAX_INDEXED if node.kind == "argmax-fix" else MAX_REDUCED
    channels = inputs_of(node, graph)[0].shape[-1]
    if channels <= limit:
        return None
    return f'DPU only supports "input_channel"({channels}) of {node.kind} up to {limit}'
