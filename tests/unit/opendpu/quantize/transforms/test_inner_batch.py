# SPDX-License-Identifier: Apache-2.0
"""Patches, windows and heads in the first axis, and chains of what moves them: the same numbers."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph, Graph
from opendpu.ops.batching import mixes_samples
from opendpu.ops.foreign import KIND
from opendpu.ops.session import Session
from opendpu.ops.window import pixel_window
from opendpu.quantize.transforms.inner_batch import lift
from opendpu.quantize.transforms.rearrange import rearrange

SHAPE = (1, 8, 12, 6)


def graph_of(*steps: tuple[str, tuple[int, ...]]) -> FloatGraph:
    """Return a graph of reshapes and transposes from ``x``."""
    graph = FloatGraph("moves")
    name = graph.add("x", "data", SHAPE).name
    for number, (kind, numbers) in enumerate(steps):
        shape = graph[name].shape
        if kind == "transpose":
            shape = tuple(shape[axis] for axis in numbers)
            attrs = {"order": list(numbers)}
        else:
            shape, attrs = numbers, {"shape": list(numbers)}
        name = graph.add(f"s{number}", kind, shape, {"input": [name]}, attrs).name
    graph.outputs = [name]
    return graph


def results(graph: Graph) -> list[np.ndarray]:
    values = np.random.default_rng(7).standard_normal(graph["x"].shape).astype(np.float32)
    return list(Session(graph).run({"x": values}).values())


def check(graph: FloatGraph) -> FloatGraph:
    """Return what both passes make of a graph; it computes the same."""
    names, before = list(graph.outputs), results(graph)
    rearrange(graph)
    lift(graph)
    assert graph.outputs == names
    for found, wanted in zip(results(graph), before, strict=True):
        np.testing.assert_array_equal(found, wanted)
    return graph


def kinds(graph: Graph) -> list[str]:
    return [node.kind for node in graph]


def test_patches_as_torch_writes_them_move_pixels_only() -> None:
    """Channels first, patches of 2 x 2 to the first axis, channels last in the end."""
    graph = check(graph_of(
        ("transpose", (0, 3, 1, 2)), ("reshape", (24, 2, 6, 2)), ("transpose", (0, 2, 1, 3)),
        ("reshape", (1, 6, 24, 4)), ("transpose", (0, 3, 2, 1)), ("reshape", (4, 24, 6)),
    ))  # fmt: skip
    (moved,) = (node for node in graph if node.kind == "transpose")
    assert graph[moved.sources()[0]].shape == (1, 4, 2, 6, 2, 6)
    assert moved.attrs["order"] == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize(("outputs", "moved"), [(1, 0), (6, 0), (9, 2)])
def test_a_layer_of_one_pixel_goes_ahead_where_that_moves_less(outputs: int, moved: int) -> None:
    """Sides of boxes as means of distributions, which a head moves before and after."""
    graph = graph_of(("transpose", (0, 2, 1, 3)))
    weights = np.random.default_rng(3).standard_normal((outputs, 1, 1, 6)).astype(np.float32)
    given = {"input": ["s0"], "weights": [graph.add_const("w", weights).name]}
    graph.add("c", "conv2d", (1, 12, 8, outputs), given, pixel_window())
    graph.add("y", "transpose", (1, 8, 12, outputs), {"input": ["c"]}, {"order": [0, 2, 1, 3]})
    graph.outputs = ["y"]
    wanted = results(graph)
    rearrange(graph)
    assert kinds(graph).count("transpose") == moved
    np.testing.assert_allclose(results(graph), wanted, rtol=1e-5, atol=1e-5)


def test_what_is_undone_is_nothing() -> None:
    graph = check(graph_of(
        ("transpose", (0, 3, 1, 2)), ("reshape", (6, 96)), ("transpose", (1, 0)),
        ("reshape", (1, 96, 6)),
    ))  # fmt: skip
    assert "transpose" not in kinds(graph)


def test_axes_that_do_not_divide_stay() -> None:
    steps = [("transpose", (0, 3, 2, 1)), ("reshape", (1, 64, 9)), ("transpose", (0, 2, 1))]
    assert kinds(check(graph_of(*steps))).count("transpose") == 2


def drawn(random: np.random.Generator) -> FloatGraph:
    """Return a random chain."""
    steps: list[tuple[str, tuple[int, ...]]] = []
    shape: tuple[int, ...] = SHAPE
    for _ in range(random.integers(1, 7)):
        if random.random() < 0.5:
            order = tuple(int(axis) for axis in random.permutation(len(shape)))
            steps.append(("transpose", order))
            shape = tuple(shape[axis] for axis in order)
        else:
            left, sizes = int(np.prod(shape)), []
            while left > 1 and len(sizes) < 4:
                sizes.append(int(random.choice([n for n in range(1, left + 1) if left % n == 0])))
                left //= sizes[-1]
            shape = (*sizes, left)
            steps.append(("reshape", shape))
    return graph_of(*steps)


def test_random_chains(rng: np.random.Generator) -> None:
    for _ in range(20):
        check(drawn(rng))


def test_ops_between_windows() -> None:
    """Each kind of op on tensors whose first axis is no batch; an output stays as it was."""
    graph = graph_of(
        ("reshape", (4, 2, 12, 6)), ("transpose", (0, 2, 1, 3)), ("reshape", (4, 24, 6)),
    )  # fmt: skip
    windows = graph.outputs[0]

    def op(name: str, kind: str, shape: tuple, sources: list[str], **attrs) -> str:
        return graph.add(name, kind, shape, {"input": sources}, attrs).name

    turned = op("turned", "transpose", (4, 6, 24), [windows], order=[0, 2, 1])
    scores = op("scores", "matmul", (4, 24, 24), [windows, turned], transpose_a=False,
                transpose_b=False)  # fmt: skip
    bias = graph.add_const("bias", np.arange(4 * 24 * 24).reshape(4, 24, 24) / 100).name
    biased = op("biased", "add", (4, 24, 24), [scores, bias])
    soft = op("soft", "softmax", (4, 24, 24), [biased], axis=2)
    mixed = op("mixed", "matmul", (4, 24, 6), [soft, windows], transpose_a=False, transpose_b=False)
    ones = {"scale": [graph.add_const("one", np.linspace(1, 2, 6)).name],
            "bias": [graph.add_const("zero", np.zeros(6)).name]}  # fmt: skip
    scaled = graph.add("scaled", "scale", (4, 24, 6), {"input": [mixed], **ones}, {"axis": 2}).name
    part = op("part", "strided_slice", (3, 10, 6), [scaled], begin=[1, 4, 0], end=[4, 14, 6],
              strides=[1, 1, 1])  # fmt: skip
    part = op("unit", "l2_normalize", (3, 10, 6), [part], axis=[-1], epsilon=1e-12)
    low = op("low", "reduction_mean", (3, 6), [part], axis=[1], keep_dims=False)
    both = op("both", "concat", (3, 20, 6), [part, part], axis=1)
    first = op("first", "concat", (6, 20, 6), [both, both], axis=0)
    sums = op("sums", "reduction_sum", (6, 20, 1), [first], axis=[-1], keep_dims=True)
    graph.outputs = [first, low, sums, scaled]
    check(graph)
    wide = [n.name for n in graph if n.value is None and n.shape[0] != 1]
    assert set(wide) == {*graph.outputs}


@pytest.mark.parametrize("kind", ["matmul", "add"])
@pytest.mark.parametrize("shape", [(4, 6, 6), (1, 4, 6, 6), (6, 6)])
def test_operands_with_fewer_axes_stay_in_line(kind: str, shape: tuple[int, ...]) -> None:
    """DETR's attention: queries have a batch before their heads, keys have none."""
    graph = FloatGraph("heads")
    graph.add("x", "data", (1, 6, 4, 6))
    graph.add("q", "transpose", (1, 4, 6, 6), {"input": ["x"]}, {"order": [0, 2, 1, 3]})
    graph.add("k4", "reshape", (1, 4, 6, 6), {"input": ["x"]}, {"shape": [1, 4, 6, 6]})
    if shape == (6, 6):
        attrs = {"axis": [0, 1], "keep_dims": False}
        graph.add("k", "reduction_mean", shape, {"input": ["k4"]}, attrs)
    else:
        graph.add("k", "reshape", shape, {"input": ["k4"]}, {"shape": list(shape)})
    attrs = {"transpose_a": False, "transpose_b": False} if kind == "matmul" else {}
    graph.add("y", kind, (1, 4, 6, 6), {"input": ["q", "k"]}, attrs)
    graph.outputs = ["y"]
    check(graph)
    samples = np.random.default_rng(8).standard_normal((3, 6, 4, 6)).astype(np.float32)
    assert not mixes_samples(graph, ["y"])
    (found,) = Session(graph, batched=True).run({"x": samples}).values()
    one = Session(graph)
    for sample, made in zip(samples, found, strict=True):
        (wanted,) = one.run({"x": sample[None]}).values()
        np.testing.assert_allclose(made[None], wanted, rtol=1e-5, atol=1e-5)


def test_samples_are_not_stacked_where_operands_have_fewer_axes() -> None:
    graph = FloatGraph("means")
    graph.add("x", "data", (1, 4, 6, 6))
    attrs = {"axis": [1], "keep_dims": False}
    graph.add("m", "reduction_mean", (1, 6, 6), {"input": ["x"]}, attrs)
    graph.add("y", "add", (1, 4, 6, 6), {"input": ["x", "m"]})
    assert mixes_samples(graph, ["y"])


@pytest.mark.parametrize("axis", [-1, 2])
def test_a_normalization_of_windows(axis: int) -> None:
    graph = graph_of(("reshape", (4, 24, 6)))
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y"], axis=axis, epsilon=1e-5)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 24, 6]) for n in ("x", "y")]
    scale = helper.make_tensor("s", TensorProto.FLOAT, [6], [1, 2, 3, 4, 5, 6])
    model = helper.make_model(
        helper.make_graph([node], "norm", infos[:1], infos[1:], [scale]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=10,
    )  # fmt: skip
    attrs = {"model": model.SerializeToString(), "call": "norm", "output": 0}
    graph.add("norm", KIND, (4, 24, 6), {"input": list(graph.outputs)}, attrs)
    graph.add("last", "relu", (4, 24, 6), {"input": ["norm"]})
    graph.outputs = ["last"]
    assert check(graph)["norm"].shape == (1, 4, 24, 6)


def test_a_batch_of_the_network_itself_stays() -> None:
    graph = FloatGraph("batch")
    graph.add("x", "data", (4, 8, 8, 3))
    graph.add("y", "relu", (4, 8, 8, 3), {"input": ["x"]})
    graph.outputs = ["y"]
    lift(graph)
    assert [node.shape for node in graph] == [(4, 8, 8, 3)] * 2


def test_what_has_no_attributes_for_it_stays_between_reshapes() -> None:
    graph = graph_of(("reshape", (4, 2, 12, 6)))
    attrs = {"kernel": [2, 2], "stride": [1, 1], "pad": [0] * 4, "pad_mode": "FLOOR"}
    graph.add("pool", "maxpool2d", (4, 1, 11, 6), {"input": list(graph.outputs)}, attrs)
    graph.add("more", "relu", (4, 1, 11, 6), {"input": ["pool"]})
    graph.outputs = ["more"]
    check(graph)
    assert graph["pool"].shape == (4, 1, 11, 6)


def test_weights_that_are_computed_from_constants_stay(rng: np.random.Generator) -> None:
    """Weights of 8 bits with scales that the DPU has not are an operator without inputs."""
    weights = rng.integers(-128, 128, (4, 3, 1, 1), dtype=np.int8)
    scales = rng.uniform(0.001, 0.01, 4).astype(np.float32)
    nodes = [
        helper.make_node("DequantizeLinear", ["stored", "scales", "zeros"], ["weights"], axis=0),
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["integers"]),
        helper.make_node("DequantizeLinear", ["integers", "scale", "zero"], ["real"]),
        helper.make_node("Conv", ["real", "weights"], ["y"]),
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes, "stored",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 12))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 8, 12))],
            [
                numpy_helper.from_array(weights, "stored"),
                numpy_helper.from_array(scales, "scales"),
                numpy_helper.from_array(np.zeros(4, np.int8), "zeros"),
                numpy_helper.from_array(np.array(0.0171, np.float32), "scale"),
                numpy_helper.from_array(np.array(3, np.int8), "zero"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
    )  # fmt: skip
    graph = load_onnx(model)
    (odd,) = (node for node in graph if node.name == "weights")
    assert not odd.sources()
    assert odd.value is None
    before = results(graph)
    lift(graph)
    np.testing.assert_array_equal(results(graph)[0], before[0])


def of_frames(kernel: bool) -> onnx.ModelProto:
    """Return a network of frames without a batch, as audio libraries have them.

    With a ``kernel`` the frames are rows of a feature map in between; else only elements are added.
    """
    middle = (
        """p = Pad (a, wide)  b = Unsqueeze (p, both)  c = Conv <kernel_shape = [3, 3]> (b, w)
      d = Squeeze (c, zero)  t = Transpose <perm = [1, 2, 0]> (d)"""
        if kernel
        else """
      t = Unsqueeze (a, two)"""
    )
    proto = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
      g (float[9, 8] x) => (float[9, 8, 1] y)
      <int64[2] both = {{0, 1}}, int64[1] zero = {{0}}, int64[1] two = {{2}},
       int64[4] wide = {{1, 1, 1, 1}}>
      {{ a = Elu (x)  {middle}  u = Sigmoid (t)  m = ReduceMax <keepdims = 1> (u, zero)
         y = Add (u, m) }}""")
    weights = np.random.default_rng(2).standard_normal((1, 1, 3, 3)).astype(np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    return proto


def test_frames_are_no_batch_where_layers_have_one_of_1() -> None:
    graph = check(load_onnx(of_frames(kernel=True)))
    computing = ("elu", "pad", "conv2d", "sigmoid", "reduction_max", "add")
    assert all(node.shape[0] == 1 for node in graph if node.kind in computing)
    assert graph["x"].shape == (9, 8)
    assert graph[graph.outputs[0]].shape == (9, 8, 1)


def test_what_may_be_a_batch_stays() -> None:
    graph = check(load_onnx(of_frames(kernel=False)))
    assert [node.shape for node in graph if node.kind == "elu"] == [(9, 8)]
