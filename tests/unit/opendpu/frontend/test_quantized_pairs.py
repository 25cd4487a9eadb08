# SPDX-License-Identifier: Apache-2.0
"""Pairs of any scale as other tools write them, in integers against onnxruntime."""

import numpy as np
import onnx
import pytest
from quantized_pairs import Pairs, compared


def test_bounds_between_the_nodes_of_a_pair_are_of_its_integers():
    """As Brevitas writes them: float weights, and integers that need not use all 8 bits."""
    net = Pairs(seed=3)
    x = net.pair("x", 0.031, np.uint8(90), (5, 250))
    values, scales = net.spread(8, 3, 3, 3)
    weights = net.pair(net.constant(values), scales, np.zeros(8, np.int8), (-100, 127), axis=0)
    made = net.node("Relu", net.node("Conv", x, weights, pads=[1] * 4))
    few = net.pair(made, 0.02, np.uint8(0), (0, 15))
    last, _ = net.spread(4, 8, 1, 1)
    coarse = net.pair(net.constant(last), np.abs(last).max() / 7, np.int8(0), (-7, 7))
    out = net.pair(net.node("Conv", few, coarse), 0.05, np.int8(0), (-128, 127))
    graph, off = compared(net.model(out, (1, 3, 12, 12)))
    assert not {"onnx", "fix2float", "float2fix"} & {node.kind for node in graph}
    stored = [node.value for node in graph if node.value is not None and node.value.ndim == 4]
    assert [int(np.abs(value).max()) for value in stored] == [127, 7]
    assert min(int(value.min()) for value in stored) == -100
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01


def pooled(net: Pairs) -> str:
    """Return largest pixels of the input, which says that it is a feature map."""
    x = net.pair("x", 0.04, np.int8(3))
    made = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    return net.pair(made, 0.04, np.int8(3))


@pytest.mark.parametrize("op", ["Div", "Mul"])
def test_one_factor_between_pairs_is_a_table(op):
    """Hard-swish in parts divides by six, which is no operator that quantizers know."""
    net = Pairs(seed=1)
    x = pooled(net)
    product = net.pair(net.node(op, x, net.constant(np.float32(6.0))), 0.01, np.int8(-5))
    graph, off = compared(net.model(product, (1, 5, 6, 7)))
    assert not {"scale", "fix2float", "float2fix"} & {node.kind for node in graph}
    assert off.max() <= (op == "Mul")


@pytest.mark.parametrize("cube", ["pow", "products"])
def test_gelu_with_tanh_in_parts_is_one_table(cube):
    """As programs of PyTorch write it: x / 2 * (1 + tanh(root(2 / pi) * (x + 0.044715 * x**3)))."""
    net = Pairs(seed=1)
    x = pooled(net)

    def number(value: float) -> str:
        return net.constant(np.float32(value))

    third = net.node("Pow", x, number(3.0)) if cube == "pow" else (
        net.node("Mul", net.node("Mul", x, x), x))  # fmt: skip
    inner = net.node("Add", x, net.node("Mul", third, number(0.044715)))
    curve = net.node("Tanh", net.node("Mul", inner, number(np.sqrt(2 / np.pi))))
    half = net.node("Mul", x, number(0.5))
    made = net.node("Mul", half, net.node("Add", curve, number(1.0)))
    graph, off = compared(net.model(net.pair(made, 0.03, np.int8(-100)), (1, 5, 6, 7)))
    assert [n.kind for n in graph if n.value is None] == ["data-fix", "pool-fix", "table-fix"]
    assert not off.any()


@pytest.mark.parametrize("own", [False, True])
def test_zeros_around_integers_keep_their_scale(own):
    """Of a kernel of one place, or of a Pad that has no pair of its own behind it."""
    net = Pairs(seed=4)
    x = net.pair("x", 0.03, np.uint8(40))
    values, scales = net.spread(6, 3, 1, 1)
    weights = net.pair(net.constant(values), scales, np.zeros(6, np.int8), axis=0)
    border = [0, 0, 1, 2, 0, 0, 0, 1]
    if own:
        made = net.node("Conv", x, weights, pads=[*border[2:4], *border[6:]])
    else:
        made = net.node("Conv", net.node("Pad", x, net.constant(np.array(border))), weights)
    graph, off = compared(net.model(net.pair(made, 0.02, np.int8(-7)), (1, 3, 6, 7)))
    kinds = [node.kind for node in graph if node.value is None]
    assert kinds == ["data-fix", "pad-fix", "conv2d-fix"]
    assert off.shape == (1, 7, 10, 6)
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01


@pytest.mark.parametrize("picking", ["Resize", "Slice", "SpaceToDepth"])
def test_operators_that_pick_integers_keep_their_scale(picking):
    """Between two operators on integers, as onnxruntime's QOperator models have them."""
    net = Pairs(seed=2)
    grid = [net.constant(np.float32(0.03)), net.constant(np.uint8(120))]

    def conv(x: str, outputs: int, inputs: int) -> str:
        values = net.random.integers(-127, 128, (outputs, inputs, 1, 1)).astype(np.int8)
        weights = [net.constant(a) for a in (values, np.float32(0.008), np.int8(0))]
        return net.node("QLinearConv", x, *grid, *weights, *grid)

    made = conv(net.node("QuantizeLinear", "x", *grid), 4, 3)
    if picking == "Resize":
        sizes = net.constant(np.array([1.0, 1.0, 2.0, 2.0], np.float32))
        where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        made = net.node("Resize", made, "", sizes, mode="nearest", **where)
    elif picking == "Slice":
        ends = [net.constant(np.array(ends, np.int64)) for ends in ((1, 0), (5, 4), (2, 3))]
        made = net.node("Slice", made, *ends)
    else:
        made = net.node("SpaceToDepth", made, blocksize=2)
    last = conv(made, 5, 16 if picking == "SpaceToDepth" else 4)
    out = net.node("DequantizeLinear", last, *grid)
    graph, off = compared(net.model(out, (1, 3, 6, 8)))
    assert not {"onnx", "fix2float", "float2fix"} & {node.kind for node in graph}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.02


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_every_channel_of_the_weights_may_have_a_zero_point(kind):
    net = Pairs(seed=4)
    x = net.pair("x", 0.03, np.uint8(120))
    values, scales = net.spread(6, 3, 3, 3)
    zeros = np.array([-40, 3, 0, 55, -9, 20]) + (128 if kind is np.uint8 else 0)
    weights = net.pair(net.constant(values), scales * 1.5, zeros.astype(kind), axis=0)
    out = net.pair(net.node("Conv", x, weights), 0.05, np.int8(2))
    graph, off = compared(net.model(out, (1, 3, 7, 8)))
    assert not {"onnx", "fix2float", "float2fix"} & {node.kind for node in graph}
    assert off.max() <= 1
    assert (off > 0).mean() < 0.01


@pytest.mark.parametrize("size", [4, 8])
def test_weights_of_four_bits(size):
    """A scale a channel where a block is a whole channel's; else they are real numbers."""
    net = Pairs(seed=2, opset=21)
    x = net.pair("x", 0.03, np.uint8(120))
    stored = onnx.helper.make_tensor(
        "w", onnx.TensorProto.INT4, (5, 8, 1, 1), net.random.integers(-8, 8, 40)
    )
    shape = (5,) if size == 8 else (5, 2, 1, 1)
    scale = net.constant(net.random.uniform(0.01, 0.03, shape).astype(np.float32))
    attrs = {"axis": 0} if size == 8 else {"axis": 1, "block_size": size}
    weights = net.node("DequantizeLinear", "w", scale, **attrs)
    made = net.node("Conv", x, weights)
    model = net.model(net.pair(made, 0.02, np.int8(2)), (1, 8, 4, 6))
    model.graph.initializer.append(stored)
    model.ir_version = 10
    graph, off = compared(model)
    assert ("conv2d-fix" in {node.kind for node in graph}) == (size == 8)
    assert off.max() <= (size == 8)


def test_scalars_between_operators_of_microsoft_have_a_shape():
    net = Pairs(seed=6)
    x = pooled(net)
    scale, zero = net.constant(np.float32(0.02)), net.constant(np.uint8(0))
    factor = net.node(
        "DequantizeLinear", net.constant(np.uint8(37)), scale, zero, domain="com.microsoft"
    )
    out = net.pair(net.node("Mul", x, factor), 0.03, np.int8(-5))
    graph, off = compared(net.model(out, (1, 5, 6, 7)))
    assert "onnx" not in {node.kind for node in graph}
    assert off.max() <= 1


@pytest.mark.parametrize("value", [None, 7])
def test_operators_that_move_integers_keep_their_scale(value):
    """As onnxruntime's QOperator format has them; Pad without a value pads with the integer 0."""
    net = Pairs(seed=8)
    grid = [net.constant(np.float32(0.03)), net.constant(np.uint8(60))]
    stored = net.node("QuantizeLinear", "x", *grid)
    stored = net.node("MaxPool", stored, kernel_shape=[1, 1])
    amounts = net.constant(np.array([0, 0, 1, 0, 0, 0, 2, 1]))
    filling = [] if value is None else [net.constant(np.uint8(value))]
    padded = net.node("Pad", stored, amounts, *filling)
    halves = [f"half{number}" for number in range(2)]
    sizes = net.constant(np.array([2, 4]))
    net.nodes.append(onnx.helper.make_node("Split", [padded, sizes], halves, axis=1))
    turned = net.node("Transpose", halves[1], perm=[0, 1, 3, 2])
    weights = net.constant(net.random.integers(-128, 128, (3, 4, 3, 2)).astype(np.int8))
    ends = [net.constant(np.float32(s)) for s in (0.01, 0.11)]
    zeros = [net.constant(np.int8(0)), net.constant(np.uint8(99))]
    made = net.node("QLinearConv", turned, *grid, weights, ends[0], zeros[0], ends[1], zeros[1])
    out = net.node("DequantizeLinear", made, ends[1], zeros[1])
    graph, off = compared(net.model(out, (1, 6, 5, 6)))
    assert not {"onnx", "fix2float", "float2fix"} & {node.kind for node in graph}
    assert off.max() <= 1


@pytest.mark.parametrize(("made", "zero"), [(0.017, -31), (0.043, 90), (5e-4, 0)])
@pytest.mark.parametrize("where", ["half_pixel", "asymmetric"])
def test_interpolation_to_a_scale_of_its_own_is_rounded_and_bounded_once(made, zero, where):
    """A range that is narrower than the input's cuts sums off, not the pixels in them."""
    net = Pairs(seed=3)
    x = net.pair("x", 0.03, np.int8(-7))
    pooled = net.pair(net.node("MaxPool", x, kernel_shape=[1, 1]), 0.03, np.int8(-7))
    sizes = net.constant(np.array([1.0, 1.0, 2.0, 4.0], np.float32))
    large = net.node(
        "Resize", pooled, "", sizes, mode="linear", coordinate_transformation_mode=where
    )
    graph, off = compared(net.model(net.pair(large, made, np.int8(zero)), (1, 3, 6, 7)))
    on_dpu = made > 0.03 / 32  # sums have five fractional bits at most
    assert ("upsample-fix" in {node.kind for node in graph}) == on_dpu
    assert off.max() <= 1
    assert (off > 0).mean() < 0.05


def test_operators_on_integers_with_channels_last():
    """As onnxruntime's optimizer saves a quantized model for a CPU."""
    net, own = Pairs(seed=5), {"domain": "com.microsoft", "channels_last": 1}
    grid = [net.constant(np.float32(0.03)), net.constant(np.uint8(110))]
    x = net.node("MaxPool", net.pair("x", 0.03, np.uint8(110)), kernel_shape=[1, 1])
    stored = net.node("Transpose", net.node("QuantizeLinear", x, *grid), perm=[0, 2, 3, 1])
    values = net.random.integers(-127, 128, (8, 3, 3, 2)).astype(np.int8)
    weights = [net.constant(a) for a in (values, np.float32(0.008), np.int8(0))]
    made = net.node("QLinearConv", stored, *grid, *weights, *grid, pads=[1, 0, 1, 1], **own)
    window = {"kernel_shape": [2, 3], "strides": [1, 2]}
    made = net.node("NhwcMaxPool", made, domain="com.microsoft", **window)
    made = net.node("QLinearGlobalAveragePool", made, *grid, *grid, **own)
    back = net.node("DequantizeLinear", made, *grid)
    graph, off = compared(net.model(net.node("Transpose", back, perm=[0, 3, 1, 2]), (1, 3, 9, 8)))
    kinds = [node.kind for node in graph if node.value is None]
    assert kinds == ["data-fix", "pool-fix", "conv2d-fix", "pool-fix", "pool-fix"]
    assert off.max() <= 1
    assert (off > 0).mean() < 0.3  # eight results


def test_factors_of_a_resize_may_be_rounded_too():
    """By tools that quantize all constants; these are the factors that count then."""
    net = Pairs(seed=2)
    factors = net.pair(net.constant(np.array([1, 1, 2.1, 2.9], np.float32)), 0.5, np.uint8(0))
    where = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    large = net.node("Resize", pooled(net), "", factors, mode="nearest", **where)
    graph, off = compared(net.model(net.pair(large, 0.04, np.int8(3)), (1, 3, 6, 7)))
    assert "upsample-fix" in {node.kind for node in graph}
    assert off.shape[1:3] == (10, 18)
    assert not off.any()
