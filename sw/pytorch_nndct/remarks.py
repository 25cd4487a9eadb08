# SPDX-License-Identifier: Apache-2.0
"""Warnings about a traced module: what is read otherwise than it is written, or stays in float."""

import torch

from opendpu.ir import FloatGraph, Node
from opendpu.ops.foreign import KIND
from opendpu.quantize.transforms.approximate import LEAKY_SLOPE, TOLERANCE, nearest_slope
from pytorch_nndct import messages


def remark(module: torch.nn.Module, graph: FloatGraph) -> None:
    """Print a warning of the guide's Table 22 for whatever of a module the user should know."""
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and not part.affine:
            messages.warn(
                "QUANTIZER_TORCH_BATCHNORM_AFFINE",
                f"{type(part).__name__} {name!r} has affine=False; it is taken as one with factors "
                "of 1 and offsets of 0",
            )
    for node in graph:
        if node.kind == "leaky-relu":
            _slope(node)
        elif node.kind == "data" and node.type.dtype.kind != "f":
            messages.warn(
                "QUANTIZER_TORCH_TENSOR_TYPE_NOT_QUANTIZABLE",
                f"input {node.name!r} is of {node.type.dtype} and stays so; float32, double and "
                "float16 are quantized",
            )
    foreign = {node.origin.op_type or node.kind: None for node in graph if node.kind == KIND}
    if foreign:
        messages.warn(
            "QUANTIZER_TORCH_FLOAT_OP", f"these operators stay in float: {', '.join(foreign)}"
        )


def _slope(node: Node) -> None:
    """Warn of a slope that is rounded to one that the DPU has."""
    slope = float(node.attrs["alpha"])
    made = LEAKY_SLOPE if abs(slope - LEAKY_SLOPE) <= TOLERANCE else nearest_slope(slope)
    if made != slope:
        messages.warn(
            "QUANTIZER_TORCH_LEAKYRELU",
            f"{node.origin.name or node.name!r} has negative_slope {slope:g}, which becomes "
            f"{made:g}; the DPU applies {LEAKY_SLOPE:g} together with a convolution, so train "
            "with that",
        )
