# SPDX-License-Identifier: Apache-2.0
"""Quantized ONNX models: every form gives the same graph, and it computes what onnxruntime does."""

import numpy as np
import onnx
import onnxruntime
import pytest
import qdq
from onnx import helper
from oracle import evaluate_quantized

from opendpu import api
from opendpu.frontend import load_onnx
from opendpu.ir import Graph
from opendpu.quantize import complete, is_quantized, quantize
from opendpu.runtime import GraphRunner
from opendpu_arch.errors import TensorError, UnsupportedError

SHAPE = (1, 4, 6, 5)


def image(seed: int = 0, point: int = 4) -> np.ndarray:
    """Return an input that is on the grid."""
    integers = np.random.default_rng(seed).integers(-128, 128, SHAPE)
    return (integers * 2.0**-point).astype(np.float32)


def by_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Run the model op by op in float."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (result,) = session.run(None, {"x": x})
    return result


def by_reference(graph: Graph, x: np.ndarray) -> np.ndarray:
    """Return the integers of the only output for an NCHW input."""
    (result,) = evaluate_quantized(graph, {"x": x.transpose(0, 2, 3, 1)}).values()
    return result


def description(graph: Graph) -> list[tuple]:
    """Return kinds, inputs by position in order, attributes, types but for rounding, and values."""
    order = {node.name: number for number, node in enumerate(graph)}
    return [
        (
            node.kind,
            [order[source] for source in node.sources()],
            {k: v for k, v in node.attrs.items() if k != "shape"},
            node.shape,
            (node.fix_point, node.quantization.limits) if node.kind == "fix" else None,
            None if node.value is None else node.value.tolist(),
        )
        for node in graph
    ]


@pytest.mark.parametrize("form", qdq.FORMS)
def test_every_form_gives_the_same_graph(form):
    wanted = load_onnx(qdq.network("int8"))
    assert is_quantized(wanted)
    assert description(load_onnx(qdq.network(form))) == description(wanted)


@pytest.mark.parametrize("seed", range(5))
def test_network_computes_what_onnxruntime_does(seed):
    model = qdq.network(seed=seed)
    graph = load_onnx(model)
    kinds = [node.kind for node in graph]
    assert not {"scale", "transpose"} & set(kinds)
    found = by_reference(graph, image(seed)) * 2.0**-1
    wanted = by_onnxruntime(model, image(seed))
    # Halves are rounded up instead of to even, so a few values differ by one unit.
    assert np.abs(found - wanted).max() <= 2 * 0.5
    assert len(np.unique(wanted)) > 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 2, 0, 1]])
def test_one_layer_is_exact_but_for_ties(seed, pads):
    net = qdq.QdqModel(seed=seed)
    conv = net.conv(net.fix("x", 4), (6, 4, 3, 2), pads=pads, strides=[1, 2])
    model = net.model(net.fix(conv, 3))
    exact = by_onnxruntime(net_without_last_fix(model), image(seed)) * 8
    found = by_reference(load_onnx(model), image(seed))
    wanted = np.clip(np.floor(exact.astype(np.float64) + 0.5), -128, 127)
    np.testing.assert_array_equal(found, wanted.transpose(0, 2, 3, 1))


def net_without_last_fix(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model whose output is what the last pair quantizes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = copy.graph.node[-2]
    copy.graph.output[0].name = quantizer.input[0]
    return copy


def test_biases_of_32_bits_become_8_bits():
    net = qdq.QdqModel()
    x = net.fix("x", 4)
    weights = net.fix(net.constant(net.draw((6, 4, 1, 1), 7)), 7)
    stored = np.array([100_000, -3, 2**11, 5000, 0, 77], np.int32)
    scale, zero = net.constant(np.float32(2.0**-11)), net.constant(np.int32(0))
    bias = net.node("DequantizeLinear", net.constant(stored), scale, zero)
    model = net.model(net.fix(net.node("Conv", x, weights, bias), 1))
    graph = complete(load_onnx(model))
    (conv,) = (node for node in graph if node.kind == "conv2d")
    fix = graph[conv.inputs["bias"][0]]
    assert (fix.kind, fix.fix_point) == ("fix", 1)
    found = by_reference(graph, image())
    rounded = np.clip(np.floor(stored * 2.0**-11 * 2 + 0.5), -128, 127) / 2
    total = np.einsum("nchw,oc->nhwo", image().astype(np.float64), values(net, 2)[..., 0, 0])
    wanted = np.clip(np.floor((total + rounded) * 2 + 0.5), -128, 127)
    np.testing.assert_array_equal(found, wanted)


def values(net: "qdq.QdqModel", number: int) -> np.ndarray:
    return list(net.weights.values())[number]


@pytest.mark.parametrize("stored_as", [np.int8, np.uint8])
def test_stored_weights_and_transposed_ones_keep_their_grid(stored_as):
    net = qdq.QdqModel()
    x = net.fix("x", 4)
    integers = net.random.integers(-128, 128, (3, 5))
    offset = 128 if stored_as is np.uint8 else 0
    scale, zero = net.constant(np.float32(2.0**-6)), net.constant(np.asarray(stored_as(offset)))
    stored = net.constant((integers + offset).astype(stored_as))
    weights = net.node("Transpose", net.node("DequantizeLinear", stored, scale, zero), perm=[1, 0])
    bias = net.fix(net.constant(net.draw((3,), 5)), 5)
    model = net.model(net.fix(net.node("Add", net.node("MatMul", x, weights), bias), 0))
    graph = load_onnx(model)
    (layer,) = (node for node in graph if node.kind == "conv2d")
    fixes = [graph[layer.inputs[arg][0]] for arg in ("weights", "bias")]
    assert [fix.fix_point for fix in fixes] == [6, 5]
    (head,) = (node for node in graph if node.kind == "data")
    given = image().reshape(head.shape)
    (found,) = evaluate_quantized(graph, {"x": given}).values()
    exact = image().astype(np.float64) @ (integers.T / 64) + values(net, 5)
    wanted = np.clip(np.floor(exact + 0.5), -128, 127)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize(
    ("scale", "zero", "text"),
    [
        (0.01, np.int8(0), "tensor 'x' has scale 0.01, but the DPU needs 8 bits, one scale that"),
        (0.0, np.int8(0), "tensor 'x' has scale 0,"),
        (0.5, np.int8(3), "tensor 'x' has zero point 3 of int8,"),
        (0.5, np.uint8(0), "tensor 'x' has zero point 0 of uint8,"),
        (0.5, np.int16(0), "tensor 'x' has 16 bits,"),
    ],
)
def test_what_the_dpu_cannot_represent_stays_onnx(scale, zero, text):
    net = qdq.QdqModel(opset=21)
    pair = (net.constant(np.float32(scale)), net.constant(np.asarray(zero)))
    stored = net.node("QuantizeLinear", "x", *pair)
    model = net.model(net.node("DequantizeLinear", stored, *pair))
    graph = load_onnx(model)
    kept = [node for node in graph if node.kind == "onnx"]
    assert [node.origin.op_type for node in kept] == ["QuantizeLinear", "DequantizeLinear"]
    assert text in kept[0].reason
    assert not is_quantized(graph)


def test_layers_with_different_scales_a_channel_stay_onnx():
    net = qdq.QdqModel()
    x = net.fix("x", 4)
    weights = net.constant(net.draw((3, 4, 1, 1), 7), "weights")
    scales = net.constant(np.array([0.5, 0.25, 0.5], np.float32))
    zeros = net.constant(np.zeros(3, np.int8))
    stored = net.node("QuantizeLinear", weights, scales, zeros, axis=0)
    real = net.node("DequantizeLinear", stored, scales, zeros, axis=0)
    model = net.model(net.fix(net.node("Conv", x, real), 3))
    reasons = {node.origin.op_type: node.reason for node in load_onnx(model) if node.reason}
    assert "has 3 different scales (0.25 to 0.5), but" in reasons["QuantizeLinear"]
    assert "are computed, but must be constant" in reasons["Conv"]


def test_equal_scales_a_channel_are_one_scale():
    net = qdq.QdqModel()
    x = net.fix("x", 4)
    weights = net.fix(net.constant(net.draw((3, 4, 1, 1), 7)), 7, scale=[2.0**-7] * 3)
    net.nodes[-2].attribute.append(helper.make_attribute("axis", 0))
    net.nodes[-1].attribute.append(helper.make_attribute("axis", 0))
    graph = load_onnx(net.model(net.fix(net.node("Conv", x, weights), 3)))
    (conv,) = (node for node in graph if node.kind == "conv2d")
    assert graph[conv.inputs["weights"][0]].fix_point == 7


@pytest.mark.parametrize(("kernel", "factor"), [(3, 9 * 7 / 64), (2, 1.0), (5, 25 * 10 / 256)])
def test_simulated_errors_of_average_pooling_disappear(kernel, factor):
    net = qdq.QdqModel()
    pool = net.node("AveragePool", net.fix("x", 4), kernel_shape=[kernel] * 2)
    scaled = net.node("Mul", pool, net.constant(np.float32(factor)))
    graph = load_onnx(net.model(net.fix(scaled, 4)))
    assert [node.kind for node in graph] == ["data", "fix", "avgpool2d", "fix"]
    model = net.model(net.nodes[-1].output[0])
    found = by_reference(graph, image()) * 2.0**-4
    wanted = by_onnxruntime(model, image()).transpose(0, 2, 3, 1)
    assert np.abs(found - wanted).max() <= 2.0**-4
    assert (found == wanted).mean() > 0.7


@pytest.mark.parametrize("form", ["int8", "contrib"])
def test_it_compiles_without_calibration(form, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(qdq.network(form), path)
    report = api.compile_onnx(path, target="B512", output=tmp_path / "out.xmodel")
    assert not report.on_cpu
    with GraphRunner(api.load(tmp_path / "out.xmodel"), device="iss") as runner:
        (head,) = runner.get_input_tensors()
        given = np.random.default_rng(1).integers(-128, 128, head.dims, np.int8)
        (found,) = runner.run({"x": given}).values()
    (wanted,) = evaluate_quantized(load_onnx(path), {"x": given}).values()
    np.testing.assert_array_equal(found, wanted)


def test_calibration_and_quantized_models_exclude_each_other(tmp_path):
    graph = load_onnx(qdq.network())
    with pytest.raises(UnsupportedError, match="is quantized already"):
        quantize(graph, {"x": image()})
    net = qdq.QdqModel()
    path = tmp_path / "float.onnx"
    onnx.save(net.model(net.node("Relu", "x")), path)
    with pytest.raises(TensorError, match="is a float model: give samples"):
        api.compile_onnx(path, target="B512", output=tmp_path / "out.xmodel")


@pytest.mark.parametrize(
    ("target", "zero", "text"),
    [
        ("B512", np.uint8(7), "scale 0.01, but the DPU needs 8 bits.*the extension scaled"),
        ("B512+scaled", np.uint16(7), "quantized to uint16.*but must be of 8 bits"),
    ],
)
def test_a_model_with_other_scales_is_not_called_a_float_model(target, zero, text, tmp_path):
    net, path = qdq.QdqModel(opset=21), tmp_path / "model.onnx"
    pair = (net.constant(np.float32(0.01)), net.constant(np.asarray(zero)))
    stored = net.node("QuantizeLinear", net.node("Relu", "x"), *pair)
    onnx.save(net.model(net.node("DequantizeLinear", stored, *pair)), path)
    with pytest.raises(UnsupportedError, match=f"does not compute with, in 2 operators.*{text}"):
        api.compile_onnx(path, target=target, output=tmp_path / "out.xmodel")
