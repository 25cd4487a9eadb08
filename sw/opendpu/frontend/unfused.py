# SPDX-License-Identifier: Apache-2.0
"""Operators that onnxruntime's optimizer fuses, in models that it saved, as ONNX's own again.

Those of the domain ``com.microsoft`` that are several operators in one: a convolution or product
with what is behind it, GELU in its forms, and LayerNorm of a sum. What is not one of these, or has
results that ONNX's operators lack, stays. RMSNorm of operator set 23 gets the name that onnxruntime
has for it in every set.
"""

from collections.abc import Mapping

import numpy as np
import onnx

from opendpu.frontend.node_writer import NodeWriter, Rule, rewritten
from opendpu.ops.foreign import DEFAULT_DOMAINS, LAYER_NORM, RMS_NORM

MICROSOFT = "com.microsoft"
PARAMETERS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"), "Clip": (),
}  # fmt: skip
"""Activations, and the attributes that their parameters are."""
WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
GEMM = ("alpha", "beta", "transA", "transB")
QUICK_SLOPE = 1.702
CUBIC, LINEAR = 0.035677408136300125, 0.7978845608028654
"""Numbers of GELU by tanh."""


def unfused(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with ONNX's operators in place of fused ones; itself if it has none."""
    return rewritten(model, _rule)


def _rule(node: onnx.NodeProto) -> Rule | None:
    if node.op_type == "RMSNormalization" and node.domain in DEFAULT_DOMAINS:
        return _rms_norm
    return RULES.get(node.op_type) if node.domain == MICROSOFT else None


def _convolution(writer: NodeWriter) -> list[onnx.NodeProto] | None:
    """Write a convolution, what is added to it, and an activation."""
    x = writer.op("Conv", *(writer.given(n) for n in range(3)), **writer.some(WINDOW))
    if writer.given(3):
        x = writer.op("Add", x, writer.given(3))
    return _activated(writer, x, list(writer.attrs.get("activation_params", ())))


def _gemm(writer: NodeWriter) -> list[onnx.NodeProto] | None:
    """Write a product and an activation."""
    x = writer.op("Gemm", *(writer.given(n) for n in range(3)), **writer.some(GEMM))
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return _activated(writer, x, list(writer.some(names).values()))


def _activated(writer: NodeWriter, x: str, numbers: list[float]) -> list[onnx.NodeProto] | None:
    kind = writer.attrs.get("activation", b"").decode()
    if kind not in PARAMETERS:
        return writer.end() if not kind else None
    if kind == "Clip":
        if len(numbers) != 2:
            return None
        writer.op("Clip", x, *map(writer.constant, numbers))
    else:
        writer.op(kind, x, **dict(zip(PARAMETERS[kind], numbers, strict=False)))
    return writer.end()


def _product(writer: NodeWriter) -> list[onnx.NodeProto] | None:
    """Write a product of matrices, of which either may be transposed, and a factor."""
    if writer.attrs.get("transBatchA") or writer.attrs.get("transBatchB"):
        return None
    one = "...ji" if writer.attrs.get("transA") else "...ij"
    other = "...kj" if writer.attrs.get("transB") else "...jk"
    factors = (writer.given(0), writer.given(1))
    if (one, other) == ("...ij", "...jk"):
        x = writer.op("MatMul", *factors)
    else:
        x = writer.op("Einsum", *factors, equation=f"{one},{other}->...ik")
    factor = float(writer.attrs.get("alpha", 1.0))
    if factor != 1:
        writer.op("Mul", x, writer.constant(factor))
    return writer.end()


def gelu(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Write GELU by the error function, of a sum with a bias where there is one."""
    x = _biased(writer)
    scaled = writer.op("Div", x, writer.constant(np.sqrt(2)))
    error = writer.op("Add", writer.op("Erf", scaled), writer.constant(1))
    writer.op("Mul", writer.op("Mul", x, error), writer.constant(0.5))
    return writer.end()


def fast_gelu(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Write GELU by tanh."""
    x = _biased(writer)
    cubic = writer.op("Mul", writer.op("Mul", x, x), writer.constant(CUBIC))
    slope = writer.op("Add", cubic, writer.constant(LINEAR))
    bent = writer.op("Tanh", writer.op("Mul", x, slope))
    share = writer.op("Add", writer.op("Mul", bent, writer.constant(0.5)), writer.constant(0.5))
    writer.op("Mul", x, share)
    return writer.end()


def _quick_gelu(writer: NodeWriter) -> list[onnx.NodeProto]:
    """Write ``x * sigmoid(alpha * x)``."""
    x, slope = writer.given(0), float(writer.attrs.get("alpha", QUICK_SLOPE))
    scaled = x if slope == 1 else writer.op("Mul", x, writer.constant(slope))
    writer.op("Mul", x, writer.op("Sigmoid", scaled))
    return writer.end()


def _biased(writer: NodeWriter) -> str:
    return writer.op("Add", writer.given(0), writer.given(1)) if writer.given(1) else (
        writer.given(0)
    )  # fmt: skip


def _sum_norm(writer: NodeWriter) -> list[onnx.NodeProto] | None:
    """Write the normalization of a sum; the sum is a result too."""
    rms = writer.node.op_type.startswith("SkipSimplified")
    if any(name for name in writer.node.output[1:3]):
        return None
    biases = [writer.given(index) for index in ((3,) if rms else (4,)) if writer.given(index)]
    total = writer.op("Add", writer.given(0), writer.given(1))
    for bias in biases:
        total = writer.op("Add", total, bias)
    if len(writer.node.output) > 3 and writer.node.output[3]:
        writer.nodes[-1].output[0] = total = writer.node.output[3]
    epsilon = float(writer.attrs.get("epsilon", 1e-12))
    kind = RMS_NORM if rms else LAYER_NORM
    shift = "" if rms else writer.given(3)
    writer.op(kind, total, writer.given(2), shift, axis=-1, epsilon=epsilon)
    return writer.end()


def _rms_norm(writer: NodeWriter) -> list[onnx.NodeProto]:
    writer.op(RMS_NORM, writer.given(0), writer.given(1), **writer.some(("axis", "epsilon")))
    return writer.end()


RULES: Mapping[str, Rule] = {
    "FusedConv": _convolution, "FusedGemm": _gemm, "FusedMatMul": _product, "Gelu": gelu,
    "BiasGelu": gelu, "FastGelu": fast_gelu, "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _sum_norm, "SkipSimplifiedLayerNormalization": _sum_norm,
}  # fmt: skip
"""By type of a fused operator; a rule returns nothing where the operator stays."""
