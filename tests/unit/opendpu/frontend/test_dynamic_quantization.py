# SPDX-License-Identifier: Apache-2.0
"""What onnxruntime's ``quantize_dynamic`` made of networks are these networks again."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic
from test_feature_norms import parsed

from opendpu.frontend import load_onnx
from opendpu.ir import NOTES
from opendpu.ops.session import Session
from opendpu.quantize import quantize_with_report

RNG = np.random.default_rng(11)
SIZE = (1, 6, 5, 7)
MOVING = ("data", "const", "reshape", "transpose")

NETWORK = """
    a = Conv <pads = [1, 1, 1, 1]> (x, kernel, bias)
    b = Relu(a)
    c = Transpose <perm = [0, 2, 3, 1]> (b)
    d = MatMul(c, matrix)
    y = Add(d, shift)"""
RECURRENT = """
    a = MatMul(x, square)
    b, c = LSTM <hidden_size = 3, direction = "bidirectional"> (a, gates, states, biases)
    y = Relu(b)"""


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def network() -> onnx.ModelProto:
    arrays = {
        "kernel": floats(4, 6, 3, 3) * np.float32([1, 0.5, 2, 0.1])[:, None, None, None],
        "bias": floats(4), "matrix": floats(4, 9), "shift": floats(9),
    }  # fmt: skip
    return parsed(NETWORK, SIZE, 17, **arrays)


def recurrent() -> onnx.ModelProto:
    arrays = {
        "square": floats(5, 5), "gates": floats(2, 12, 5), "states": floats(2, 12, 3),
        "biases": floats(2, 24),
    }  # fmt: skip
    return parsed(RECURRENT, (6, 1, 5), 17, **arrays)


def dynamic(proto: onnx.ModelProto, folder, kind: QuantType, *, by_channel: bool):
    """Return the model quantized by onnxruntime, and its own result of an input."""
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    before, after = folder / "float.onnx", folder / "dynamic.onnx"
    onnx.save(proto, before)
    quantize_dynamic(before, after, per_channel=by_channel, weight_type=kind)
    return onnx.load(after)


def results(proto: onnx.ModelProto):
    """Return the graph of a model, what it computes, and what onnxruntime does."""
    graph = load_onnx(proto)
    (item,) = proto.graph.input
    x = floats(*(d.dim_value for d in item.type.tensor_type.shape.dim))
    options = onnxruntime.SessionOptions()
    # Without this, sums of two products saturate on processors that have AVX2 and no VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    wanted = session.run(None, {"x": x})[0]
    order = graph.attrs.get("onnx_order", {})
    axes = order.get("x", range(x.ndim))
    found = Session(graph).run({"x": np.ascontiguousarray(x.transpose(axes))})[graph.outputs[0]]
    back = np.argsort(order["y"]) if "y" in order else range(found.ndim)
    return graph, found.transpose(back).reshape(wanted.shape), wanted


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
@pytest.mark.parametrize("by_channel", [False, True])
def test_integer_products_and_convolutions_are_those_of_real_numbers(tmp_path, kind, by_channel):
    proto = dynamic(network(), tmp_path, kind, by_channel=by_channel)
    assert {"ConvInteger", "MatMulInteger"} <= {node.op_type for node in proto.graph.node}
    graph, found, wanted = results(proto)
    kinds = {node.kind for node in graph} - {*MOVING}
    assert "onnx" not in kinds
    assert not kinds & {"round", "cast", "div", "reduction_max"}
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()
    assert "2 operators" in graph.attrs[NOTES][0]


@pytest.mark.parametrize("by_channel", [False, True])
def test_recurrent_layers_get_real_weights(tmp_path, by_channel):
    proto = dynamic(recurrent(), tmp_path, QuantType.QInt8, by_channel=by_channel)
    assert "DynamicQuantizeLSTM" in {node.op_type for node in proto.graph.node}
    graph, found, wanted = results(proto)
    (layer,) = [node for node in graph if node.kind == "onnx"]
    assert "LSTM" in layer.origin.op_type
    assert np.abs(found - wanted).max() < 0.03


def optimized(proto: onnx.ModelProto, folder) -> onnx.ModelProto:
    """Return the model as onnxruntime saves it after fusing operators."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return onnx.load(options.optimized_model_filepath)


@pytest.mark.parametrize("by_channel", [False, True])
def test_what_onnxruntime_fused_of_it(tmp_path, by_channel):
    proto = dynamic(network(), tmp_path, QuantType.QInt8, by_channel=by_channel)
    fused = optimized(proto, tmp_path)
    assert {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"} & {n.op_type for n in fused.graph.node}
    graph, found, wanted = results(fused)
    assert "onnx" not in {node.kind for node in graph}
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


FUSED_PRODUCT = """
    q, s, z = DynamicQuantizeLinear(x)
    y = com.microsoft.MatMulIntegerToFloat(q, matrix, s, scales, z, zeros, shift)"""


def test_a_product_with_its_scales_and_bias_in_one():
    arrays = {
        "matrix": RNG.integers(-127, 127, (7, 4)).astype(np.int8), "zeros": np.int8([1, 2, 3, 4]),
        "scales": np.float32([0.01, 0.02, 0.03, 0.04]), "shift": floats(4),
    }  # fmt: skip
    proto = without_size(parsed(FUSED_PRODUCT, SIZE, 17, **arrays))
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    graph, found, wanted = results(proto)
    assert "onnx" not in {node.kind for node in graph}
    assert np.abs(found - wanted).max() < 0.03 * np.abs(wanted).max()


def test_the_report_says_so(tmp_path):
    proto = dynamic(network(), tmp_path, QuantType.QUInt8, by_channel=False)
    report = quantize_with_report(load_onnx(proto), {"x": floats(2, *SIZE[1:])}).report
    assert any("quantize while they run" in note for note in report.notes)


TWO_MAPS = """
    q, s, z = DynamicQuantizeLinear(x)
    t = Transpose <perm = [0, 1, 3, 2]> (x)
    r, u, v = DynamicQuantizeLinear(t)
    i = MatMulInteger(q, r, z, v)
    f = Cast <to = 1> (i)
    w = Mul(s, u)
    y = Mul(f, w)"""


def test_a_product_of_two_maps():
    graph, found, wanted = results(without_size(parsed(TWO_MAPS, SIZE, 17)))
    assert "matmul" in {node.kind for node in graph}
    assert np.abs(found - wanted).max() < 0.05


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("y = Mul(f, w)", "g = Mul(f, w) h = Cast <to = 1> (i) y = Add(g, h)"), "it is read"),
        (("w = Mul(s, u)", "w = Mul(s, s)"), "the scale is another one"),
        (("i = MatMulInteger(q, r, z, v)", "i = MatMulInteger(q, r, v, v)"), "another zero point"),
    ],
)  # fmt: skip
def test_what_stays_as_it_is(change, why):
    graph, found, wanted = results(without_size(parsed(TWO_MAPS.replace(*change), SIZE, 17)))
    assert NOTES not in graph.attrs, why
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=why)


def without_size(proto: onnx.ModelProto) -> onnx.ModelProto:
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    return proto
