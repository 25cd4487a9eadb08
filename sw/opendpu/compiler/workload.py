# SPDX-License-Identifier: Apache-2.0
"""Operations of an op, as AMD's compiler counts them."""

from opendpu.compiler.fixed import DEPTHWISE, TRANSPOSED
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target


def workload(node: Node, graph: Graph, target: Target) -> tuple[int, int]:
    """Return (operations, operations with rows and channels rounded up to the target's).

    A convolution counts two a multiply-accumulate and one for the bias.
    """
    _, height, width, channels = node.shape

    def up(value: int, step: int) -> int:
        return -(-value // step) * step

    rows = up(height, target.pixel_parallel)
    outputs = up(channels, target.output_channel_parallel)
    kernel = int(node.attrs["kernel"][0]) * int(node.attrs["kernel"][1]) if (
        "kernel" in node.attrs
    ) else len(node.inputs["input"])  # fmt: skip
    if node.kind == "conv2d-fix":
        inputs = graph[node.inputs["input"][0]].shape[-1] // int(node.attrs.get("group") or 1)
        padded = up(inputs, target.input_channel_parallel)
        return (
            height * width * channels * (2 * kernel * inputs + 1),
            rows * width * outputs * (2 * kernel * padded + 1),
        )
    if node.kind in TRANSPOSED:
        stride = int(node.attrs["stride"][0]) * int(node.attrs["stride"][1])
        inputs = 1 if node.kind in DEPTHWISE else graph[node.inputs["input"][0]].shape[-1]
        padded = 1 if node.kind in DEPTHWISE else up(inputs, target.input_channel_parallel)
        return (
            height * width * channels * (2 * kernel * inputs // stride + 1),
            rows * width * outputs * (2 * kernel * padded // stride + 1),
        )
    each = 2 * kernel + 1 if node.kind == "depthwise-conv2d-fix" else kernel
    return height * width * channels * each, rows * width * outputs * each
