# SPDX-License-Identifier: Apache-2.0
"""Limits of the ops with weights."""

from opendpu.compiler.constraints.registry import constraint, extent, inputs_of, pair
from opendpu.compiler.dilation import fits_dilated
from opendpu.compiler.fixed import DEPTHWISE, LAYERS, TRANSPOSED
from opendpu.compiler.limits import (
    MAX_ALU_KERNEL,
    MAX_CONV_KERNEL,
    MAX_CONV_STRIDE,
    MAX_PAD_BEFORE,
    MAX_SHIFT_CUT,
)
from opendpu.compiler.shifts import shifts_of
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.requantize import is_scaled
from opendpu_arch.extensions import Extension
from opendpu_arch.numerics import MAX_CHANNEL_SHIFT, MAX_SHIFT_BIAS
from opendpu_arch.target import Target

CONV = ("conv2d-fix",)
DEPTHWISE_CONV = ("depthwise-conv2d-fix",)
WINDOWS = (*CONV, *DEPTHWISE_CONV)
PARAMETER = "XCOM_OP_CONV_PARAM_ERROR"
KERNEL = "XCOM_UNSUPPORT_KERNEL_SIZE"


@constraint(
    f"Kernels of convolutions are 1..{MAX_CONV_KERNEL} rows and columns; dilation is not counted.",
    *CONV, lift="a smaller kernel", code=KERNEL,
)  # fmt: skip
def conv_kernel(node: Node, graph: Graph, target: Target) -> str | None:
    """Kernel fields of CONVINIT have four bits; taps that are apart are brought together."""
    sizes = [size for _, size in pair(node, "kernel")]
    return None if max(sizes) <= MAX_CONV_KERNEL and _fits_dilated(node, graph, target) else (
        _kernel(node, MAX_CONV_KERNEL)
    )  # fmt: skip


def _fits_dilated(node: Node, graph: Graph, target: Target) -> bool:
    return fits_dilated(node, inputs_of(node, graph)[0], target)


@constraint(
    f"Kernels of depthwise convolutions are 1..{MAX_ALU_KERNEL} rows and columns; with a stride, "
    "dilation is counted.", *DEPTHWISE_CONV, lift="a smaller kernel or stride 1", code=KERNEL,
)  # fmt: skip
def depthwise_kernel(node: Node, graph: Graph, target: Target) -> str | None:
    """Kernel fields of ALUINIT have eight bits."""
    if max(size for _, size in pair(node, "kernel")) <= MAX_ALU_KERNEL and _fits_dilated(
        node, graph, target
    ):
        return None
    return _kernel(node, MAX_ALU_KERNEL)


def _kernel(node: Node, most: int) -> str | None:
    for name, size in zip(("kernel_height", "kernel_width"), extent(node), strict=True):
        if not 1 <= size <= most:
            return f'DPU only supports "{name}"({size}) in 1..{most}'
    return None


@constraint(
    f"Strides of convolutions are 1..{MAX_CONV_STRIDE}.", *CONV, lift="a smaller stride",
    code=PARAMETER,
)  # fmt: skip
def conv_stride(node: Node, graph: Graph, target: Target) -> str | None:
    """``stride_h`` rows share a bank, and its offset has three bits."""
    return _stride(node, MAX_CONV_STRIDE)


@constraint(
    f"Strides of depthwise convolutions are 1..{MAX_ALU_KERNEL}.", *DEPTHWISE_CONV,
    lift="a smaller stride", code=PARAMETER,
)  # fmt: skip
def depthwise_stride(node: Node, graph: Graph, target: Target) -> str | None:
    """Stride fields of ALUINIT have eight bits."""
    return _stride(node, MAX_ALU_KERNEL)


def _stride(node: Node, most: int) -> str | None:
    for name, size in pair(node, "stride"):
        if not 1 <= size <= most:
            return f'DPU only supports "{name}"({size}) in 1..{most}'
    return None


@constraint(
    "A depthwise convolution has one output channel for each input channel.", *DEPTHWISE,
    lift="a channel multiplier of 1", code=PARAMETER,
)  # fmt: skip
def multiplier(node: Node, graph: Graph, target: Target) -> str | None:
    """A lane has one channel."""
    factor = node.shape[-1] // inputs_of(node, graph)[0].shape[-1]
    return None if factor == 1 else f'DPU only supports "channel_multiplier"({factor}) to be 1'


@constraint(
    f"Padding is less than the kernel, dilation counted; left and top of poolings and of depthwise "
    f"convolutions without dilation at most {MAX_PAD_BEFORE}.", *WINDOWS,
    "pool-fix", lift="less padding", code="XCOM_PAD_KERNEL_SIZE_UNMATCH",
)  # fmt: skip
def padding(node: Node, graph: Graph, target: Target) -> str | None:
    """Pad fields say how much of a kernel is outside."""
    left, right, top, bottom = (int(p) for p in node.attrs["pad"])
    height, width = extent(node)
    for name, pad, limit, what in (
        ("pad_left", left, width, "kernel_width"),
        ("pad_right", right, width, "kernel_width"),
        ("pad_top", top, height, "kernel_height"),
        ("pad_bottom", bottom, height, "kernel_height"),
    ):
        if not 0 <= pad < limit:
            return f'DPU only supports "{name}"({pad}) less than "{what}"({limit})'
    for name, pad in (("pad_left", left), ("pad_top", top)):
        if (
            pad > MAX_PAD_BEFORE
            and node.kind not in CONV
            and not (node.kind in DEPTHWISE and _fits_dilated(node, graph, target))
        ):  # there, of parts of the pixels
            return f'DPU only supports "{name}"({pad}) in 0..{MAX_PAD_BEFORE}'
    return None


@constraint(
    "kernel_w * kernel_h * ceil(input channels of a group / CP) is at most the bank depth; for "
    "depthwise convolutions kernel_w * kernel_h, dilation counted; for transposed ones "
    "ceil(kernel / stride) counts.",
    *LAYERS, lift="a smaller kernel or fewer channels",
    code="XCOM_TILING_SIZE_ERROR",
)  # fmt: skip
def weights_fit(node: Node, graph: Graph, target: Target) -> str | None:
    """The kernel of an output channel is in one bank."""
    height, width = extent(node)
    inputs = inputs_of(node, graph)[0].shape[-1] // int(node.attrs.get("group") or 1)
    groups = -(-inputs // target.channel_parallel)
    if node.kind in TRANSPOSED:
        (_, step_w), (_, step_h) = pair(node, "stride")
        height, width = -(-height // step_h), -(-width // step_w)
    words = height * width * (1 if node.kind in DEPTHWISE else groups)
    if words <= target.bank_depth:
        return None
    if node.kind in WINDOWS and _fits_dilated(node, graph, target):
        return None
    return (
        f'DPU only supports kernels whose weights fit a bank of "bank_depth"({target.bank_depth}) '
        f"words, but a kernel of {height}x{width} with {groups} channel groups needs {words}"
    )


@constraint(
    "Leaky-ReLU needs a target with it; RELU6 and RELU always exist.", *LAYERS,
    lift="a target with that option, or ReLU", code="XCOM_UNSUPPORT_NONLINEAR_TYPE",
)  # fmt: skip
def nonlinear(node: Node, graph: Graph, target: Target) -> str | None:
    """The slope's multiplier is an option of each engine."""
    kind = node.attrs.get("nonlinear", "NONE")
    has = target.alu_leaky_relu if node.kind in DEPTHWISE else target.conv_leaky_relu
    if kind == "LEAKYRELU" and not has:
        return f'DPU of target {target.name} does not support "nonlinear"({kind}) of {node.kind}'
    return None


@constraint(
    f"Shifts fit their fields: cut 0..{MAX_SHIFT_CUT}, bias 0..{MAX_SHIFT_BIAS}.", *LAYERS,
    lift="another fix point", code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def layer_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_cut`` = w + i - o, ``shift_bias`` = w + i - b + 1."""
    if is_scaled(node):
        return None
    found = shifts_of(node, graph)
    for name, shifts, most in (
        ("shift_cut", found.cut, MAX_SHIFT_CUT), ("shift_bias", found.bias, MAX_SHIFT_BIAS),
    ):  # fmt: skip
        for shift in (int(shifts.min()), int(shifts.max())):
            if not 0 <= shift <= most:
                return f'DPU only supports "{name}"({shift}) in 0..{most}'
    return None


@constraint(
    "Weights and biases with a fix point for each output channel need a target with the extension "
    f"`channel`; then the shifts of channels are at most {MAX_CHANNEL_SHIFT} apart.", *LAYERS,
    lift="a target with that extension, or fix points that are nearer to each other",
    code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def channel_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """A byte of SHIFT has four bits for either shift."""
    if is_scaled(node):
        return None
    found = shifts_of(node, graph)
    if not found.differ:
        return None
    if Extension.CHANNEL not in target.extensions:
        return (
            f'DPU of target {target.name} does not support "fix_points" that differ by channel: '
            "it lacks the extension 'channel'"
        )
    for name, shifts in (("shift_cut", found.cut), ("shift_bias", found.bias)):
        apart = int(shifts.max() - shifts.min())
        if apart > MAX_CHANNEL_SHIFT:
            return (
                f'DPU only supports "{name}" of channels up to {MAX_CHANNEL_SHIFT} apart, but '
                f"they are {apart}"
            )
    return None
