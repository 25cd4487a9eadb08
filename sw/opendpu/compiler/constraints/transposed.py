# SPDX-License-Identifier: Apache-2.0
"""Limits of transposed convolutions, which run as a convolution for each phase."""

from opendpu.compiler.constraints.layers import PARAMETER
from opendpu.compiler.constraints.registry import constraint, pair
from opendpu.compiler.fixed import DEPTHWISE, TRANSPOSED
from opendpu.compiler.limits import MAX_ALU_KERNEL, MAX_CONV_KERNEL, MAX_PAD_BEFORE, MAX_PIXEL_JUMP
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target


def before(node: Node) -> tuple[int, int]:
    """Return how many results are cut off at the top and at the left."""
    left, _, top, _ = (int(p) for p in node.attrs["pad"])
    return top, left


@constraint(
    f"kernel / stride of transposed convolutions is at most {MAX_CONV_KERNEL}, of depthwise ones "
    f"{MAX_ALU_KERNEL}, rounded up.", *TRANSPOSED, lift="a smaller kernel or a larger stride",
    code="XCOM_UNSUPPORT_KERNEL_SIZE",
)  # fmt: skip
def transposed_kernel(node: Node, graph: Graph, target: Target) -> str | None:
    """A phase has that many rows and columns."""
    most = MAX_ALU_KERNEL if node.kind in DEPTHWISE else MAX_CONV_KERNEL
    for (name, kernel), (what, stride) in zip(
        pair(node, "kernel"), pair(node, "stride"), strict=True
    ):
        if not 1 <= -(-kernel // stride) <= most:
            return f'DPU only supports "{name}"({kernel}) / "{what}"({stride}) in 1..{most}'
    return None


@constraint(
    f"Padding of transposed convolutions is less than the kernel, and what is not padded at top "
    f"and left, kernel - 1 - pad, at most {MAX_PAD_BEFORE} strides.", *TRANSPOSED,
    lift="padding within those limits", code="XCOM_PAD_KERNEL_SIZE_UNMATCH",
)  # fmt: skip
def transposed_padding(node: Node, graph: Graph, target: Target) -> str | None:
    """A phase is padded with that many rows or columns of its input."""
    left, right, top, bottom = (int(p) for p in node.attrs["pad"])
    (_, width), (_, height) = pair(node, "kernel")
    (_, step_w), (_, step_h) = pair(node, "stride")
    for name, pad, kernel, what in (
        ("pad_left", left, width, "kernel_width"),
        ("pad_right", right, width, "kernel_width"),
        ("pad_top", top, height, "kernel_height"),
        ("pad_bottom", bottom, height, "kernel_height"),
    ):
        if not 0 <= pad < kernel:
            return f'DPU only supports "{name}"({pad}) less than "{what}"({kernel})'
    for name, pad, kernel, step in (
        ("pad_left", left, width, step_w),
        ("pad_top", top, height, step_h),
    ):
        reach = (kernel - 1 - pad) // step
        if reach > MAX_PAD_BEFORE:
            return (
                f'DPU only supports "{name}"({pad}) of at least '
                f"{kernel - 1 - step * (MAX_PAD_BEFORE + 1) + 1} with a kernel of {kernel} and "
                f"stride {step}"
            )
    return None


@constraint(
    "Transposed convolutions have no dilation and one group.", *TRANSPOSED,
    lift="dilation 1 and group 1", code=PARAMETER,
)  # fmt: skip
def transposed_form(node: Node, graph: Graph, target: Target) -> str | None:
    """Zeros between weights would fall on the wrong phase."""
    for name, size in pair(node, "dilation"):
        if size != 1:
            return f'DPU only supports "{name}"({size}) of {node.kind} to be 1'
    group = int(node.attrs.get("group") or 1)
    return None if group == 1 else f'DPU only supports "group"({group}) of {node.kind} to be 1'


@constraint(
    f"stride_w * channels of the result of a transposed convolution is at most {MAX_PIXEL_JUMP}.",
    *TRANSPOSED, lift="a smaller stride or fewer channels", code=PARAMETER,
)  # fmt: skip
def transposed_step(node: Node, graph: Graph, target: Target) -> str | None:
    """SAVE writes the pixels of a phase so far apart."""
    (_, step), _ = pair(node, "stride")
    size = step * node.shape[-1]
    if size > MAX_PIXEL_JUMP:
        return f'DPU only supports "stride_width" * "output_channel"({size}) up to {MAX_PIXEL_JUMP}'
    return None
