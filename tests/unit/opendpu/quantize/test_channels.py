# SPDX-License-Identifier: Apache-2.0
"""A fix point for each output channel: what the quantizer makes for the extension ``channel``."""

import dataclasses

import numpy as np
import pytest
from oracle import evaluate_float, evaluate_quantized

import xir
from opendpu.compiler.pipeline import compile_with_report
from opendpu.compiler.shifts import shifts_of
from opendpu.integer import IntegerNetwork
from opendpu.ir import FloatGraph, Quantization, QuantizedGraph, from_xir, to_xir
from opendpu.quantize import QuantizeConfig, TensorSpec, quantize, quantize_with_report
from opendpu.quantize.complete import complete
from opendpu.quantize.config import FinetuneConfig
from opendpu.runtime import GraphRunner
from opendpu_arch.numerics import MAX_CHANNEL_SHIFT
from opendpu_arch.target import Target

from .float_nets import WINDOW, Net, samples

PLAIN, CHANNEL = Target.from_name("B512"), Target.from_name("B512+channel")
UNEVEN = np.logspace(-2, 0.3, 8, dtype=np.float32)


def net() -> FloatGraph:
    """Three convolutions, a depthwise one among them, whose channels differ a lot."""
    made = Net()
    first = made.put("r1", "relu", [made.conv("c1", "x", 8)])
    weights = made.random.standard_normal((1, 3, 3, 8)) / 3 * UNEVEN
    inputs = {
        "input": [first], "weights": [made.add_const("d_w", weights).name],
        "bias": [made.add_const("d_b", made.random.standard_normal(8) * UNEVEN).name],
    }  # fmt: skip
    made.put("d", "depthwise-conv2d", inputs, WINDOW, (1, 8, 8, 8))
    last = made.conv("c2", made.put("r2", "relu", ["d"]), 8)
    made["c1_w"].value = made["c1_w"].value * UNEVEN[::-1, None, None, None]
    made["c1_b"].value = made["c1_b"].value * UNEVEN[::-1]
    return made.done(last)


def quantized(graph: FloatGraph, target: Target | None = CHANNEL, **options) -> QuantizedGraph:
    config = QuantizeConfig(target=target)
    return quantize(graph, samples(64), config, **{"cross_layer": False, **options})


def noise(graph: FloatGraph, made: QuantizedGraph, given: dict | None = None) -> float:
    """Return the noise of a quantized network, in float."""
    given = given or samples(64, seed=2)
    (output,), (other,) = graph.outputs, made.outputs
    wanted = evaluate_float(graph, given)[output]
    return float(np.square(evaluate_float(made, given)[other] - wanted).sum())


def in_bytes(made: QuantizedGraph) -> QuantizedGraph:
    """Return a graph whose narrower constants are called what they are on the DPU: 8 bits."""
    graph = made.copy()
    for node in graph:
        if node.kind == "fix":
            node.type = node.type.with_quantization(dataclasses.replace(node.quantization, bits=8))
    return graph


def assert_exact(made: QuantizedGraph, target: Target = CHANNEL) -> None:
    """Check that a graph compiles wholly, and gives the reference's integers on the simulator."""
    compiled = compile_with_report(to_xir(made), target)
    assert not compiled.report.on_cpu
    given = {"x": samples(1, seed=3)["x"]}
    wanted = evaluate_quantized(in_bytes(made), given)
    found = IntegerNetwork(made).run(given)
    with GraphRunner(compiled.graph, device="iss", target=target, check=True) as runner:
        (name,) = (t.name for t in runner.get_input_tensors())
        integers = np.clip(np.floor(given["x"] * 2.0 ** made["x_fix"].fix_point + 0.5), -128, 127)
        (simulated,) = runner.run({name: integers.astype(np.int8)}).values()
    (values,) = wanted.values()
    np.testing.assert_array_equal(next(iter(found.values())), values)
    np.testing.assert_array_equal(simulated, values)


def test_weights_and_biases_have_a_fix_point_for_each_output_channel():
    made = quantized(net())
    for name, axis in (("c1_w", 0), ("d_w", 3), ("c2_w", 0), ("d_b", 0)):
        found = made[f"{name}_fix"].quantization
        assert (len(found.scale), found.axis) == (8, axis), name
    apart = made["d_w_fix"].fix_points
    assert apart[0] - apart[-1] in range(6, 10)
    assert made["r2_fix"].quantization.axis is None
    assert_exact(made)


def test_plain_targets_have_one_for_the_tensor():
    one, other = (to_xir(quantized(net(), target)).to_bytes() for target in (None, PLAIN))
    assert one == other
    made = quantized(net(), PLAIN)
    assert all(n.quantization.axis is None for n in made if n.kind == "fix")


@pytest.mark.parametrize(
    "options",
    [{}, {"cross_layer": True}, {"refinement": False}, {"bias_correction": False},
     {"method": "nonoverflow"}],
)  # fmt: skip
def test_results_come_nearer_to_the_float_network(options):
    graph = net()
    plain, apart = (quantized(graph, target, **options) for target in (PLAIN, CHANNEL))
    assert noise(graph, apart) < 0.9 * noise(graph, plain)
    assert_exact(apart)


def test_the_report_has_every_scale():
    config = QuantizeConfig(target=CHANNEL)
    report = quantize_with_report(net(), samples(64), config, cross_layer=False).report
    (weights,) = (t for t in report.tensors if (t.layer, t.role) == ("d", "weights"))
    assert len(weights.scale) == 8
    assert weights.sqnr > 35
    assert report.obstacles == []


def test_biases_are_corrected_channel_by_channel():
    graph, given = net(), samples(64)
    made = quantized(graph, refinement=False)
    for layer, wanted in evaluate_float(graph, given, keep=["c1", "d", "c2"]).items():
        found = evaluate_float(made, given, keep=[layer])[layer]
        step = 2.0 ** -np.array(made[f"{layer}_b_fix"].fix_points)
        difference = np.abs(found.mean(axis=(0, 1, 2)) - wanted.mean(axis=(0, 1, 2)))
        assert (difference <= 0.51 * step + 1e-6).all(), layer


@pytest.mark.parametrize("exponent", [-3, -9, -30])
def test_channels_far_apart_stay_within_the_shifts(exponent):
    """One channel is almost nothing but a large bias."""
    graph = net()
    graph["d_w"].value = graph["d_w"].value * np.float32([2.0**exponent, *[1] * 7])
    graph["d_b"].value = np.float32([7.5, *graph["d_b"].value[1:]])
    made = quantized(graph)
    bias, point = made["d_b"].value, made["d_b_fix"].fix_points[0]
    assert abs(bias[0]) < 127 * 2.0**-point
    shifts = shifts_of_layer(made, "d")
    assert np.ptp(shifts.cut) <= MAX_CHANNEL_SHIFT
    assert np.ptp(shifts.bias) <= MAX_CHANNEL_SHIFT
    assert_exact(made)


def shifts_of_layer(made: QuantizedGraph, name: str):
    """Return the shifts of a layer whose ReLU is fused."""
    layer = dataclasses.replace(made[name], type=made["r2_fix"].type)
    return shifts_of(layer, made)


def test_channels_without_weights_follow_the_others():
    graph = net()
    graph["c1_w"].value = graph["c1_w"].value * np.float32([0, *[1] * 7]).reshape(8, 1, 1, 1)
    made = quantized(graph)
    points = made["c1_w_fix"].fix_points
    assert points[0] == min(points)
    assert_exact(made)


def test_narrow_weights_stay_narrow():
    made = quantized(net(), weights=TensorSpec(bits=4))
    assert made["d_w_fix"].quantization.bits == 4
    points = np.array(made["d_w_fix"].fix_points)
    integers = made["d_w"].value * 2.0**points
    assert np.abs(integers).max() <= 8
    assert_exact(made)


def test_a_depthwise_multiplier_has_one_fix_point():
    made = Net()
    made.add_const("w", made.random.standard_normal((2, 3, 3, 4)))
    made.put("y", "depthwise-conv2d", {"input": ["x"], "weights": ["w"]}, WINDOW, (1, 8, 8, 8))
    graph = made.done("y")
    for config in (
        QuantizeConfig(target=CHANNEL),
        QuantizeConfig(weights=TensorSpec(granularity="per_channel", scale="float")),
    ):
        assert len(quantize(graph, samples(), config)["w_fix"].quantization.scale) == 1


def test_scales_per_channel_are_deployable_where_shifts_are():
    config = QuantizeConfig(weights=TensorSpec(granularity="per_channel"))
    assert config.deployable() == [
        "weights has a scale per channel, but only a target with the extension 'channel' shifts "
        "channels apart"
    ]
    assert dataclasses.replace(config, target=CHANNEL).deployable() == []
    for role in ("input", "activation"):
        spec = TensorSpec(granularity="per_channel")
        (reason,) = QuantizeConfig(target=CHANNEL, **{role: spec}).deployable()
        assert reason == f"{role} has a scale per channel, but the DPU shifts all channels alike"


def correlated(count: int, seed: int) -> dict[str, np.ndarray]:
    """Return samples whose elements depend on each other, as those of pictures do."""
    basis = np.random.default_rng(0).standard_normal((6, 8 * 8 * 4))
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((count, 6)) @ basis + 0.1 * rng.standard_normal((count, 256)) + 0.5
    return {"x": made.reshape(count, 8, 8, 4).astype(np.float32)}


def even() -> FloatGraph:
    """Three convolutions that all count."""
    made = Net()
    one = made.put("r1", "relu", [made.conv("c1", "x", 8)])
    two = made.put("r2", "relu", [made.conv("c2", one, 8)])
    last = made.conv("c3", two, 8)
    for number, name in enumerate(("c1_w", "c2_w", "c3_w")):
        factor = 2.0 ** np.roll([0, 0, 1, -1, 0, 1, 0, -1], number)
        made[name].value = (made[name].value * factor.reshape(8, 1, 1, 1)).astype(np.float32)
    return made.done(last)


@pytest.mark.parametrize("method", [None, "adaquant", "adaround"])
def test_weights_are_fitted_on_the_grids_of_channels(method):
    """Three bits, so that there is something to do for correction, and for training."""
    tuned = None
    if method is not None:
        pytest.importorskip("torch")
        tuned = FinetuneConfig(method=method, iterations=200)
    graph, given = even(), correlated(64, 1)
    config = QuantizeConfig(
        target=CHANNEL, weights=TensorSpec(bits=3), cross_layer=False, weight_correction=False
    )
    before = quantize(graph, given, config)
    made = quantize(graph, given, config, weight_correction=method is None, finetune=tuned)
    for name in ("c1_w", "c2_w", "c3_w"):
        found = made[f"{name}_fix"].quantization
        shape = [-1 if axis == found.axis else 1 for axis in range(4)]
        integers = made[name].value * 2.0 ** np.reshape(found.fix_points, shape)
        np.testing.assert_array_equal(integers, np.rint(integers))
        assert np.abs(integers).max() <= 4
    assert noise(graph, made, correlated(64, 2)) < noise(graph, before, correlated(64, 2))
    assert_exact(made)


def test_files_keep_the_fix_points_of_channels(tmp_path):
    made = quantized(net())
    to_xir(made).serialize(tmp_path / "m.xmodel")
    back = from_xir(xir.Graph.deserialize(tmp_path / "m.xmodel"))
    for node in made:
        assert back[node.name].type == node.type
        if node.value is not None:
            np.testing.assert_array_equal(back[node.name].value, node.value)


def test_biases_that_came_without_get_a_fix_point_that_fits_all_channels():
    graph = QuantizedGraph("net")
    graph.add("x", "data", (1, 2, 2, 1))
    graph.add_fix("x_fix", "x", Quantization.power_of_two(4))
    graph.add_const("w", np.float32([0.5, 0.001]).reshape(2, 1, 1, 1))
    graph.add_fix("w_fix", "w", Quantization.powers_of_two([7, 16], 0))
    graph.add_const("b", np.float32([1e-4, 2e-4]))
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
    inputs = {"input": ["x_fix"], "weights": ["w_fix"], "bias": ["b"]}
    graph.add("y", "conv2d", (1, 2, 2, 2), inputs, attrs)
    graph.add_fix("y_fix", "y", Quantization.power_of_two(5))
    graph.outputs = ["y_fix"]
    made = complete(graph)
    (bias,) = made["y"].inputs["bias"]
    assert made[bias].fix_point == 7 + 4 + 1
    assert not compile_with_report(to_xir(made), CHANNEL).report.on_cpu
