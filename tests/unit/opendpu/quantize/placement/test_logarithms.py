# SPDX-License-Identifier: Apache-2.0
"""Front ends of networks that hear stay in float where int8 is too little for their logarithm."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.quantize.placement.logarithms import WIDE, sqnr_of_logarithm, wide_arguments
from opendpu.quantize.quantizer import quantize_with_report
from opendpu.quantize.samples import calibration_samples
from opendpu_arch.target import Target

WINDOW, FRAMES, BANDS = 32, 24, 16


def transform() -> np.ndarray:
    """Return the real part of a Fourier transform, as a matrix."""
    steps = np.arange(WINDOW)
    return np.cos(2 * np.pi * np.outer(steps, steps) / WINDOW).astype(np.float32)


def log_mel(rng, layers: int = 0, between: str = "Identity") -> onnx.ModelProto:
    """Return a network of frames of sound: transform, squares, bands, logarithm, convolutions.

    ``layers`` stand between the bands and the logarithm, each behind an operator ``between``.
    """
    nodes = [
        helper.make_node("MatMul", ["x", "transform"], ["spectrum"]),
        helper.make_node("Mul", ["spectrum", "spectrum"], ["power"]),
        helper.make_node("MatMul", ["power", "mel"], ["bands"]),
    ]
    values = {
        "transform": transform(), "mel": rng.uniform(0.25, 1, (WINDOW, BANDS)),
        "little": np.float32(1e-6), "v": rng.normal(0, 0.3, (64, 1, 3, 3)),
        "w": rng.normal(0, 0.1, (64, 64, 3, 3)),
    }  # fmt: skip
    last = "bands"
    for number in range(layers):
        values[f"more{number}"] = rng.uniform(0, 1, (BANDS, BANDS))
        nodes.append(helper.make_node(between, [last], [f"before{number}"]))
        inputs = [f"before{number}", f"more{number}"]
        nodes.append(helper.make_node("MatMul", inputs, [f"layer{number}"]))
        last = f"layer{number}"
    nodes += [
        helper.make_node("Add", [last, "little"], ["some"]),
        helper.make_node("Log", ["some"], ["log"]),
        helper.make_node("Conv", ["log", "v"], ["heard"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["heard"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    graph = helper.make_graph(
        nodes, "sounds",
        [helper.make_tensor_value_info("x", 1, [1, 1, FRAMES, WINDOW])],
        [helper.make_tensor_value_info("y", 1, [1, 64, FRAMES, BANDS])],
        [numpy_helper.from_array(np.asarray(v, np.float32), name) for name, v in values.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def sounds(rng, faint: float, count: int = 4) -> np.ndarray:
    """Return tones in noise, each frame as loud as chance has it down to ``faint``."""
    loud = np.exp(rng.uniform(np.log(faint), 0, (count, 1, FRAMES, 1)))
    steps = np.arange(WINDOW) * rng.uniform(0.1, 1.0, (count, 1, FRAMES, 1))
    tones = np.sin(2 * np.pi * steps) + 0.1 * rng.standard_normal((count, 1, FRAMES, WINDOW))
    return (loud * tones).astype(np.float32)


def kept(model: onnx.ModelProto, data: np.ndarray) -> dict[str, str]:
    graph = load_onnx(model)
    return wide_arguments(graph, calibration_samples(graph, {"x": data}))


def decibels(exact: np.ndarray, found: np.ndarray) -> float:
    return float(10 * np.log10(np.square(exact).sum() / np.square(exact - found).sum()))


@pytest.mark.parametrize("target", ["B4096", "B4096+table"])
def test_spectra_of_faint_and_loud_sounds_stay_in_float_up_to_the_logarithm(rng, target):
    graph, data = load_onnx(log_mel(rng)), sounds(rng, 1e-3)
    made = quantize_with_report(graph, {"x": data}, target=Target.from_name(target))
    floating = {node.name for node in made.graph if node.reason == WIDE}
    assert floating == {"spectrum", "power", "some"}  # the sum is the bias of the bands
    fixes = {node.inputs["input"][0] for node in made.graph if node.kind == "fix"}
    assert "y" in fixes and not fixes & floating
    sample = sounds(rng, 1e-3, 1)
    (exact,) = Session(graph).run({"x": sample}).values()
    network = IntegerNetwork(made.graph)
    ((name, found),) = network.run({"x": sample}).items()
    assert decibels(exact, found * 2.0 ** -network.fix_point(name)) > 20


def test_sounds_that_are_all_as_loud_are_the_dpus(rng):
    model = log_mel(rng)
    loud = rng.uniform(0.25, 1.0, (4, 1, FRAMES, 1))
    data = loud * np.cos(2 * np.pi * np.arange(WINDOW) * 3 / WINDOW)
    assert kept(model, data.astype(np.float32)) == {}


def test_networks_before_a_logarithm_are_no_front_ends(rng):
    assert kept(log_mel(rng, layers=1), sounds(rng, 1e-3))
    assert kept(log_mel(rng, layers=1, between="Relu"), sounds(rng, 1e-3)) == {}
    assert kept(log_mel(rng, layers=1, between="Tanh"), sounds(rng, 1e-3)) == {}
    assert kept(log_mel(rng, layers=1, between="Abs"), sounds(rng, 1e-3))


def test_front_ends_that_share_their_first_layer(rng):
    model = log_mel(rng)
    values = [("other", rng.uniform(0, 1, (WINDOW, BANDS)))]
    model.graph.initializer.extend(
        numpy_helper.from_array(v.astype(np.float32), name) for name, v in values
    )
    model.graph.node.extend(
        [
            helper.make_node("MatMul", ["power", "other"], ["others"]),
            helper.make_node("Log", ["others"], ["second"]),
        ]
    )
    model.graph.output.append(helper.make_tensor_value_info("second", 1, None))
    found = kept(model, sounds(rng, 1e-3))
    assert found.keys() == {"spectrum", "power", "some", "others"}


@pytest.mark.parametrize("name", ["spectrum", "bands"])
def test_what_others_read_too_is_the_dpus(rng, name):
    model = log_mel(rng)
    model.graph.output.append(helper.make_tensor_value_info(name, 1, None))
    assert kept(model, sounds(rng, 1e-3)) == {}


def test_a_logarithm_of_bytes():
    every = np.arange(1, 128) / 64
    assert sqnr_of_logarithm(every) == np.inf
    assert sqnr_of_logarithm(np.array([0.0, -1.0, np.nan])) == np.inf
    assert sqnr_of_logarithm(np.logspace(-12, 0, 1000)) < 5 < 20 < sqnr_of_logarithm(every + 1e-3)


def test_a_network_without_such_a_front_end_is_as_it_was(rng):
    model = log_mel(rng)
    model.graph.node[4].op_type = "Relu"
    graph = load_onnx(model)
    made = quantize(graph, {"x": sounds(rng, 1e-3)})
    assert not any(node.reason == WIDE for node in made)
