# SPDX-License-Identifier: Apache-2.0
"""Quantized models whose inputs and outputs are integers, as converters of TFLite files have it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from quantized_pairs import Pairs

from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.quantize import complete
from opendpu.requantization import load_for_quantizing, without_range

SHAPE = (1, 6, 5, 3)
KINDS = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


def stored_ends(kind, *, other: bool = False) -> onnx.ModelProto:
    """Make a model of integers with channels last; with ``other``, its input has two scales."""
    net = Pairs(seed=7)
    given = [net.constant(np.float32(0.03)), net.constant(kind(7))]
    made = [net.constant(np.float32(0.05)), net.constant(kind(40))]
    x = net.node("DequantizeLinear", net.node("Transpose", "x", perm=[0, 3, 1, 2]), *given)
    values, scales = net.spread(4, 3, 3, 3)
    weights = net.pair(net.constant(values), scales, np.zeros(4, np.int8), axis=0)
    y = net.node("QuantizeLinear", net.node("Conv", x, weights, pads=[1] * 4), *made)
    again = net.node("Relu", net.node("DequantizeLinear", y, *made))
    if other:
        different = [net.constant(np.float32(0.01)), given[1]]
        turned = net.node("Transpose", net.node("DequantizeLinear", "x", *different),
                          perm=[0, 3, 1, 2])  # fmt: skip
        again = net.node("Concat", again, turned, axis=1)
    z = net.node("Transpose", net.node("QuantizeLinear", again, *made), perm=[0, 2, 3, 1])
    model = net.model(z, SHAPE)
    model.graph.input[0].type.tensor_type.elem_type = KINDS[kind]
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, KINDS[kind], None) for name in (z, y)
    )
    return model


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_they_are_the_devices_integers(kind):
    model, moved = stored_ends(kind), 128 if kind is np.uint8 else 0
    limits = np.iinfo(kind)
    sample = np.random.default_rng(1).integers(limits.min, limits.max + 1, SHAPE).astype(kind)
    options = onnxruntime.SessionOptions()  # its own kernels saturate on CPUs without VNNI
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    wanted = [a.astype(int) - moved for a in session.run(None, {"x": sample})]
    network = IntegerNetwork(
        complete(load_onnx(model, any_scale=True, real_ports=True)), scaled=True
    )
    assert not {"onnx", "fix2float", "float2fix"} & {node.kind for node in network.graph}
    found = network.run({"x": (sample.astype(int) - moved).astype(np.int8)})
    pairs = zip(found.values(), (wanted[0], wanted[1].transpose(0, 2, 3, 1)), strict=True)
    for result, expected in pairs:
        off = np.abs(result.astype(int).reshape(expected.shape) - expected)
        assert off.max() <= 1
        assert (off > 0).mean() < 0.02


def test_an_input_of_two_scales_stays_integers():
    graph = load_onnx(stored_ends(np.int8, other=True), any_scale=True, real_ports=True)
    assert graph["x"].type.dtype == np.int8


def test_they_stay_integers_unless_asked():
    assert load_onnx(stored_ends(np.int8), any_scale=True)["x"].type.dtype == np.int8


def test_their_ranges_are_known_where_scales_change(tmp_path):
    """Of a node that moves integers within the network, too."""
    onnx.save(stored_ends(np.uint8), tmp_path / "ends.onnx")
    found = load_for_quantizing(tmp_path / "ends.onnx", requantize=True, has_samples=False)
    assert not without_range(found.graph)
