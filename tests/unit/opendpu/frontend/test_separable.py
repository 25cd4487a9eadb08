# SPDX-License-Identifier: Apache-2.0
"""Adaptive pooling as PyTorch's exporter gathers it, and other maps of rows and columns."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opendpu.compile_model import compile_graph
from opendpu.frontend import load_onnx
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

CHANNELS = 6


def model(nodes, size, constants) -> onnx.ModelProto:
    """Return a convolution of one pixel, nodes from ``a`` to ``b``, and another convolution."""
    rng = np.random.default_rng(2)
    weights = {n: rng.standard_normal((CHANNELS, CHANNELS, *(1 for _ in size))) for n in ("v", "w")}
    arrays = {n: w.astype(np.float32) for n, w in weights.items()} | constants
    every = [
        helper.make_node("Conv", ["x", "v"], ["a"]), *nodes,
        helper.make_node("Conv", ["b", "w"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        every, "map",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, CHANNELS, *size))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def windows(given: int, made: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements that each result is the mean of, and which of them do not count."""
    first = [n * given // made for n in range(made)]
    last = [-(-(n + 1) * given // made) for n in range(made)]
    most = max(b - a for a, b in zip(first, last, strict=True))
    at = np.int64([[min(a + k, given - 1) for k in range(most)] for a in first])
    hidden = np.array([[a + k >= b for k in range(most)] for a, b in zip(first, last, strict=True)])
    return at, hidden


def rotated(size: tuple[int, int]) -> onnx.ModelProto:
    """Return pairs of columns that change places, the first of each negated: rotary embeddings."""
    constants = {
        "first": np.int64([0]), "second": np.int64([1]), "end": np.int64([size[1]]),
        "axis": np.int64([3]), "step": np.int64([2]), "last": np.int64([-1]),
        "shape": np.int64([1, CHANNELS, *size]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Slice", ["a", "second", "end", "axis", "step"], ["odd"]),
        helper.make_node("Neg", ["odd"], ["minus"]),
        helper.make_node("Slice", ["a", "first", "end", "axis", "step"], ["even"]),
        helper.make_node("Unsqueeze", ["minus", "last"], ["left"]),
        helper.make_node("Unsqueeze", ["even", "last"], ["right"]),
        helper.make_node("Concat", ["left", "right"], ["pairs"], axis=-1),
        helper.make_node("Reshape", ["pairs", "shape"], ["b"]),
    ]
    return model(nodes, size, constants)


def adaptive(size: tuple[int, int], made: tuple[int, int]) -> onnx.ModelProto:
    """Return adaptive mean pooling: gathered windows, without what does not count, over counts."""
    (rows, no_rows), (columns, no_columns) = (
        windows(n, m) for n, m in zip(size, made, strict=True)
    )
    shape = (*rows.shape, *columns.shape)
    places = np.stack(np.broadcast_arrays(rows[:, :, None, None], columns), axis=-1)
    counts = (~no_rows).sum(1)[:, None] * (~no_columns).sum(1)
    constants = {
        "places": places.reshape(*shape, 2), "zero": np.float32(0), "counts": np.float32(counts),
        "no_rows": no_rows[:, :, None, None], "no_columns": no_columns,
    }  # fmt: skip
    nodes = [
        helper.make_node("Transpose", ["a"], ["space"], perm=[2, 3, 0, 1]),
        helper.make_node("GatherND", ["space", "places"], ["found"]),
        helper.make_node("Transpose", ["found"], ["windows"], perm=[4, 5, 0, 1, 2, 3]),
        helper.make_node("Where", ["no_rows", "zero", "windows"], ["fewer"]),
        helper.make_node("Where", ["no_columns", "zero", "fewer"], ["counted"]),
    ]
    total = ""
    for row in range(shape[1]):
        for column in range(shape[3]):
            one = f"one_{row}_{column}"
            constants |= {f"i{row}": np.int64(row), f"i{column}": np.int64(column)}
            nodes += [
                helper.make_node("Gather", ["counted", f"i{column}"], [f"{one}_c"], axis=-1),
                helper.make_node("Gather", [f"{one}_c", f"i{row}"], [one], axis=-2),
            ]
            if total:
                nodes.append(helper.make_node("Add", [total, one], [f"{one}_sum"]))
            total = f"{one}_sum" if total else one
    nodes.append(helper.make_node("Div", [total, "counts"], ["b"]))
    return model(nodes, size, constants)


def check(proto: onnx.ModelProto, *, separable: bool = True, target: str = "B512") -> None:
    """Compare with ONNX's reference, and look whether the DPU gets it whole."""
    graph = load_onnx(proto)
    size = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal((4, *size[1:])).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x[:1]})
    order = graph.attrs["onnx_order"]
    found = Session(graph).run({"x": np.ascontiguousarray(x[:1].transpose(order["x"]))})["y"]
    found = found.transpose(np.argsort(order["y"]))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert ("onnx" not in {node.kind for node in graph}) == separable
    if separable:
        config = QuantizeConfig(target=Target.from_name(target))
        assert not compile_graph(quantize(graph, {"x": x}, config), target=target).report.on_cpu


@pytest.mark.parametrize(
    ("size", "made"), [((7, 5), (3, 2)), ((6, 5), (4, 3)), ((6, 6), (4, 6)), ((5, 4), (7, 6))]
)
def test_adaptive_pooling(size, made):
    check(adaptive(size, made))


def test_adaptive_pooling_of_sequences():
    at, hidden = windows(9, 4)
    constants = {
        "places": at, "hidden": hidden, "zero": np.float32(0), "counts": np.float32(3),
        "axes": np.int64([-1]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Gather", ["a", "places"], ["windows"], axis=2),
        helper.make_node("Where", ["hidden", "zero", "windows"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "axes"], ["total"], keepdims=0),
        helper.make_node("Div", ["total", "counts"], ["b"]),
    ]
    check(model(nodes, (9,), constants))


def test_strides_over_a_flat_map():
    """``as_strided``: every other row of a map, by places in memory."""
    at = np.arange(CHANNELS * 6 * 5).reshape(1, CHANNELS, 6, 5)[:, :, ::2]
    nodes = [
        helper.make_node("Reshape", ["a", "flat"], ["f"]),
        helper.make_node("Gather", ["f", "places"], ["b"]),
    ]
    check(model(nodes, (6, 5), {"places": np.int64(at), "flat": np.int64([-1])}))


def test_strides_behind_a_mean_and_a_transpose_after_them():
    """The head of a network with LayerNorm: the mean is a map of one pixel in other strides."""
    at = np.int64(np.arange(CHANNELS)).reshape(1, CHANNELS, 1, 1)
    nodes = [
        helper.make_node("ReduceMean", ["a", "axes"], ["mean"], keepdims=1),
        helper.make_node("Reshape", ["mean", "flat"], ["f"]),
        helper.make_node("Gather", ["f", "places"], ["strided"]),
        helper.make_node("Transpose", ["strided"], ["last"], perm=[0, 2, 3, 1]),
        helper.make_node("Relu", ["last"], ["positive"]),
        helper.make_node("Transpose", ["positive"], ["b"], perm=[0, 3, 1, 2]),
    ]
    constants = {"places": at, "flat": np.int64([-1]), "axes": np.int64([2, 3])}
    check(model(nodes, (6, 5), constants))


@pytest.mark.parametrize("why", ["channels move", "rows and columns depend on each other"])
def test_what_is_no_product(why):
    at = np.arange(CHANNELS * 25).reshape(1, CHANNELS, 5, 5)
    at = at[:, ::-1] if "channels" in why else at.transpose(0, 1, 3, 2)
    nodes = [
        helper.make_node("Reshape", ["a", "flat"], ["f"]),
        helper.make_node("Gather", ["f", "places"], ["b"]),
    ]
    constants = {"places": np.ascontiguousarray(at), "flat": np.int64([-1])}
    check(model(nodes, (5, 5), constants), separable=False)


@pytest.mark.parametrize("size", [(5, 8), (3, 2)])
def test_pairs_of_columns_that_change_places(size):
    check(rotated(size))


def test_pairs_of_columns_of_several_heads_without_their_first_row():
    """Heads share the first axis with samples, and a class token is not turned."""
    proto = rotated((5, 8))
    changed = {
        "heads": np.int64([CHANNELS, 5, 8]), "axis": np.int64([2]), "rows": np.int64([1]),
        "one": np.int64([1]), "shape": np.int64([CHANNELS, 4, 8]),
        "maps": np.int64([1, CHANNELS, 5, 8]),
    }  # fmt: skip
    kept = [one for one in proto.graph.initializer if one.name not in changed]
    first, *inner, last = proto.graph.node
    inner[0].input[0] = inner[2].input[0] = "t"
    inner[-1].output[0] = "turned"
    nodes = [
        first,
        helper.make_node("Reshape", ["a", "heads"], ["h"]),
        helper.make_node("Slice", ["h", "first", "one", "rows"], ["token"]),
        helper.make_node("Slice", ["h", "one", "end", "rows"], ["t"]),
        *inner,
        helper.make_node("Concat", ["token", "turned"], ["k"], axis=1),
        helper.make_node("Reshape", ["k", "maps"], ["b"]),
        last,
    ]
    del proto.graph.initializer[:], proto.graph.node[:]
    proto.graph.node.extend(nodes)
    proto.graph.initializer.extend(kept)
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in changed.items())
    kinds = [node.kind for node in load_onnx(proto)]
    assert (kinds.count("conv2d"), kinds.count("concat"), kinds.count("neg")) == (3, 1, 0)
    check(proto, target="B512+table")


def test_a_stack_of_columns_without_an_axis_is_refused() -> None:
    nodes = [
        helper.make_node("Unsqueeze", ["a", "place"], ["c"]),
        helper.make_node("Concat", ["c", "c"], ["d"]),
        helper.make_node("Squeeze", ["d", "place"], ["b"]),
    ]
    with pytest.raises(UnsupportedError, match=r"\(Concat\).*attribute 'axis' is missing"):
        load_onnx(model(nodes, (4, 4), {"place": np.array([4])}))
