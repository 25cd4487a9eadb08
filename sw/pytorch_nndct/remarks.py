# SPDX-License-Identifier: Apache-2.0
"""Warnings about a traced module: what is read otherwise than it is written, or stays in float."""

from collections.abc import Iterable, Sequence

import torch

from opendpu.ir import FloatGraph, Node
from opendpu.ops.foreign import KIND
from opendpu.quantize import QuantizeConfig
from opendpu.quantize.transforms.approximate import LEAKY_SLOPE, TOLERANCE, nearest_slope
from pytorch_nndct import messages

_HARD = (
    ("QUANTIZER_TORCH_REPLACE_SIGMOID", "sigmoid", "Sigmoid", "Hardsigmoid"),
    ("QUANTIZER_TORCH_REPLACE_SILU", "swish", "SiLU", "Hardswish"),
)
"""Codes, and what is replaced by what."""


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


def replaced(graph: FloatGraph, config: QuantizeConfig, substituted: Iterable[str]) -> None:
    """Print a warning for activations that the quantizer replaced.

    ``substituted`` are the ops whose activation became a hard one.
    """
    if config.relu6_to_relu:
        names = [node.name for node in graph if node.kind == "relu6"]
        _replacement("QUANTIZER_TORCH_REPLACE_RELU6", names, "ReLU6", "ReLU")
    kinds = {name: graph[name].kind for name in substituted if name in graph.nodes}
    for code, kind, old, new in _HARD:
        _replacement(code, [n for n, found in kinds.items() if found == kind], old, new)


def _replacement(code: str, names: Sequence[str], old: str, new: str) -> None:
    if names:
        messages.warn(code, f"{old} became {new}: {', '.join(names)}")


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
