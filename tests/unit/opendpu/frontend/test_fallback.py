# SPDX-License-Identifier: Apache-2.0
"""Operators that stay ONNX: what becomes one call, in which order of axes, and its results."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_text import compare, parse

from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import fallback, load_onnx
from opendpu.frontend.opsets import newest_opset
from opendpu.ops.foreign import label_of
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu_arch.errors import ModelFormatError, TensorError, UnsupportedError
from opendpu_arch.target import Target


def kinds(graph) -> list[str]:
    return [n.kind for n in graph if n.kind not in ("data", "const")]


def calls(graph) -> list[str]:
    """Return the ONNX operators of every call."""
    return [label_of(n) for n in graph if n.kind == "onnx" and n.attrs["output"] == 0]


def with_weights(model: onnx.ModelProto, **weights: np.ndarray) -> onnx.ModelProto:
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


CONV = "c = Conv<pads=[1,1,1,1]>(x, w)"
ELEMENTWISE = [
    "y = Erf(c)", "y = Abs(c)", "y = Floor(c)", "y = Softplus(c)", "a = Abs(c) y = Sqrt(a)",
    "y = Pow(c, two)", "b = Greater(c, row) y = Where(b, c, row)", "y = Mod<fmod=1>(c, row)",
    "b = Less(row, c) n = Not(b) y = Cast<to=1>(n)", "y = Max(c, row)", "y = PRelu(c, row)",
    "y = ThresholdedRelu<alpha=0.5>(c)", "y = Sign(c)", "m = Mean(c, row, c) y = Round(m)",
]  # fmt: skip


@pytest.mark.parametrize("inner", ELEMENTWISE)
def test_elementwise_operators_take_the_order_of_the_feature_map(rng, inner):
    model = parse(f"g (float[1,4,5,6] x) => (float[1,3,5,6] z) {{ {CONV} {inner} z = Conv(y, v) }}")
    with_weights(
        model,
        w=rng.standard_normal((4, 4, 3, 3)).astype(np.float32),
        v=rng.standard_normal((3, 4, 1, 1)).astype(np.float32),
        row=rng.standard_normal((4, 1, 6)).astype(np.float32),
        two=np.array(2.5, np.float32),
    )
    if "Pow" in inner:
        model.graph.node[1].input[0] = "positive"
        model.graph.node.insert(1, onnx.helper.make_node("Abs", ["c"], ["positive"]))
    found = compare(model, rng, tolerance=1e-4)
    assert "transpose" not in kinds(found)
    assert {"conv2d"} < set(kinds(found))


def test_other_operators_get_the_axes_of_onnx(rng):
    model = parse(f"g (float[1,4,5,6] x) => (float[1,4,5,6] z) {{ {CONV} z = CumSum(c, axis) }}")
    weights = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)
    graph = compare(with_weights(model, w=weights, axis=np.array(1)), rng, tolerance=1e-4)
    assert kinds(graph) == ["conv2d", "transpose", "onnx"]
    assert graph["z"].reason == "XIR has no counterpart of ONNX's operator CumSum"


@pytest.mark.parametrize("function", ["Abs", "Erf", "Floor", "Sin", "Softplus", "Softsign"])
def test_a_function_that_stays_onnx_is_a_table_where_there_are_tables(rng, function):
    model = parse(
        f"g (float[1,4,5,6] x) => (float[1,3,5,6] z) {{ {CONV} y = {function}(c) z = Conv(y, v) }}"
    )
    with_weights(
        model,
        w=rng.standard_normal((4, 4, 3, 3)).astype(np.float32),
        v=rng.standard_normal((3, 4, 1, 1)).astype(np.float32),
    )
    samples = {"x": rng.standard_normal((2, 5, 6, 4)).astype(np.float32)}
    for target, on_cpu in (("B512+table", False), ("B512", True)):
        chosen = Target.from_name(target)
        quantized = quantize(load_onnx(model), samples, target=chosen)
        report = compile_with_report(quantized, chosen).report
        assert bool(report.on_cpu) == on_cpu, str(report)
        assert on_cpu == (f"the DPU has no {function} (" in str(report))


def test_all_outputs_of_a_node_are_one_call(rng):
    model = parse(
        "g (float[6,1,4] x) => (float[6,1,1,3] y, float[1,1,3] h) "
        "{ y, h, c = LSTM<hidden_size=3>(x, w, r) d = Relu(c) }"
    )
    weights = {"w": (1, 12, 4), "r": (1, 12, 3)}
    drawn = {n: rng.standard_normal(s).astype(np.float32) for n, s in weights.items()}
    with_weights(model, **drawn)
    graph = compare(model, rng)
    nodes = [n for n in graph if n.kind == "onnx"]
    assert [n.name for n in nodes] == ["y", "h"]
    assert len({n.attrs["call"] for n in nodes}) == 1
    assert [n.attrs["output"] for n in nodes] == [0, 1]


IF = """
g (float[1,4] x, bool cond) => (float[1,4] y) {
  a = Relu(x)
  b = If(cond) <
    then_branch = t () => (float[1,4] p) { p = Add(a, one) },
    else_branch = e () => (float[1,4] q) { s = Sigmoid(x) q = Mul(s, a) }
  >
  y = Exp(b)
}
"""


@pytest.mark.parametrize("cond", [False, True])
def test_branches_read_tensors_around_them(rng, cond):
    model = with_weights(parse(IF), one=np.ones((1, 4), np.float32))
    graph = compare(model, rng, feeds={"cond": np.array(cond)})
    assert kinds(graph) == ["relu", "onnx", "exp"]
    assert graph["b"].inputs["input"] == ["cond", "a", "x"]


@pytest.mark.parametrize("cond", [False, True])
def test_a_branch_that_is_decided_is_converted(rng, cond):
    model = parse(IF)
    del model.graph.input[1]
    with_weights(model, one=np.ones((1, 4), np.float32), cond=np.array(cond))
    graph = compare(model, rng)
    assert kinds(graph) == (["relu", "scale", "exp"] if cond else ["relu", "sigmoid", "mul", "exp"])


UNKNOWN_SIZES = """
g (float[1,4] x, float[1,4,2] z, bool cond) => (float[a,b] y) {
  y = If(cond) <
    then_branch = t () => (float[a,b] p) { p = Concat<axis=1>(x, x) },
    else_branch = e () => (float[a,b] q) { {other} }
  >
}
"""


@pytest.mark.parametrize(
    ("other", "shape"),
    [
        ("q = Concat<axis=1>(x, x)", (1, 8)),
        ("q = Compress(z, cond)", (1, 8)),  # as many as are true
        ("q = Concat<axis=0>(x, x)", (1, 1)),
    ],
)
def test_results_of_branches_have_the_shapes_that_these_tell(rng, other, shape):
    graph = load_onnx(parse(UNKNOWN_SIZES.replace("{other}", other)))
    assert graph["y"].shape == shape


def test_loops(rng):
    model = parse(
        """
        g (float[1,4] x, int64 n) => (float[1,4] y) {
          y = Loop(n, , x) <
            body = b (int64 i, bool go, float[1,4] state) => (bool on, float[1,4] next) {
              on = Identity(go) h = Mul(state, half) next = Add(h, x) }
          >
        }
        """
    )
    with_weights(model, half=np.array(0.5, np.float32))
    graph = compare(model, rng, feeds={"n": np.array(3)})
    assert kinds(graph) == ["onnx"]


def test_values_that_are_no_tensors_stay_inside_a_call(rng):
    """What lies between two nodes of the sequence's call belongs to it, what does not is free."""
    model = parse(
        """
        g (float[2,3,8] x, int64 place) => (float[2,3,4] y, float[2,3,4] z) {
          s = SplitToSequence<axis=2>(x, four)
          a = SequenceAt(s, place)
          r = Relu(a)
          t = SequenceInsert(s, r, place)
          y = SequenceAt(t, place)
          z = Tanh(a)
        }
        """
    )
    with_weights(model, four=np.array(4))
    graph = compare(model, rng, feeds={"place": np.array(1)})
    assert kinds(graph) == ["strided_slice", "strided_slice", "onnx", "onnx", "tanh"]
    assert len(calls(graph)) == 1
    assert "Relu" in calls(graph)[0]


def test_what_follows_a_shape_known_at_run_time_is_one_call(rng):
    model = parse(
        """
        g (float[1,4,6] x) => (int64[3,N] places, float[N] doubled, float[1,4,6] e) {
          a = Relu(x)
          places = NonZero(a)
          t = Transpose(places)
          values = GatherND(a, t)
          doubled = Add(values, values)
          e = Exp(a)
        }
        """
    )
    graph = compare(model, rng)
    assert kinds(graph).count("onnx") == 2
    assert kinds(graph)[0] == "relu"
    assert "exp" in kinds(graph)
    assert graph["places"].attrs["dynamic_axes"] == [1]
    assert graph["places"].shape == (3, 1)
    assert graph["doubled"].attrs["dynamic_axes"] == [0]


def test_a_call_holds_what_lies_between_its_nodes(rng):
    """``top`` has a known shape, but what becomes of it goes back to the call that made it."""
    model = parse(
        """
        g (float[1,6] x) => (float[N] y, float[1,6] z) {
          places = NonZero(x)
          t = Transpose(places)
          values = GatherND(x, t)
          top = ReduceMax<keepdims=0>(values)
          sum = Add(top, x)
          mean = ReduceMean<keepdims=0>(sum)
          y = Mul(values, mean)
          z = Exp(sum)
        }
        """
    )
    graph = compare(model, rng)
    assert len(calls(graph)) == 1
    assert kinds(graph)[-1] == "exp"


def test_large_constants_are_ops_of_the_graph(rng, monkeypatch):
    monkeypatch.setattr(fallback, "LARGEST_INSIDE", 1000)
    model = parse(
        "g (int64[1,4] x) => (float[1,4,30] y, float[1,4,30] z) "
        "{ y = Gather(table, x) s = Gather(table, x) z = Mul(s, small) }"
    )
    table = rng.standard_normal((20, 30)).astype(np.float32)
    graph = compare(with_weights(model, table=table, small=np.array(2.0, np.float32)), rng)
    one, other = (n for n in graph if n.kind == "onnx")
    assert one.inputs["input"] == other.inputs["input"] == ["table", "x"]
    assert graph["table"].kind == "const"
    assert len(one.attrs["model"]) < 1000


def test_detections(rng):
    model = parse(
        """
        g (float[1,20,4] boxes, float[1,3,20] scores) => (int64[N,3] kept) {
          s = Sigmoid(scores)
          kept = NonMaxSuppression(boxes, s, most, overlap, least)
        }
        """,
        opset=11,
    )
    with_weights(
        model, most=np.array([5]), overlap=np.array([0.5], "f"), least=np.array([0.4], "f")
    )
    corners = np.sort(rng.random((1, 20, 2, 2)).astype(np.float32), axis=2).reshape(1, 20, 4)
    graph = compare(model, rng, feeds={"boxes": corners})
    assert kinds(graph) == ["sigmoid", "onnx"]


def test_operators_of_onnxruntime(rng):
    model = parse(
        "g (float[1,4,5,6] x) => (float[1,4,5,6] y) "
        "{ r = Relu(x) q = com.microsoft.Trilu(r) y = Exp(q) }",
        domains={"com.microsoft": 1},
    )
    assert kinds(compare(model, rng)) == ["relu", "onnx", "exp"]


def extensions() -> str:
    """Return the library with operators of the domain ai.onnx.contrib."""
    name = "onnxruntime_extensions"
    library = pytest.importorskip(name, reason=f"the package {name} is not installed")
    return str(library.get_library_path())


def test_operators_of_a_library(rng):
    model = parse(
        "g (float[2,2] x) => (float[2,2] y) <float[2,2] i> "
        "{ r = Exp(x) i = ai.onnx.contrib.Inverse(r) y = Relu(i) }",
        domains={"ai.onnx.contrib": 1},
    )
    with pytest.raises(UnsupportedError, match=r"node 'i' \(ai\.onnx\.contrib\.Inverse\): XIR has"):
        load_onnx(model)
    graph = load_onnx(model, libraries=[extensions()])
    assert kinds(graph) == ["exp", "onnx", "relu"]
    x = rng.standard_normal((2, 2)).astype(np.float32)
    found = Session(graph).run({"x": x})["y"]
    wanted = np.maximum(np.linalg.inv(np.exp(x).astype(np.float64)), 0)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_a_library_for_nothing_is_told(tmp_path):
    library = tmp_path / "no library.so"
    library.touch()
    with pytest.warns(UserWarning, match=r"not used: .*no library\.so \(--onnx-library\)"):
        load_onnx(parse("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }"), libraries=[library])


def test_a_library_that_is_none(tmp_path):
    model = parse(
        "g (float[1,4] x) => (float[1,4] y) { y = com.example.Fancy(x) }",
        domains={"com.example": 1},
    )
    library = tmp_path / "none.so"
    with pytest.raises(ModelFormatError, match=r"none\.so, .*: there is no such file"):
        load_onnx(model, libraries=[library])
    library.write_bytes(b"no library")
    with pytest.raises(UnsupportedError, match=r"none\.so"):
        load_onnx(model, libraries=[library])


@pytest.mark.parametrize("opset", [17, 20])  # the second one as onnxruntime takes it
def test_functions_of_the_model_are_inlined(rng, opset):
    model = parse(
        f"""
        <ir_version: 10, opset_import: ["": {opset}, "local": 1]>
        g (float[1,4] x) => (float[1,4] y) {{ y = local.twice(x) }}
        <domain: "local", opset_import: ["": 17]>
        twice (a) => (b) {{ r = Relu(a) b = Add(r, r) }}
        """
    )
    assert kinds(compare(model, rng)) == ["relu", "add"]


@pytest.mark.parametrize("opset", [*range(7, newest_opset() + 1)])
def test_every_operator_set(rng, opset):
    reduce = "m = ReduceMean(a, axes)" if opset >= 18 else "m = ReduceMean<axes=[1]>(a)"
    model = parse(
        "g (float[1,4,5,6] x) => (float[1,4,5,6] y) "
        f"{{ a = Abs(x) s = Sqrt(a) {reduce} d = Div(s, m) e = Ceil(d) y = Relu(e) }}",
        opset=opset,
    )
    with_weights(model, axes=np.array([1]))
    graph = compare(model, rng)
    assert "onnx" in kinds(graph)


def test_half_precision_stays_onnx(rng):
    model = parse(
        "g (float[1,4] x) => (float[1,4] y) "
        "{ h = Cast<to=10>(x) r = Relu(h) e = Exp(r) y = Cast<to=1>(e) }"
    )
    graph = compare(model, rng, tolerance=1e-2)
    assert kinds(graph) == ["cast", "onnx", "onnx", "cast"]
    assert graph["r"].type.dtype == np.float16
    assert graph["r"].reason == "tensor 'h' has type float16, but XIR's op is of float32"


def test_integers_of_a_quantized_tensor(rng):
    """A tensor that is real numbers here is made anew for who wants ONNX's integers."""
    model = parse(
        "g (float[1,4] x) => (int8[1,4] q, float[1,4] y, int32[1,4] i) "
        "{ q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) i = Cast<to=6>(q) }"
    )
    with_weights(model, s=np.array(0.25, np.float32), z=np.array(0, np.int8))
    graph = compare(model, rng)
    assert "fix" in kinds(graph)
    assert sorted(calls(graph)) == ["QuantizeLinear", "QuantizeLinear + Cast"]


def test_a_block_of_convnext_needs_no_transposes(rng):
    """Normalization over channels that are last, and GELU in parts, between transposes."""
    model = parse(
        """
        g (float[1,8,6,5] x) => (float[1,8,6,5] y) {
          c = Conv<pads=[3,3,3,3], group=8>(x, w)
          t = Transpose<perm=[0,2,3,1]>(c)
          n = LayerNormalization<axis=-1>(t, gain, shift)
          m = MatMul(n, up)
          b = Add(m, bias)
          d = Div(b, root)
          e = Erf(d)
          o = Add(e, one)
          p = Mul(b, o)
          h = Mul(p, half)
          k = MatMul(h, down)
          s = Transpose<perm=[0,3,1,2]>(k)
          y = Add(x, s)
        }
        """
    )
    shapes = {
        "w": (8, 1, 7, 7), "gain": (8,), "shift": (8,), "up": (8, 32), "bias": (32,),
        "down": (32, 8),
    }  # fmt: skip
    drawn = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
    numbers = {"root": 2**0.5, "one": 1.0, "half": 0.5}
    drawn |= {name: np.array(value, np.float32) for name, value in numbers.items()}
    graph = compare(with_weights(model, **drawn), rng, tolerance=1e-3)
    assert [k for k in kinds(graph) if k != "reshape"] == [
        "depthwise-conv2d", "onnx", "conv2d", "gelu", "conv2d", "add"
    ]  # fmt: skip


def test_inputs_that_an_operator_cannot_compute_with_end_in_one_error(rng):
    graph = load_onnx(parse("g (float[4] x, int64[2] i) => (float[2] y) { y = Gather(x, i) }"))
    given = {"x": rng.standard_normal(4).astype(np.float32), "i": np.array([0, 9])}
    with pytest.raises(TensorError, match=r"graph 'g' with these inputs: .*idx=9"):
        Session(graph).run(given)


@pytest.mark.parametrize("condition", [{}, {"cond": np.array(True)}])
def test_branches_that_are_missing_are_a_fault(condition):
    model = with_weights(parse(IF.replace("bool cond", "bool other")), **condition)
    if not condition:
        model.graph.input[1].name = "cond"
    del model.graph.node[1].attribute[0]
    with pytest.raises(ModelFormatError, match="lacks one of then_branch and else_branch"):
        load_onnx(model)


def test_inputs_that_nothing_reads_can_be_kept(rng):
    graph = load_onnx(
        parse("g (float[1,2] x) => (int64[2] y) { y = ArgMax<axis=0,keepdims=0>(x) }")
    )
    given = {"x": rng.standard_normal((1, 2)).astype(np.float32)}
    found = Session(graph, keep=["x", *graph.outputs]).run(given)
    np.testing.assert_array_equal(found["x"], given["x"])
    np.testing.assert_array_equal(found["y"], [0, 0])


def test_a_constant_of_more_axes_than_the_operator_has():
    """A damaged Clip, whose bound is a whole feature map."""
    model = with_weights(
        parse("g (float[1,3] x) => (float[1,3] y) { y = Clip(x, w) }"),
        w=np.zeros((4, 3, 3, 3), np.float32),
    )
    with pytest.raises(UnsupportedError, match="constant 'w' has 4 axes, but must have 2 at most"):
        load_onnx(model)
