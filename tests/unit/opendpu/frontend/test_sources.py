# SPDX-License-Identifier: Apache-2.0
"""Models as they come: inputs and outputs of every kind, weights outside, shapes computed."""

import numpy as np
import onnx
import pytest
from onnx import external_data_helper, helper, numpy_helper
from onnx_text import compare, parse, run_both

from opendpu.frontend import load_onnx
from opendpu.frontend.source import read
from opendpu_arch.errors import ModelFormatError


def kinds(graph) -> list[str]:
    return [n.kind for n in graph if n.kind not in ("data", "const")]


def with_weights(model: onnx.ModelProto, **weights: np.ndarray) -> onnx.ModelProto:
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


def test_integers_and_bools_come_and_go(rng):
    model = parse(
        """
        g (int64[2,3] i, bool[2,3] b, uint8[2,3] u, float s, double[3] d)
          => (int64[2,3] j, bool[2,3] n, float[2,3] f, float t, double[3] e, int64[2,1] at)
        {
          j = Add(i, i)
          n = Not(b)
          h = Cast<to=1>(u)
          f = Mul(h, s)
          t = Exp(s)
          e = Sqrt(d)
          at = ArgMax<axis=1>(f)
        }
        """
    )
    graph = compare(model, rng, feeds={"d": np.array([1.0, 2.0, 3.0])})
    assert [graph[name].type.dtype.name for name in ("j", "n", "f", "e", "at")] == [
        "int64", "bool", "float32", "float64", "int64"
    ]  # fmt: skip
    assert graph["s"].shape == graph["t"].shape == (1,)


def test_an_image_of_bytes_is_a_feature_map(rng):
    model = parse("g (uint8[1,3,6,6] x) => (float[1,2,6,6] y) { f = Cast<to=1>(x) y = Conv(f, w) }")
    with_weights(model, w=rng.standard_normal((2, 3, 1, 1)).astype(np.float32))
    graph = compare(model, rng, tolerance=1e-4)
    assert kinds(graph) == ["cast", "conv2d"]
    assert graph["x"].shape == (1, 6, 6, 3)


def test_outputs_of_every_kind(rng):
    """A constant, an input, a weight, one tensor twice, and an input that nobody reads."""
    model = parse(
        "g (float[1,4] x, float[1,2] unused) => "
        "(float[1,4] y, float[1,4] z, float[1,4] x, int64[2] k, float[1,4] w, int64[2] s) "
        "{ y = Relu(x) z = Identity(y) k = Constant<value_ints=[3, 4]>() s = Shape(x) }"
    )
    graph = compare(with_weights(model, w=np.ones((1, 4), np.float32)), rng)
    assert graph.outputs == ["y", "z", "x_copy", "k", "w", "s"]
    assert graph["unused"].kind == "data"


def test_a_feature_map_that_is_also_an_output(rng):
    model = parse("g (float[1,3,6,6] x) => (float[1,3,6,6] x, float[1,2,6,6] y) { y = Conv(x, w) }")
    with_weights(model, w=rng.standard_normal((2, 3, 1, 1)).astype(np.float32))
    graph = compare(model, rng, tolerance=1e-4)
    assert graph.attrs["onnx_order"] == {n: [0, 2, 3, 1] for n in ("x", "x_copy", "y")}


def test_a_weight_that_is_also_an_input_is_a_weight(rng):
    model = parse("g (float[1,4] x, float[1,4] w) => (float[1,4] y) { y = Add(x, w) }")
    graph = load_onnx(with_weights(model, w=np.ones((1, 4), np.float32)))
    assert [n.name for n in graph if n.kind == "data"] == ["x"]


@pytest.mark.parametrize("batch", [2, 5])
def test_fixed_batches(rng, batch):
    model = parse(
        f"g (float[{batch},4,6,6] x) => (float[{batch},5] y) {{ "
        "c = Conv<pads=[1,1,1,1]>(x, w) r = Relu(c) p = GlobalAveragePool(r) "
        "f = Flatten(p) d = Gemm<transB=1>(f, v) y = Softmax<axis=1>(d) }"
    )
    with_weights(
        model,
        w=rng.standard_normal((3, 4, 3, 3)).astype(np.float32),
        v=rng.standard_normal((5, 3)).astype(np.float32),
    )
    compare(model, rng, tolerance=1e-4)


SHAPES = """
g (float[N,4,height,width] x) => (float[N,A,B] y, float[N,4,C,D] z) {
  s = Shape(x)
  n = Gather(s, zero)
  h = Gather(s, two)
  w = Gather(s, three)
  hw = Mul(h, w)
  axis = Constant<value_ints=[0]>()
  n1 = Unsqueeze(n, axis)
  hw1 = Unsqueeze(hw, axis)
  four = Constant<value_ints=[4]>()
  target = Concat<axis=0>(n1, four, hw1)
  y = Reshape(x, target)
  steps = Range(zero, w, two)
  half = Gather<axis=3>(x, steps)
  z = Relu(half)
}
"""


@pytest.mark.parametrize("sizes", [{"x": (1, 4, 6, 8)}, {"height": 6, "width": 8}])
def test_what_is_computed_from_shapes_is_constant(rng, sizes):
    model = parse(SHAPES)
    with_weights(model, zero=np.array(0), two=np.array(2), three=np.array(3))
    graph = load_onnx(model, sizes)
    run_both(graph, model.SerializeToString(), rng, {"x": (1, 4, 6, 8)})
    assert graph["y"].shape == (1, 4, 48)
    assert [n.origin.op_type for n in graph if n.kind == "strided_slice"] == ["Gather"]
    assert "onnx" not in kinds(graph)


def external(tmp_path, weights: np.ndarray, location: str = "weights.bin"):
    model = parse("g (float[1,4] x) => (float[1,4] y) { y = MatMul(x, w) }")
    with_weights(model, w=weights)
    external_data_helper.convert_model_to_external_data(model, location=location, size_threshold=0)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


def test_constants_of_the_type_of_an_input_are_constant(rng):
    """As PyTorch's exporter writes a convolution without bias before it optimizes."""
    model = parse(
        """
        g (float[1,3,6,6] x) => (float[1,4,6,6] y) {
          shape = Shape<end=1, start=0>(w)
          zero = Constant<value_int=0>()
          alike = CastLike(zero, x)
          bias = Expand(alike, shape)
          c = Conv<pads=[1,1,1,1]>(x, w, bias)
          d = CastLike(c, bias)
          y = Relu(d)
        }
        """
    )
    with_weights(model, w=rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    graph = compare(model, rng)
    assert kinds(graph) == ["conv2d", "relu"]


def test_lists_that_begin_empty_are_concatenated_without_that(rng):
    """As a loop over regions is written that PyTorch's exporter unrolls."""
    model = parse(
        """
        g (float[1,4,8,8] x) => (float[2,4,4,8] y) {
          zero = Constant<value_ints=[0]>()
          two = Constant<value_ints=[2]>()
          four = Constant<value_ints=[4]>()
          six = Constant<value_ints=[6]>()
          c = Conv<pads=[1,1,1,1]>(x, w)
          none = Slice(c, zero, zero, zero)
          empty = Slice(none, zero, four, two)
          first = Slice(c, zero, four, two)
          second = Slice(c, two, six, two)
          one = Concat<axis=0>(empty, first)
          both = Concat<axis=0>(one, second)
          y = Relu(both)
        }
        """
    )
    with_weights(model, w=rng.standard_normal((4, 4, 3, 3)).astype(np.float32))
    graph = compare(model, rng)
    assert all(0 not in node.shape for node in graph)


def test_weights_outside_are_mapped_into_memory(tmp_path, rng):
    weights = rng.standard_normal((4, 4)).astype(np.float32)
    path = external(tmp_path, weights)
    found = read(path).constants["w"]
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, weights)
    run_both(load_onnx(path), str(path), rng, {})


def test_weights_that_end_too_early(tmp_path, rng):
    path = external(tmp_path, rng.standard_normal((4, 4)).astype(np.float32))
    (tmp_path / "weights.bin").write_bytes(b"\0" * 60)
    with pytest.raises(
        ModelFormatError,
        match=r"weights 'w' take 64 bytes at 0 of 'weights\.bin', which has 60",
    ):
        load_onnx(path)


def test_weights_outside_the_folder(tmp_path, rng):
    (tmp_path / "inner").mkdir()
    path = external(tmp_path / "inner", rng.standard_normal((4, 4)).astype(np.float32))
    model = onnx.load(path, load_external_data=False)
    (entry,) = (e for e in model.graph.initializer[0].external_data if e.key == "location")
    entry.value = "../weights.bin"
    (tmp_path / "weights.bin").write_bytes(bytes(64))
    onnx.save(model, path)
    with pytest.raises(ModelFormatError, match="which is outside the model's folder"):
        load_onnx(path)


@pytest.mark.parametrize("length", [16, 12])
@pytest.mark.parametrize("inside", ["node", "branch"])
def test_numbers_of_constants_inside_are_in_files_too(tmp_path, rng, inside, length):
    """Of a node ``Constant``, and of a branch that has its own."""
    weights = rng.standard_normal(4).astype(np.float32)
    (tmp_path / "w.bin").write_bytes(weights.tobytes()[:length])
    own = numpy_helper.from_array(weights, "w")
    external_data_helper.set_external_data(own, "w.bin")
    own.ClearField("raw_data")
    model = parse("g (float[1,4] x) => (float[1,4] y) { y = Add(x, w) }")
    if inside == "node":
        model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=own))
    else:
        model = parse(
            "g (float[1,4] x, bool b) => (float[1,4] y) { y = If(b) <"
            "then_branch = t () => (float[1,4] p) { p = Add(x, w) },"
            "else_branch = f () => (float[1,4] q) { q = Neg(x) }> }"
        )
        model.graph.node[0].attribute[0].g.initializer.append(own)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    if length < weights.nbytes:
        with pytest.raises(ModelFormatError, match=r"constant 'w'.* take 16 bytes at 0 .* has 12"):
            load_onnx(path)
    else:
        run_both(load_onnx(path), str(path), rng, {})


@pytest.mark.parametrize("linear", [True, False])
def test_sparse_weights(rng, linear):
    model = parse("g (float[1,3] x) => (float[1,2] y) { y = MatMul(x, w) }")
    places = np.array([1, 4]) if linear else np.array([[0, 1], [2, 0]])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([2.0, 3.0], np.float32), "w"),
        numpy_helper.from_array(places.astype(np.int64)),
        [3, 2],
    )
    model.graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(read(model).constants["w"], [[0, 2], [0, 0], [3, 0]])
    compare(model, rng)


TRACE = """File "/home/me/net.py", line 12, in forward
    return self.body(x)
File "/home/me/layers.py", line 34, in forward
    return torch.relu(x)
"""


def test_origins():
    model = parse("g (float[1,4] x) => (float[1,4] z) { y = Relu(x) z = Erf(y) }")
    one, other = model.graph.node
    one.name = "body/relu"
    one.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=TRACE)
    other.doc_string = "/home/me/act.py(56): forward\n/usr/lib/module.py(1194): _slow_forward\n"
    graph = load_onnx(model)
    assert str(graph["y"].origin) == "Relu 'body/relu' (layers.py:34)"
    assert str(graph["z"].origin) == "Erf 'z' (act.py:56)"
