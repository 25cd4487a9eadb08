# SPDX-License-Identifier: Apache-2.0
"""Inner products: convolutions whose kernel is the whole feature map."""

from opendpu.compiler.legalize.context import feature_shape
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call, legalizes

MAX_KERNEL = 16
"""Rows and columns of the largest CONV kernel."""


@legalizes("inner-product")
def inner_product(call: Call) -> str:
    """Make a convolution; where the input is a reshaped feature map, of that."""
    context, node, name = call.context, call.node, call.sources[0]
    weights = context.draft[node.inputs["weights"][0]]
    values = context.result[context.fixed(weights.name)]
    source = context.result[name]
    if values.value is None:
        raise Refusal(
            f'DPU only supports constant "weights", but "{weights.name}" is computed; weights '
            "that are known when compiling would lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    if len(source.shape) != 2 or int(node.attrs["axis"]) % 2 != 1:
        raise Refusal(
            f"DPU only supports inner-product of [1, channels], but the input has shape "
            f"{list(source.shape)} and axis {node.attrs['axis']}; a reshape would lift it",
            "XCOM_TENSOR_DIMENSION_UNMATCH",
        )
    root = source
    while root.kind == "reshape-fix":
        root = context.result[root.inputs["input"][0]]
    shape = feature_shape(root.shape)
    if max(shape[1:3]) > MAX_KERNEL:
        shape = feature_shape(source.shape)
    outputs = values.value.shape[0]
    kernel = context.result.add(
        context.result.unique(f"{values.name}_reshaped"), "const-fix", (outputs, *shape[1:]),
        {}, values.attrs, values.value.reshape(outputs, *shape[1:]),
    )  # fmt: skip
    inputs = {"input": [context.view(name, shape)], "weights": [kernel.name]}
    if node.inputs.get("bias"):
        inputs["bias"] = [context.fixed(node.inputs["bias"][0])]
    attrs = {
        "kernel": [shape[2], shape[1]], "stride": [1, 1], "dilation": [1, 1],
        "pad": [0, 0, 0, 0], "nonlinear": call.nonlinear, "group": 1, "pad_mode": "FLOOR",
    }  # fmt: skip
    return context.add(node, call.fix, "conv2d-fix", inputs, attrs, shape=(1, 1, 1, outputs))
