# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as states

from opendpu.ops.inference import PRECISE, open_session

PAIRED = """
    <ir_version: 8, opset_import: ["" : 17]>
    paired (float[4, 32] x) => (float[4, 8] y) <
        float one = {1}, float fine = {0.0078125}, int8 zero = {0}
    > {
        integers = QuantizeLinear(x, one, zero)
        left = DequantizeLinear(integers, one, zero)
        right = DequantizeLinear(weights, fine, zero)
        y = MatMul(left, right)
    }"""


def test_sums_of_eight_bit_products_do_not_saturate():
    """Two products of 255 and 127 take 17 bits: on AVX2 without VNNI their sum was 32767."""
    weights = np.full((32, 8), 127, np.int8)
    weights[16:] = -127
    model = onnx.parser.parse_model(PAIRED)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "weights"))
    x = np.full((4, 32), 127, np.float32)
    x[:, 16:] = 123
    (found,) = open_session(model).run(None, {"x": x})
    np.testing.assert_array_equal(found, np.full((4, 8), 16 * 4 * 127 / 128, np.float32))


def test_the_option_is_set_and_left_away_where_onnxruntime_has_no_kernel(monkeypatch):
    """As for int8 by int8 on such a processor, whose weights it would make uint8."""
    model = onnx.parser.parse_model(PAIRED)
    weights = onnx.numpy_helper.from_array(np.ones((32, 8), np.int8), "weights")
    model.graph.initializer.append(weights)
    session = open_session(model)
    assert session.get_session_options().get_session_config_entry(PRECISE) == "1"
    original, lacking = onnxruntime.InferenceSession, ["1"]

    def opened(given, options, **others):
        if options.get_session_config_entry(PRECISE) in lacking:
            raise states.NotImplemented("Failed to find kernel for QLinearConv")
        return original(given, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    session = open_session(model)
    assert session.get_session_options().get_session_config_entry(PRECISE) == "0"
    lacking.append("0")
    with pytest.raises(states.NotImplemented):
        open_session(model)
