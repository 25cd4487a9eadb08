# SPDX-License-Identifier: Apache-2.0
"""Whole networks in every scheme and number format: how small the error is, and what runs."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.compiler.legalize.run import legalize
from opendpu.ir import NumberFormat, Quantization
from opendpu.ops.session import Session
from opendpu.quantize import Override, QuantizeConfig, TensorSpec, quantize, quantize_with_report
from opendpu.quantize.scales.search import Rows, search
from opendpu.quantize.tensor_spec import METHODS
from opendpu_arch.errors import UnsupportedError

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples

POOL = {"kernel": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def net(seed=0):
    made = Net(seed)
    made.conv("a", "x", 8)
    made.put("ar", "relu", ["a"])
    made.conv("b", "ar", 8)
    made.put("s", "add", ["ar", "b"])
    made.put("p", "maxpool2d", ["s"], POOL, (1, 4, 4, 8))
    made.conv("c", "p", 4, size=1)
    return made.done("c")


def everywhere(**given) -> QuantizeConfig:
    spec = TensorSpec(**given)
    return QuantizeConfig(input=spec, weights=spec, bias=spec, activation=spec)


def but_bias(**given) -> QuantizeConfig:
    """Biases have the scale of the products, which costs nothing."""
    bias = TensorSpec(bits=32, scale=given.get("scale", "power_of_two"))
    return dataclasses.replace(everywhere(**given), bias=bias)


def sqnr(graph, made, data=None) -> float:
    """Return the signal to noise of the only output, in dB, on samples that nobody has seen."""
    data = samples(32, seed=9)["x"] if data is None else data
    (wanted,) = Session(graph, batched=True).run({"x": data}).values()
    (found,) = Session(made, batched=True).run({"x": data}).values()
    return float(10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", ["power_of_two", "float"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_every_method(method, scale, symmetric):
    config = everywhere(method=method, scale=scale, symmetric=symmetric)
    least = 12 if method == "entropy" else 24  # it saturates more than errors would have it
    assert sqnr(net(), quantize(net(), samples(64), config)) > least


@pytest.mark.parametrize("statistic", ["modal", "max", "mean", "median", "moving_average"])
@pytest.mark.parametrize("method", ["max", "mse", "percentile", "entropy"])
def test_every_statistic_of_batches(statistic, method):
    config = dataclasses.replace(everywhere(method=method, statistic=statistic), batch=8)
    made = quantize(net(), samples(64), config)
    assert sqnr(net(), made) > 24
    legalize(made)


def test_asymmetric_entropy_saturates_both_ends_at_one_magnitude():
    values = np.random.default_rng(4).standard_normal((1, 1 << 16)).astype(np.float32)
    values[0, :2] = -40, 20
    template = Quantization.power_of_two(0, signed=False)
    spec = TensorSpec(method="entropy", symmetric=False, signed=False, scale="float")
    found = search(Rows.of(values), spec, template)
    low = -found.zero_point[0] * found.scale[0]
    high = (255 - found.zero_point[0]) * found.scale[0]
    assert 2 < high < 10
    assert abs(low + high) <= found.scale[0]


def test_commonest_float_is_refused():
    with pytest.raises(UnsupportedError, match="statistic of batches 'modal' needs scale power_of"):
        TensorSpec(statistic="modal", scale="float")


def test_more_bits_are_better_by_six_decibels_each():
    data = samples(64)
    found = [
        sqnr(net(), quantize(net(), data, but_bias(bits=b, scale="float")), data["x"])
        for b in range(4, 13)
    ]
    steps = np.diff(found)
    assert steps.min() > 3.5
    assert steps.mean() == pytest.approx(6.02, abs=0.8)


def test_floats_as_scales_are_better_than_powers_of_two():
    data, options = samples(64), {"refinement": False}
    coarse, fine = (
        sqnr(net(), quantize(net(), data, but_bias(bits=6, method="max", scale=s), **options),
             data["x"])
        for s in ("power_of_two", "float")
    )  # fmt: skip
    assert fine > coarse + 2


def test_scales_per_channel_make_up_for_uneven_weights():
    graph = net()
    uneven = np.logspace(-2, 0, 8, dtype=np.float32).reshape(8, 1, 1, 1)
    graph["b_w"].value = graph["b_w"].value * uneven
    options, least = {"cross_layer": False}, {}
    for granularity in ("per_tensor", "per_channel"):
        config = QuantizeConfig(weights=TensorSpec(bits=6, granularity=granularity))
        made = quantize(graph, samples(64), config, **options)
        noise = ((made["b_w"].value - graph["b_w"].value) ** 2).sum(axis=(1, 2, 3))
        least[granularity] = ((graph["b_w"].value ** 2).sum(axis=(1, 2, 3)) / noise).min()
    assert least["per_tensor"] < 2
    assert least["per_channel"] > 100
    assert len(made["b_w_fix"].quantization.scale) == 8
    assert made["b_w_fix"].quantization.axis == 0
    (weights,) = (node for node in legalize(made) if node.name == "b_w")
    assert weights.fix_points == made["b_w_fix"].quantization.fix_points


def test_activations_per_channel():
    spec = TensorSpec(bits=6, granularity="per_channel", scale="float")
    made = quantize(net(), samples(64), QuantizeConfig(activation=spec))
    assert len(made["ar_fix"].quantization.scale) == 8
    assert made["ar_fix"].quantization.axis == -1
    coarse = quantize(net(), samples(64), QuantizeConfig(
        activation=TensorSpec(bits=6, scale="float")))  # fmt: skip
    assert sqnr(net(), made) > sqnr(net(), coarse)


@pytest.mark.parametrize(
    ("kind", "least"),
    [("float16", 60), ("bfloat16", 40), ("bfp16", 30), ("mx9", 34), ("mx6", 16)],
)
def test_floating_point(kind, least):
    found = with_report(everywhere(number_format=kind))
    made, report = found.graph, found.report
    assert sqnr(net(), made) > least
    assert made["ar_fix"].quantization.number_format == NumberFormat(kind)
    assert f"activation is {kind}, but the DPU computes with integers" in report.obstacles
    with pytest.raises(UnsupportedError, match=f"makes {kind}, but the DPU computes with integers"):
        legalize(made)


def with_report(config, **options):
    return quantize_with_report(net(), samples(64), config, **options)


def test_weights_of_few_bits_are_deployed_as_int8_values():
    found = quantize_with_report(net(), samples(64), QuantizeConfig(weights=TensorSpec(bits=4)))
    assert found.report.obstacles == []
    for name in ("a_w", "b_w", "c_w"):
        fix = found.graph[f"{name}_fix"].quantization
        integers = found.graph[name].value * 2.0**fix.fix_point
        assert (fix.bits, np.abs(integers).max() <= 8) == (4, True)
    assert any("4 bits" in note and "int8" in note for note in found.report.notes)
    legalize(found.graph)


def test_wide_biases_have_the_scale_of_the_products():
    config = QuantizeConfig(
        weights=TensorSpec(scale="float", granularity="per_channel"),
        bias=TensorSpec(bits=32, scale="float"), activation=TensorSpec(scale="float"),
    )  # fmt: skip
    made = quantize(net(), samples(32), config)
    weights, source = (made[n].quantization for n in ("b_w_fix", "ar_fix"))
    bias = made["b_b_fix"].quantization
    np.testing.assert_allclose(bias.scale, np.array(weights.scale) * source.scale[0])
    assert (bias.bits, bias.axis) == (32, 0)


def test_refinement_that_is_skipped_says_so():
    found = with_report(everywhere(scale="float"))
    (note,) = (n for n in found.report.notes if "refinement" in n)
    assert note.startswith("refinement was skipped: it tries fix points that the DPU can run")
    silent = with_report(everywhere(scale="float"), refinement=False)
    assert not any("refinement" in note for note in silent.report.notes)


def test_layers_that_rules_keep_in_float():
    """Others are quantized, and so are the results that they read."""
    off = TensorSpec(number_format="float32")
    rule = Override(names=("b",), weights=off, activation=off)
    found = quantize_with_report(net(), samples(32), QuantizeConfig(overrides=(rule,)))
    names = {node.name for node in found.graph if node.kind == "fix"}
    assert "b_w_fix" not in names
    assert {"a_w_fix", "c_w_fix", "b_fix"} <= names
    assert found.report.floating == ["b"]
    assert found.report.obstacles == []
    assert found.graph["b"].reason == "the configuration keeps it in float; quantizing it would " \
        "lift it"  # fmt: skip
    legalize(found.graph)


def test_a_rule_for_no_layer_is_noted():
    rules = (
        Override(kinds=("Conv3d",), weights=TensorSpec(bits=6)),
        Override(names=("b",), weights=TensorSpec(bits=6)),
        Override(names=("heads/*",), kinds=("conv2d",), weights=TensorSpec(bits=6)),
    )
    found = quantize_with_report(net(), samples(32), QuantizeConfig(overrides=rules)).report.notes
    text = "no layer is called as a rule says: "
    assert [note for note in found if text in note] == [f"{text}Conv3d", f"{text}conv2d, heads/*"]


def test_rules_by_kind_and_mixed_widths():
    rule = Override(kinds=("conv2d",), weights=TensorSpec(bits=6))
    last = Override(names=("c",), weights=TensorSpec(bits=3))
    made = quantize(net(), samples(32), QuantizeConfig(overrides=(rule, last)))
    bits = {n: made[f"{n}_w_fix"].quantization.bits for n in "abc"}
    assert bits == {"a": 6, "b": 6, "c": 3}


def test_weights_only():
    off = TensorSpec(number_format="float32")
    config = QuantizeConfig(input=off, bias=off, activation=off)
    found = quantize_with_report(net(), samples(32), config)
    fixes = {node.name for node in found.graph if node.kind == "fix"}
    assert fixes == {"a_w_fix", "b_w_fix", "c_w_fix"}
    assert "activation is float32, but the DPU computes with integers" in found.report.obstacles
    assert sqnr(net(), found.graph) > 35


def test_same_data_same_result():
    first, second = (quantize(net(), samples(48), QuantizeConfig()) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert (one.name, one.type) == (other.name, other.type)
        if one.value is not None:
            np.testing.assert_array_equal(one.value, other.value)


@pytest.mark.parametrize("granularity", ["per_tensor", "per_channel"])
@pytest.mark.parametrize("scale", ["float", "power_of_two"])
def test_large_biases_beside_weights_of_sixteen_bits(scale, granularity):
    """In steps of the products they would not fit into 32 bits: weights have fewer bits then."""
    made = net()
    for name in ("a", "b"):
        bias = made[made[name].inputs["bias"][0]]
        bias.value = (40 * bias.value).astype(np.float32)
    wide = TensorSpec(bits=16, scale=scale, method="max")
    weights = dataclasses.replace(wide, granularity=granularity)
    bias = TensorSpec(bits=32, scale=scale, granularity=granularity)
    config = QuantizeConfig(input=wide, activation=wide, weights=weights, bias=bias)
    assert sqnr(made, quantize(made, samples(), config), samples()["x"]) > 70
