# SPDX-License-Identifier: Apache-2.0
"""Every quantization that the quantizer knows, in files: onnxruntime rounds as our sessions do."""

import dataclasses

import numpy as np
import onnxruntime
import pytest

from opendpu.export import FORMS, to_onnx
from opendpu.ir import NumberFormat, Quantization, QuantizedGraph, Rounding
from opendpu.ops.session import Session
from opendpu_arch.errors import UnsupportedError

POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
TENTHS = Quantization((0.1,), (3,))
CHANNELS = Quantization((0.1, 0.2, 0.05, 0.3), (0,), axis=3)


def network(activation: Quantization, weights: Quantization) -> QuantizedGraph:
    """Return a 1x1 convolution between two quantized tensors of four channels."""
    random = np.random.default_rng(5)
    graph = QuantizedGraph("one")
    graph.add("x", "data", (1, 3, 5, 4))
    graph.attrs["onnx_order"] = {"x": [0, 2, 3, 1], "y": [0, 2, 3, 1]}
    given = graph.add_fix("x_fix", "x", activation)
    constant = graph.add_const("w", random.normal(0, 0.5, (4, 1, 1, 4)))
    fixed = graph.add_fix("w_fix", constant.name, weights)
    inputs = {"input": [given.name], "weights": [fixed.name]}
    graph.add("y", "conv2d", (1, 3, 5, 4), inputs, POINT)
    graph.outputs = [graph.add_fix("y_fix", "y", activation).name]
    return graph


def data() -> np.ndarray:
    """Return numbers, many of them halves and beyond what 8 bits of a quarter can hold."""
    random = np.random.default_rng(6)
    halves = random.integers(-300, 300, (1, 3, 5, 2)) / 8
    return np.concatenate([halves, random.normal(0, 9, (1, 3, 5, 2))], axis=3).astype(np.float32)


def check(graph: QuantizedGraph, form: str) -> None:
    given = data()
    (wanted,) = Session(graph).run({"x": given}).values()
    session = onnxruntime.InferenceSession(to_onnx(graph, form).SerializeToString())
    (found,) = session.run(None, {"x": given.transpose(0, 3, 1, 2)})
    assert len(np.unique(wanted)) > 5
    np.testing.assert_array_equal(found.transpose(0, 2, 3, 1), wanted)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rounding", Rounding)
def test_roundings(rounding, form):
    activation = dataclasses.replace(Quantization.power_of_two(2), rounding=rounding)
    check(network(activation, Quantization.power_of_two(6)), form)


@pytest.mark.parametrize("form", FORMS)
def test_two_roundings_in_one_network(form):
    activation = Quantization.power_of_two(2)
    graph = network(activation, Quantization.power_of_two(6))
    other = dataclasses.replace(activation, rounding=Rounding.STD_ROUND)
    graph["x_fix"].type = graph["x_fix"].type.with_quantization(other)
    check(graph, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bits", [3, 4, 6, 8, 12, 16])
def test_bits(bits, form):
    point = 2 if bits > 4 else 0
    activation = Quantization.power_of_two(point, bits=bits)
    check(network(activation, Quantization.power_of_two(bits - 3, bits=bits)), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "activation",
    [
        TENTHS,
        dataclasses.replace(TENTHS, signed=False, zero_point=(128,)),
        dataclasses.replace(Quantization.power_of_two(2), narrow=True),
        dataclasses.replace(TENTHS, bits=16, signed=False, zero_point=(300,)),
    ],
)
def test_scales_that_are_no_powers_of_two_and_zero_points(activation, form):
    check(network(activation, Quantization((0.011,))), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("axis", [0, 3])
def test_weights_with_a_scale_per_channel(axis, form):
    weights = dataclasses.replace(CHANNELS, axis=axis, scale=(0.01, 0.02, 0.005, 0.03))
    check(network(Quantization.power_of_two(2), weights), form)


def test_activations_with_a_scale_per_channel():
    check(network(CHANNELS, Quantization.power_of_two(6)), "native")
    with pytest.raises(UnsupportedError, match="'x_fix': a computed tensor has one scale in form"):
        to_onnx(network(CHANNELS, Quantization.power_of_two(6)), "fixneuron")


@pytest.mark.parametrize("number_format", [f for f in NumberFormat if f is not NumberFormat.INT])
def test_number_formats(number_format):
    made = Quantization((1.0,), number_format=number_format)
    check(network(made, made), "native")
