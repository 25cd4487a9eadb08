# SPDX-License-Identifier: Apache-2.0
"""Random transformers as torch exports them: tokens of a small image, attention, LayerNorm."""

import math

import numpy as np
import onnx

from random_graphs.onnx_models import Model

OPSET = 17


def draw_transformer(seed: int) -> onnx.ModelProto:
    """Return a model with some of the parts of one or two blocks of a transformer."""
    m = Model(seed, opset=OPSET)
    rows, columns, heads = m.pick.randint(1, 6), m.pick.randint(2, 7), m.pick.randint(1, 3)
    width = heads * m.pick.randint(3, 14)
    m.inputs["x0"] = m.shapes["x0"] = (3, rows, columns)
    kernel = {"kernel_shape": [3, 3], "pads": [1] * 4}
    parameters = [m.weights(width, 3, 3, 3, taps=9), m.weights(width)]
    x = m.op("Conv", ["x0", *parameters], (width, rows, columns), **kernel)
    tokens = rows * columns
    x = reshaped(m, x, (width, tokens))
    x = m.op("Transpose", [x], (tokens, width), perm=[0, 2, 1])
    for _ in range(m.pick.randint(1, 2)):
        x = _residual(m, x, attention(m, _normalized(m, x), heads))
        if m.pick.random() < 0.5:
            x = _residual(m, x, mlp(m, _normalized(m, x)))
    linear(m, x, m.pick.randint(1, 9))
    return m.proto()


def reshaped(m: Model, x: str, shape: tuple[int, ...]) -> str:
    return m.op("Reshape", [x, m.constant(np.int64([1, *shape]))], shape)


def linear(m: Model, x: str, outputs: int, gain: float = 1.0) -> str:
    *front, width = m.shapes[x]
    weights = m.constant(
        (gain * m.values.standard_normal((width, outputs)) / math.sqrt(width)).astype(np.float32)
    )
    made = m.op("MatMul", [x, weights], (*front, outputs))
    return m.op("Add", [made, m.weights(outputs, taps=9)], (*front, outputs))


def layer_norm(m: Model, x: str) -> str:
    width = m.shapes[x][-1]
    scale = m.constant(m.values.uniform(0.3, 2, width).astype(np.float32))
    parameters = [scale, m.weights(width)] if m.pick.random() < 0.8 else [scale]
    return m.op("LayerNormalization", [x, *parameters], m.shapes[x], axis=-1, epsilon=1e-6)


def attention(m: Model, x: str, heads: int) -> str:
    """Add self-attention, scores by one factor of any size."""
    tokens, width = m.shapes[x]
    each = width // heads
    parts = []
    for order, shape in (
        ([0, 2, 1, 3], (heads, tokens, each)), ([0, 2, 3, 1], (heads, each, tokens)),
        ([0, 2, 1, 3], (heads, tokens, each)),
    ):  # fmt: skip
        part = reshaped(m, linear(m, x, width, gain=m.pick.choice([0.5, 1, 2])),
                        (tokens, heads, each))  # fmt: skip
        parts.append(m.op("Transpose", [part], shape, perm=order))
    scores = m.op("MatMul", parts[:2], (heads, tokens, tokens))
    factor = m.constant(np.float32(each**-0.5))
    scores = m.op("Mul", [scores, factor], m.shapes[scores])
    weights = m.op("Softmax", [scores], m.shapes[scores], axis=-1)
    mixed = m.op("MatMul", [weights, parts[2]], (heads, tokens, each))
    mixed = m.op("Transpose", [mixed], (tokens, heads, each), perm=[0, 2, 1, 3])
    return linear(m, reshaped(m, mixed, (tokens, width)), width)


def mlp(m: Model, x: str) -> str:
    width = m.shapes[x][-1]
    inner = linear(m, x, 2 * width)
    half = m.constant(np.float32(0.5))
    root = m.constant(np.float32(math.sqrt(2)))
    shape = m.shapes[inner]
    gate = m.op("Erf", [m.op("Div", [inner, root], shape)], shape)
    gate = m.op("Add", [gate, m.constant(np.float32(1))], shape)
    y = m.op("Mul", [m.op("Mul", [inner, gate], shape), half], shape)
    return linear(m, y, width)


def _normalized(m: Model, x: str) -> str:
    return layer_norm(m, x) if m.pick.random() < 0.8 else x


def _residual(m: Model, x: str, y: str) -> str:
    return m.op("Add", [x, y], m.shapes[x]) if m.pick.random() < 0.8 else y
