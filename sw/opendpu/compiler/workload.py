# SPDX-License-Identifier: Apache-2.0
"""Operations of an op, as AMD's compiler counts them."""

from opendpu.compiler.fixed import DEPTHWISE, TRANSPOSED
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.product import KIND as PRODUCT
from opendpu_arch.target import Target


def workload(node: Node, graph: Graph, target: Target) -> tuple[int, int]:
    """Return (operations, operations with rows and channels rounded up to the target's).

    A convolution counts two a multiply-accumulate and one for the bias. Taps that meet padding
    count, as the array does them; but not those of dilated kernels, which it can leave out.
    """
    _, height, width, channels = node.shape

    def up(value: int, step: int) -> int:
        return -(-value // step) * step

    rows = up(height, target.pixel_parallel)
    outputs = up(channels, target.output_channel_parallel)
    if node.kind == PRODUCT:
        inputs = graph[node.inputs["input"][0]].shape[-1]
        padded = up(inputs, target.input_channel_parallel)
        filled = up(height * width, target.pixel_parallel)  # rows are what lowering makes them
        return height * width * channels * (2 * inputs + 1), filled * outputs * (2 * padded + 1)
    kernel = int(node.attrs["kernel"][0]) * int(node.attrs["kernel"][1]) if (
        "kernel" in node.attrs
    ) else len(node.inputs["input"])  # fmt: skip
    if node.kind == "conv2d-fix":
        inputs = graph[node.inputs["input"][0]].shape[-1] // int(node.attrs.get("group") or 1)
        padded = up(inputs, target.input_channel_parallel)
        done = _taps_done(node, graph)
        return (
            channels * (2 * done * inputs + height * width),
            outputs * (2 * -(-done * rows // height) * padded + rows * width),
        )
    if node.kind == "depthwise-conv2d-fix":
        done = _taps_done(node, graph)
        return (
            channels * (2 * done + height * width),
            outputs * (2 * -(-done * rows // height) + rows * width),
        )
    if node.kind in TRANSPOSED:
        stride = int(node.attrs["stride"][0]) * int(node.attrs["stride"][1])
        inputs = 1 if node.kind in DEPTHWISE else graph[node.inputs["input"][0]].shape[-1]
        padded = 1 if node.kind in DEPTHWISE else up(inputs, target.input_channel_parallel)
        return (
            height * width * channels * (2 * kernel * inputs // stride + 1),
            rows * width * outputs * (2 * kernel * padded // stride + 1),
        )
    return height * width * channels * kernel, rows * width * outputs * kernel


def _taps_done(node: Node, graph: Graph) -> int:
    """Return the taps of all output pixels together: in dilated kernels those that meet inputs."""
    taps = 1
    source = graph[node.inputs["input"][0]].shape
    gaps = node.attrs.get("dilation") or (1, 1)
    pads = (node.attrs["pad"][0], node.attrs["pad"][2])
    for axis in (0, 1):  # width, height
        kernel, stride, gap, pad = (
            int(value) for value in
            (node.attrs["kernel"][axis], node.attrs["stride"][axis], gaps[axis], pads[axis])
        )  # fmt: skip
        size, outputs = source[2 - axis], node.shape[2 - axis]
        starts = range(-pad, outputs * stride - pad, stride)
        taps *= sum(
            gap == 1 or 0 <= start + tap * gap < size for start in starts for tap in range(kernel)
        )
    return taps
