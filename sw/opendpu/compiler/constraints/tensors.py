# SPDX-License-Identifier: Apache-2.0
"""What holds for the inputs and the result of every op."""

from opendpu.compiler.constraints.registry import constraint, inputs_of
from opendpu.compiler.fixed import COMPUTE, LAYERS, MOVE, is_fixed
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu.ir import Graph, Node
from opendpu.ops.fixed.product import KIND as PRODUCT
from opendpu_arch.target import Target

TAKE_CONSTANTS = (PRODUCT, "concat-fix", "eltwise-fix")
"""Kinds that take constants as feature maps: LOAD brings these to image banks as well."""
ANY_AXES = ("reshape-fix", "transpose")
"""Kinds whose inputs have any number of axes: they only say where bytes belong."""


@constraint(
    "The batch is 1.", *COMPUTE, *MOVE, lift="batch 1 (runners take many samples at a time)",
    code="XCOM_TENSOR_DIMENSION_UNMATCH",
)  # fmt: skip
def batch(node: Node, graph: Graph, target: Target) -> str | None:
    """Instructions have no batch."""
    for tensor in (node, *inputs_of(node, graph)):
        if tensor.shape and tensor.shape[0] != 1:
            return f"DPU only supports input batch to be 1, but it's {tensor.shape[0]} now"
    return None


@constraint(
    "Inputs are int8 feature maps, and constants only of sums, products and concatenations.",
    *COMPUTE, *MOVE,
    lift="a quantized feature map of up to 4 dimensions", code="XCOM_TENSOR_SHAPE_UNMATCH",
)  # fmt: skip
def feature_inputs(node: Node, graph: Graph, target: Target) -> str | None:
    """Feature maps are what LOAD brings to image banks."""
    for source in inputs_of(node, graph):
        if not is_fixed(source):
            return f'DPU only supports quantized inputs, but "{source.name}" is float'
        if source.value is not None and node.kind not in TAKE_CONSTANTS:
            return f'DPU only supports feature maps as inputs, but "{source.name}" is a constant'
        if len(source.shape) > 4 and node.kind not in ANY_AXES:
            return f'DPU only supports 4 dimensions, but "{source.name}" has {len(source.shape)}'
    return None


@constraint(
    "Weights and bias are constants.", *LAYERS, "prelu-fix",
    lift="weights that are known when compiling", code="XCOM_UNEXPECTED_VALUE",
)  # fmt: skip
def constant_weights(node: Node, graph: Graph, target: Target) -> str | None:
    """They are part of the compiled file."""
    for arg in ("weights", "bias", "weight"):
        for source in inputs_of(node, graph, arg):
            if source.value is None:
                return f'DPU only supports constant "{arg}", but "{source.name}" is computed'
    return None


@constraint(
    f"Channels are at most {MAX_CHANNEL_GROUPS} times the channel parallel; those that a "
    "convolution without groups makes may be any number.", *COMPUTE,
    lift="a split along the channels", code="XCOM_OP_CONV_PARAM_ERROR",
)  # fmt: skip
def channels(node: Node, graph: Graph, target: Target) -> str | None:
    """``channel_group`` has eight bits."""
    limit = MAX_CHANNEL_GROUPS * target.channel_parallel
    tensors = [*(("input", source) for source in inputs_of(node, graph)), ("output", node)]
    if node.kind == "conv2d-fix" and int(node.attrs.get("group") or 1) == 1:
        tensors.pop()
    for name, tensor in tensors:
        if tensor.shape[-1] > limit:
            return f'DPU only supports "{name}_channel"({tensor.shape[-1]}) up to {limit}'
    return None
