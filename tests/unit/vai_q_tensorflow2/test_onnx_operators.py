# SPDX-License-Identifier: Apache-2.0
"""Operators that stay ONNX: TensorFlow computes of a batch what onnxruntime does of each sample."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")

from opendpu.frontend import load_onnx  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402
from vai_q_tensorflow2.onnx_operators import _HANDLERS  # noqa: E402
from vai_q_tensorflow2.translation import translate  # noqa: E402

SHAPE = (1, 6, 4)
BATCH = 3
UNIT = {"Acos": -0.1, "Acosh": 1.0, "Asin": -0.1, "Atanh": -0.1}
"""Domains of functions: where their arguments begin; elsewhere 0.1 to 1.1."""
INTS = TensorProto.INT64


def operator(kind, *inputs, outputs=("y",), **attrs):
    return helper.make_node(kind, ["x", *inputs], list(outputs), **attrs)


UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh",
    "Elu", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Round", "Selu",
    "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "LeakyRelu",
    "Gelu",
)  # fmt: skip
PLAIN = {kind: [operator(kind)] for kind in UNARY} | {
    "tanh Gelu": [operator("Gelu", approximate="tanh")],
    **{f"Reduce{n}": [operator(f"Reduce{n}", "axes", keepdims=1)]
       for n in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")},
    "ReduceSum, dropped": [operator("ReduceSum", "axes", keepdims=0)],
    **{n: [operator(n, "half")] for n in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")},
    "Sum": [operator("Sum", "x", "half")],
    **{n: [operator(n, "half", outputs=["b"]), helper.make_node("Where", ["b", "x", "half"], ["y"])]
       for n in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "Not, And, Or": [
        operator("Greater", "half", outputs=["b"]), helper.make_node("Not", ["b"], ["c"]),
        helper.make_node("Or", ["b", "c"], ["d"]), helper.make_node("And", ["d", "c"], ["e"]),
        helper.make_node("Cast", ["e"], ["y"], to=TensorProto.FLOAT),
    ],
    "IsNaN, IsInf": [
        operator("IsNaN", outputs=["b"]), operator("IsInf", outputs=["c"]),
        helper.make_node("Or", ["b", "c"], ["d"]),
        helper.make_node("Where", ["d", "half", "x"], ["y"]),
    ],
    "ArgMax": [operator("ArgMax", outputs=["i"], axis=2),
               helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)],
    "ArgMin, dropped": [operator("ArgMin", outputs=["i"], axis=2, keepdims=0),
                        helper.make_node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)],
    "Clip": [operator("Clip", "half")],
    "Clip above": [operator("Clip", "", "half")],
    "Expand": [operator("Unsqueeze", "one", outputs=["u"]),
               helper.make_node("Expand", ["u", "wide"], ["y"])],
    "Gather": [operator("Gather", "places", axis=1)],
    "LayerNormalization": [operator("LayerNormalization", "gamma", "beta", axis=-1)],
    "MatMul": [operator("MatMul", "matrix")],
    "Gemm": [operator("Flatten", outputs=["f"]),
             helper.make_node("Gemm", ["f", "tall", "bias"], ["y"], transB=1, alpha=0.5)],
    "Einsum": [operator("Einsum", "matrix", equation="bij,jk->bki")],
    "Softmax": [operator("Softmax", axis=1)],
    "LogSoftmax": [operator("LogSoftmax", axis=2)],
    "Concat": [operator("Concat", "x", axis=1)],
    "Slice": [operator("Slice", "starts", "ends", "axes", "steps")],
    "Slice from behind": [operator("Slice", "minus_one", "far", "axes", "minus_one")],
    "Squeeze": [operator("Unsqueeze", "one", outputs=["u"]),
                helper.make_node("Squeeze", ["u", "one"], ["y"])],
    "Tile": [operator("Tile", "twice")],
    "Transpose": [operator("Transpose", perm=[0, 2, 1])],
    "Reshape": [operator("Reshape", "flat")],
}  # fmt: skip


def model(nodes):
    rng = np.random.default_rng(5)
    known = {
        "half": np.float32(0.5), "axes": [1], "one": [1], "wide": [1, 3, 6, 4], "places": [0, 3, 3],
        "gamma": rng.random(4, np.float32), "beta": rng.random(4, np.float32),
        "matrix": rng.random((4, 5), np.float32), "tall": rng.random((5, 24), np.float32),
        "bias": rng.random(5, np.float32), "starts": [1], "ends": [6], "steps": [2],
        "minus_one": [-1], "far": [-100], "twice": [1, 2, 1], "flat": [1, 24],
    }  # fmt: skip
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v, None if isinstance(v, np.floating | np.ndarray)
                                            else np.int64), k)
         for k, v in known.items() if k in used],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def translated(made, tmp_path, x):
    onnx.save(made, tmp_path / "net.onnx")
    graph = load_onnx(tmp_path / "net.onnx")
    known = {n.name: tf.constant(n.value) for n in graph if n.value is not None}
    values = translate(graph, {"x": tf.constant(x)}, constant=lambda node: known[node.name])
    found = values[graph.outputs[0]].numpy()
    order = graph.attrs.get("onnx_order", {}).get(graph.outputs[0])
    return found if order is None else found.transpose(np.argsort(order))


@pytest.mark.parametrize("case", PLAIN)
def test_results_are_those_of_onnxruntime(case, tmp_path):
    rng = np.random.default_rng(3)
    x = (rng.random((BATCH, *SHAPE[1:]), np.float32) + UNIT.get(case, 0.1)).astype(np.float32)
    x[0, 0, :] = 0.5  # ties and borders
    if case == "Acosh":
        x += 0.5
    made = model(PLAIN[case])
    session = onnxruntime.InferenceSession(made.SerializeToString())
    expected = np.concatenate([session.run(None, {"x": one[None]})[0] for one in x])
    found = translated(made, tmp_path, x)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_all_operators_are_tried():
    tried = {node.op_type for nodes in PLAIN.values() for node in nodes}
    assert set(_HANDLERS) <= tried


def test_others_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="Mod of ONNX, has no form in TensorFlow here"):
        translated(model([operator("Mod", "half", fmod=1)]), tmp_path, np.ones(SHAPE, np.float32))
