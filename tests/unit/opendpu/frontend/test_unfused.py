# SPDX-License-Identifier: Apache-2.0
"""Operators that onnxruntime's optimizer fuses: the same results in ONNX's own operators."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.foreign import KIND, label_of
from opendpu.ops.session import Session
from opendpu.quantize import quantize

RNG = np.random.default_rng(8)
IMAGE, ROWS = (1, 6, 9, 8), (1, 5, 12)


def values(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    op_type: str, shapes: dict, constants: dict, outputs: int = 1, **attrs
) -> onnx.ModelProto:
    """Return a model of one operator; ``-`` stands for an input that is left out."""
    names = ["" if name.startswith("-") else name for name in (*shapes, *constants)]
    made = [f"y{n}" if n in (0, outputs - 1) else "" for n in range(outputs)]
    node = helper.make_node(op_type, names, made, "fused", domain="com.microsoft", **attrs)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in made if n],
        [numpy_helper.from_array(v, n) for n, v in constants.items() if not n.startswith("-")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check(proto: onnx.ModelProto) -> FloatGraph:
    """Compare with onnxruntime, which computes the fused operator."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    given = {item.name: values(*item.shape) for item in session.get_inputs()}
    wanted = session.run(None, given)
    graph = load_onnx(proto)
    order = graph.attrs.get("onnx_order", {})
    found = Session(graph).run(
        {n: v.transpose(order.get(n, range(v.ndim))).reshape(graph[n].shape) for n, v in
         given.items()}
    )  # fmt: skip
    for item, value in zip(session.get_outputs(), wanted, strict=True):
        value = value.transpose(order.get(item.name, range(value.ndim)))
        np.testing.assert_allclose(
            found[item.name].reshape(value.shape), value, rtol=1e-4, atol=1e-5
        )
    return graph


ACTIVATIONS = [
    {"activation": "Relu"}, {"activation": "Tanh"}, {"activation": "Sigmoid"},
    {"activation": "LeakyRelu", "activation_params": [0.2]},
    {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]},
    {"activation": "Clip", "activation_params": [-0.5, 0.7]},
]  # fmt: skip
WINDOW = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 1]}


@pytest.mark.parametrize("attrs", ACTIVATIONS)
def test_convolutions(attrs):
    constants = {"w": values(4, 6, 3, 3), "b": values(4)}
    graph = check(model("FusedConv", {"x": IMAGE}, constants, **WINDOW, **attrs))
    assert "conv2d" in [node.kind for node in graph]


def test_a_convolution_and_a_sum():
    proto = model("FusedConv", {"x": IMAGE}, {"w": values(4, 6, 3, 3), "b": values(4)}, **WINDOW,
                  activation="Relu")  # fmt: skip
    proto.graph.node[0].input.append("z")
    proto.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (1, 4, 5, 8)))
    assert [n.kind for n in check(proto) if n.kind in ("conv2d", "add", "relu")] == [
        "conv2d", "add", "relu",
    ]  # fmt: skip


@pytest.mark.parametrize("attrs", [{"activation": "Relu"}, {"activation": "LeakyRelu",
                                                            "activation_alpha": 0.3}])  # fmt: skip
def test_dense_layers(attrs):
    constants = {"w": values(7, 12), "b": values(7)}
    check(model("FusedGemm", {"x": (3, 12)}, constants, transB=1, **attrs))


@pytest.mark.parametrize(
    ("one", "other", "attrs"),
    [
        ((1, 3, 5, 12), (1, 3, 7, 12), {"transB": 1, "alpha": 0.125}),
        ((1, 3, 12, 5), (1, 3, 12, 7), {"transA": 1}),
        ((5, 12), (12, 7), {"alpha": 2.0}),
    ],
)
def test_products(one, other, attrs):
    graph = check(model("FusedMatMul", {"a": one, "b": other}, {}, **attrs))
    assert "matmul" in [node.kind for node in graph]


@pytest.mark.parametrize(
    ("kind", "bias", "attrs"),
    [
        ("Gelu", False, {}), ("BiasGelu", True, {}), ("FastGelu", False, {}),
        ("FastGelu", True, {}), ("QuickGelu", False, {}), ("QuickGelu", False, {"alpha": 1.0}),
    ],
)  # fmt: skip
def test_gelu(kind, bias, attrs):
    graph = check(model(kind, {"x": ROWS}, {"b": values(12)} if bias else {}, **attrs))
    assert not [node for node in graph if node.kind == KIND and "Erf" in label_of(node)]


@pytest.mark.parametrize("outputs", [1, 4])
@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_normalization_of_a_sum(kind, outputs):
    constants = {"gamma": values(12), "beta": values(12), "bias": values(12)}
    if kind.startswith("SkipSimplified"):
        del constants["beta"]
    graph = check(model(kind, {"x": ROWS, "s": ROWS}, constants, outputs, epsilon=1e-5))
    assert "add" in [node.kind for node in graph]


@pytest.mark.parametrize("attrs", [{}, {"axis": 2, "epsilon": 0.25}], ids=str)
def test_rms_norm_of_a_newer_set_is_the_one_of_every_set(attrs):
    proto = model("RMSNormalization", {"x": ROWS}, {"gamma": values(12)}, **attrs)
    proto.graph.node[0].domain = ""
    proto.opset_import[0].version = 23
    graph = check(proto)
    assert [label_of(node) for node in graph if node.kind == KIND] == [
        "SimplifiedLayerNormalization"
    ]


def test_what_has_no_other_words_stays_one_operator():
    proto = model("SkipLayerNormalization", {"x": ROWS, "s": ROWS},
                  {"gamma": values(12), "beta": values(12)}, 2)  # fmt: skip
    proto.graph.node[0].output[1] = "y1"
    graph = load_onnx(proto)
    assert "SkipLayerNormalization" in " ".join(label_of(n) for n in graph if n.kind == KIND)


def test_a_saved_model_is_one_part_of_the_dpu(tmp_path):
    """What onnxruntime writes at its extended level, whose convolutions are fused."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 6, 9, 8] x) => (float[1, 6, 9, 8] y) {
            c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
            r = Relu(c)
            d = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (r, v)
            s = Add(d, r)
            t = Relu(s)
            y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (t, w)
        }"""
    proto = onnx.parser.parse_model(text)
    for name in "wv":
        proto.graph.initializer.append(numpy_helper.from_array(values(6, 6, 3, 3), name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(proto.SerializeToString(), options)
    saved = onnx.load(tmp_path / "saved.onnx")
    assert "FusedConv" in [node.op_type for node in saved.graph.node]
    graph = load_onnx(saved)
    compiled = compile_graph(quantize(graph, {"x": values(4, *IMAGE[1:])}), target="B512")
    assert [part.device for part in compiled.report.subgraphs] == ["USER", "DPU"]
