# SPDX-License-Identifier: Apache-2.0
"""Random transformers whose tokens are pixels of patches or windows, as torch exports them.

Patches and windows become the first axis on the way, in the steps in which Python programs write
it: with channels first as MobileViT, or last as Swin.
"""

import numpy as np
import onnx

from random_graphs.onnx_models import Model
from random_graphs.transformers import OPSET, layer_norm, linear, mlp


def draw_patches(seed: int) -> onnx.ModelProto:
    """Return a convolution, a block of a transformer on patches or windows, and a convolution."""
    m = Model(seed, opset=OPSET)
    size, heads = m.pick.choice([(2, 2), (2, 3), (4, 2)]), m.pick.randint(1, 2)
    down, across = m.pick.randint(1, 3), m.pick.randint(2, 3)
    rows, columns, width = down * size[0], across * size[1], heads * m.pick.randint(3, 9)
    m.inputs["x0"] = m.shapes["x0"] = (3, rows, columns)
    x = _conv(m, "x0", width)
    to, back = m.pick.choice([(_patches, _from_patches), (_windows, _from_windows)])
    tokens = to(m, x, size)
    for _ in range(m.pick.randint(1, 2)):
        y = _normalized(m, tokens) if m.pick.random() < 0.7 else tokens
        y = _attention(m, y, heads)
        tokens = m.op("Add", [tokens, y], m.shapes[tokens])
    if m.pick.random() < 0.5:
        tokens = m.op("Add", [tokens, mlp(m, _normalized(m, tokens))], m.shapes[tokens])
    y = back(m, tokens, (width, rows, columns), size)
    if m.pick.random() < 0.5:
        y = m.op("Concat", [x, y], (2 * width, rows, columns), axis=1)
    _conv(m, y, m.pick.randint(1, 9))
    return m.proto()


def _normalized(m: Model, x: str) -> str:
    """Normalize as one operator, or as several as exporters write it; RMSNorm has no mean."""
    how = m.pick.choice(["one", "several", "root mean square"])
    if how == "one":
        return layer_norm(m, x)
    shape = m.shapes[x]
    row = (*shape[:-1], 1)
    two, epsilon = m.constant(np.float32(2)), m.constant(np.float32(1e-5))
    if how == "several":
        x = m.op("Sub", [x, m.op("ReduceMean", [x], row, axes=[-1])], shape)
    variance = m.op("ReduceMean", [m.op("Pow", [x, two], shape)], row, axes=[-1])
    root = m.op("Sqrt", [m.op("Add", [variance, epsilon], row)], row)
    if how == "several":
        y = m.op("Div", [x, root], shape)
    else:
        y = m.op("Mul", [x, m.op("Reciprocal", [root], row)], shape)
    scale = m.constant(m.values.uniform(0.5, 2, shape[-1]).astype(np.float32))
    y = m.op("Mul", [y, scale], shape)
    return m.op("Add", [y, m.weights(shape[-1])], shape) if how == "several" else y


def _conv(m: Model, x: str, channels: int) -> str:
    inputs, rows, columns = m.shapes[x]
    parameters = [m.weights(channels, inputs, 3, 3, taps=9 * inputs), m.weights(channels)]
    return m.op("Conv", [x, *parameters], (channels, rows, columns), kernel_shape=[3, 3],
                pads=[1] * 4)  # fmt: skip


def _reshape(m: Model, x: str, shape: tuple[int, ...]) -> str:
    """Reshape to a shape with its first axis, which ``shapes`` has here."""
    return m.op("Reshape", [x, m.constant(np.int64(shape))], shape)


def _transpose(m: Model, x: str, *perm: int) -> str:
    return m.op("Transpose", [x], tuple(m.shapes[x][axis] for axis in perm), perm=list(perm))


def _patches(m: Model, x: str, size: tuple[int, int]) -> str:
    """Return the pixels at the same place of all patches in one row each: [places, patches, c]."""
    channels, rows, columns = m.shapes[x]
    down, across = rows // size[0], columns // size[1]
    y = _reshape(m, x, (channels * down, size[0], across, size[1]))
    y = _reshape(m, _transpose(m, y, 0, 2, 1, 3), (1, channels, down * across, size[0] * size[1]))
    return _reshape(m, _transpose(m, y, 0, 3, 2, 1), (size[0] * size[1], down * across, channels))


def _from_patches(m: Model, x: str, shape: tuple[int, ...], size: tuple[int, int]) -> str:
    channels, rows, columns = shape
    down, across = rows // size[0], columns // size[1]
    y = _reshape(m, x, (1, size[0] * size[1], down * across, channels))
    y = _reshape(m, _transpose(m, y, 0, 3, 2, 1), (channels * down, across, *size))
    y = _reshape(m, _transpose(m, y, 0, 2, 1, 3), (1, *shape))
    m.shapes[y] = shape
    return y


def _windows(m: Model, x: str, size: tuple[int, int]) -> str:
    """Return the pixels of each window in one row: [windows, pixels, channels]."""
    channels, rows, columns = m.shapes[x]
    m.shapes[x] = (1, channels, rows, columns)
    y = _transpose(m, x, 0, 2, 3, 1)
    m.shapes[x] = (channels, rows, columns)
    down, across = rows // size[0], columns // size[1]
    y = _reshape(m, y, (1, down, size[0], across, size[1], channels))
    return _reshape(m, _transpose(m, y, 0, 1, 3, 2, 4, 5),
                    (down * across, size[0] * size[1], channels))  # fmt: skip


def _from_windows(m: Model, x: str, shape: tuple[int, ...], size: tuple[int, int]) -> str:
    channels, rows, columns = shape
    down, across = rows // size[0], columns // size[1]
    y = _reshape(m, x, (1, down, across, *size, channels))
    y = _reshape(m, _transpose(m, y, 0, 1, 3, 2, 4, 5), (1, rows, columns, channels))
    y = _transpose(m, y, 0, 3, 1, 2)
    m.shapes[y] = shape
    return y


def _attention(m: Model, x: str, heads: int) -> str:
    """Add self-attention of every patch, its three projections by one product."""
    count, tokens, width = m.shapes[x]
    each = width // heads
    y = _reshape(m, linear(m, x, 3 * width), (count, tokens, 3, heads, each))
    y = _transpose(m, y, 2, 0, 3, 1, 4)
    shape = (count, heads, tokens, each)
    query, key, value = (
        m.op("Gather", [y, m.constant(np.array(n, np.int64))], shape, axis=0) for n in range(3)
    )
    query = m.op("Mul", [query, m.constant(np.float32(each**-0.5))], shape)
    scores = m.op("MatMul", [query, _transpose(m, key, 0, 1, 3, 2)], (count, heads, tokens, tokens))
    if m.pick.random() < 0.5:  # a bias for each place, the same for all windows
        bias = m.values.standard_normal((1, heads, tokens, tokens)).astype(np.float32)
        scores = m.op("Add", [scores, m.constant(bias)], m.shapes[scores])
    if m.pick.random() < 0.5:  # tokens of other windows that some do not see
        hidden = m.values.random((count, 1, tokens, tokens)) < m.pick.random()
        hidden &= ~np.eye(tokens, dtype=bool)
        far = np.where(hidden, m.pick.choice([-100, -1e9, -np.inf]), 0).astype(np.float32)
        scores = m.op("Add", [scores, m.constant(far)], m.shapes[scores])
    weights = m.op("Softmax", [scores], m.shapes[scores], axis=-1)
    mixed = m.op("MatMul", [weights, value], shape)
    mixed = _transpose(m, mixed, 0, 2, 1, 3)
    return linear(m, _reshape(m, mixed, (count, tokens, width)), width)
