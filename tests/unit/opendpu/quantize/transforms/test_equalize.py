# SPDX-License-Identifier: Apache-2.0
"""Equalization across every shape of network: the function stays, uneven channels become even."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize import quantize, quantize_with_report
from opendpu.quantize.transforms.channel_sets import find_sets
from opendpu.quantize.transforms.equalize import bounded_ops, equalize
from opendpu.quantize.transforms.outliers import shrink_outliers

sys.path.append(str(Path(__file__).parents[1]))
from float_nets import POINT, WINDOW, Net, samples

POOL = {"kernel": [2, 2], "stride": [2, 2], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
WHOLE = {"kernel": [8, 8], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}


def uneven(net, *names, low=-1.2, high=1.2):
    """Scale the output channels of some layers apart from each other, bias and all."""
    for name in names:
        count = net[name].shape[-1]
        factor = np.logspace(low, high, count).astype(np.float32)
        weights, bias = net[f"{name}_w"], net[f"{name}_b"]
        axis = 3 if net[name].kind == "depthwise-conv2d" else 0
        shape = [-1 if index == axis else 1 for index in range(4)]
        weights.value = (weights.value * factor.reshape(shape)).astype(np.float32)
        bias.value = (bias.value * factor).astype(np.float32)
    return net


def depthwise(net, name, source):
    channels = net[source].shape[3]
    weights = net.random.standard_normal((1, 3, 3, channels)) / 3
    bias = net.random.standard_normal(channels) / 3
    inputs = {"input": [source], "weights": [net.add_const(f"{name}_w", weights).name],
              "bias": [net.add_const(f"{name}_b", bias).name]}  # fmt: skip
    return net.put(name, "depthwise-conv2d", inputs, WINDOW)


def residual():
    """Two blocks on one sum, as ResNet has them."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 8)
    net.put("br", "relu", ["b"])
    net.conv("c", "br", 8)
    net.put("s", "add", ["ar", "c"])
    net.put("sr", "relu", ["s"])
    net.conv("d", "sr", 4)
    return uneven(net, "a", "c").done("d")


def concatenated():
    """Two branches, and two that read them, one of them through a pool."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 6, size=1)
    net.conv("c", "ar", 10)
    net.put("k", "concat", ["b", "c"], {"axis": 3}, (1, 8, 8, 16))
    net.put("kr", "leaky-relu", ["k"], {"alpha": 0.1})
    net.conv("d", "kr", 4)
    net.put("p", "maxpool2d", ["kr"], POOL, (1, 4, 4, 16))
    net.conv("e", "p", 4, size=1)
    return uneven(net, "a", "b", "c").done("d", "e")


def pooled():
    """As networks end: depthwise, average over the map, and a matrix."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    depthwise(net, "b", "ar")
    net.put("br", "relu", ["b"])
    net.put("v", "avgpool2d", ["br"], WHOLE, (1, 1, 1, 8))
    net.put("f", "reshape", ["v"], {"shape": [1, 8]}, (1, 8))
    weights = net.random.standard_normal((5, 8)) / 2
    inputs = {"input": ["f"], "weights": [net.add_const("g_w", weights).name]}
    net.put("g", "inner-product", inputs, {"axis": 1}, (1, 5))
    return uneven(net, "a").done("g")


def mobile():
    """Blocks with ReLU6, of which few channels come to its end; small ones become large again."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("a6", "relu6", ["a"])
    depthwise(net, "b", "a6")
    net.put("b6", "relu6", ["b"])
    net.conv("c", "b6", 8, size=1)
    net.conv("d", "c", 6)
    uneven(net, "a", low=-2, high=0.4)
    net["b_w"].value = net["b_w"].value / np.logspace(-2, 0.4, 8).astype(np.float32)
    return net.done("d")


def values(net, x):
    return Session(net, batched=True).run({"x": x})


def spread(net, name):
    """Return how far apart the ranges of a layer's output channels are."""
    axis = (0, 1, 2) if net[name].kind == "depthwise-conv2d" else (1, 2, 3)
    ranges = np.abs(net[f"{name}_w"].value).max(axis=axis)
    return float(ranges.max() / ranges.min())


@pytest.mark.parametrize(
    ("make", "layers"),
    [(residual, "abcd"), (concatenated, "abcde"), (pooled, "abg")],
)
def test_everything_takes_part_and_the_function_stays(make, layers):
    net, x = make(), samples(4)["x"]
    before, apart = values(net, x), spread(net, "a")
    done = equalize(net)
    assert "".join(done.layers) == layers
    for name, array in values(net, x).items():
        np.testing.assert_allclose(array, before[name], rtol=1e-3, atol=1e-4 * np.abs(array).max())
    assert spread(net, "a") < apart / 3


def test_channels_that_reach_the_end_of_relu6_stay_as_they_are():
    net, x = mobile(), samples(16)["x"]
    assert bounded_ops(net) == ["a6", "b6"]
    kept = {n: Session(net, keep=[n], batched=True).run({"x": x})[n] for n in ("a", "b")}
    largest = {f"{n}6": v.max(axis=(0, 1, 2)).astype(np.float64) for n, v in kept.items()}
    assert 0 < (largest["a6"] >= 6).sum() < 8
    before, weights = values(net, x)["d"], net["a_w"].value.copy()
    done = equalize(net, largest)
    assert done.layers == ["a", "b", "c", "d"]
    np.testing.assert_allclose(values(net, x)["d"], before, rtol=1e-3, atol=1e-4)
    factor = (net["a_w"].value / weights).reshape(8, -1).mean(axis=1)
    np.testing.assert_allclose(factor[largest["a6"] >= 6], 1)
    assert (largest["a6"] * factor < 6)[largest["a6"] < 6].all()
    assert (np.abs(factor - 1) > 0.1).any()


def test_relu6_of_unknown_values_keeps_its_channels():
    net = mobile()
    done = equalize(net)
    assert done.skipped["a"] == done.skipped["b"] == "it passes a ReLU6 whose values are not known"
    assert done.layers == ["c", "d"]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda net: net.put("y", "sigmoid", ["ar"]),
            "'y' (sigmoid) reads it and keeps no factors",
        ),
        (lambda net: net.put("y", "mul", ["ar", "ar"]), "'y' (mul) reads it and keeps no factors"),
        (
            lambda net: net.put("y", "concat", ["ar", "ar"], {"axis": 1}, (1, 16, 8, 8)),
            "'y' (concat) reads it and keeps no factors",
        ),
        (lambda net: net.put("y", "add", ["ar", "x2"]), "'x2' (data) makes it"),
        (lambda net: "ar", "'ar' is an output of the network"),
    ],
)
def test_reasons_of_those_that_take_no_part(build, reason):
    net = Net()
    net.add("x2", "data", (1, 8, 8, 8))
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 4)
    last = build(net)
    graph = net.done("b", last)
    assert equalize(graph).skipped["a"] == reason


def test_groups_of_inputs_take_no_part():
    net = Net()
    net.conv("a", "x", 8)
    weights = net.random.standard_normal((4, 1, 1, 4))
    inputs = {"input": ["a"], "weights": [net.add_const("g_w", weights).name]}
    net.put("g", "conv2d", inputs, {**POINT, "group": 2}, (1, 8, 8, 4))
    assert equalize(net.done("g")).skipped["a"] == "'g' has groups"


def test_sets_know_the_places_of_their_channels():
    sets = [one for one in find_sets(concatenated()) if not one.reason]
    assert [(one.size, one.producers, one.consumers) for one in sets] == [
        (8, ["a"], [("b", 0), ("c", 0)]),
        (6, ["b"], [("d", 0), ("e", 0)]),
        (10, ["c"], [("d", 6), ("e", 6)]),
    ]


@pytest.mark.parametrize("make", [residual, concatenated, mobile])
def test_wide_sets_are_kept_where_they_help(make):
    """The quantized network is better for it, and the report says who took part."""
    graph, data = make(), samples(64)
    options = {"refinement": False, "weight_correction": False}
    found = quantize_with_report(graph, data, **options)
    assert any("was kept" in note for note in found.report.notes)
    assert len(found.report.equalized) >= 4
    without = quantize(graph, data, cross_layer=False, **options)
    wanted, new, old = (
        next(iter(values(g, data["x"]).values())) for g in (graph, found.graph, without)
    )
    assert ((new - wanted) ** 2).sum() < 0.7 * ((old - wanted) ** 2).sum()


def test_wide_sets_are_not_kept_where_channels_are_even_already():
    net = residual()
    for name in "abcd":  # all ranges are the same
        net[f"{name}_w"].value = np.sign(net[f"{name}_w"].value) / np.float32(8)
    report = quantize_with_report(net, samples(32)).report
    assert any("was not kept" in note for note in report.notes)
    assert report.not_equalized["a"] == "equalizing it was not better"
    assert report.equalized == ["b", "c"]  # two layers in a row, which changes nothing here


def test_ranges_of_channels_can_be_what_is_equalized():
    """Where weights have a scale for each output channel, those do not need it."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("ar", "relu", ["a"])
    net.conv("b", "ar", 4)
    graph = uneven(net, "a").done("b")
    given = samples(8)

    def ranges():
        found = Session(graph, keep=["ar", "b"], batched=True).run(given)
        return found["ar"].max(axis=(0, 1, 2)).astype(np.float64), found["b"]

    (before, wanted), kept = ranges(), graph["b_w"].value.copy()
    done = equalize(graph, ranges={"b": before})
    after, found = ranges()
    assert done.layers == ["a", "b"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    factor = after / before
    np.testing.assert_allclose(after, np.abs(graph["b_w"].value).max(axis=(0, 1, 2)), rtol=1e-4)
    np.testing.assert_allclose(graph["b_w"].value * factor, kept, rtol=1e-4, atol=1e-6)
    assert after.max() / after.min() < np.sqrt(before.max() / before.min()) * 2


def gated():
    """A block of squeeze and excitation: a gate from the channels' means opens the channels."""
    net = Net()
    net.conv("a", "x", 8)
    net.put("v", "avgpool2d", ["a"], WHOLE, (1, 1, 1, 8))
    net.conv("b", "v", 8, size=1)
    net.put("g", "hard-sigmoid", ["b"])
    net.put("m", "mul", ["g", "a"], shape=(1, 8, 8, 8))
    net.conv("c", "m", 6)
    return uneven(net, "a").done("c")


def test_channels_pass_what_opens_them_but_gates_stay_as_they_are():
    net, x = gated(), samples(4)["x"]
    before, apart = values(net, x)["c"], spread(net, "a")
    gate = Session(net, keep=["g"], batched=True).run({"x": x})["g"]
    done = equalize(net)
    assert done.layers == ["a", "b", "c"]
    assert spread(net, "a") < apart / 3
    np.testing.assert_allclose(values(net, x)["c"], before, rtol=1e-3, atol=1e-4)
    after = Session(net, keep=["g"], batched=True).run({"x": x})["g"]
    np.testing.assert_allclose(after, gate, rtol=1e-4, atol=1e-5)


def offset():
    """A channel that is hardly more than a large constant, as trained networks have them."""
    net = Net()
    net.conv("a", "x", 8)
    net.conv("b", "a", 8)
    net["a_b"].value[3] = -400
    net["b_w"].value[..., 3] /= 50
    net["b_b"].value = net["b_b"].value * 0
    return net.done("b")


def test_channels_with_large_values_shrink_by_the_room_of_what_reads_them():
    net, x = offset(), samples(8)["x"]
    (one,) = (found for found in find_sets(net) if found.producers == ["a"])

    def ranges():
        return np.abs(Session(net, keep=["a"], batched=True).run({"x": x})["a"]).max((0, 1, 2))

    wanted, before, weights = values(net, x)["b"], ranges(), np.abs(net["b_w"].value).max()
    assert shrink_outliers(net, [one], {"b": before.astype(np.float64)}) == ["a"]
    after = ranges()
    np.testing.assert_allclose(values(net, x)["b"], wanted, rtol=1e-3, atol=1e-3)
    assert after.max() < before.max() / 10
    np.testing.assert_allclose(after[before < after.max()], before[before < after.max()])
    assert np.abs(net["b_w"].value).max() == pytest.approx(weights)
    assert shrink_outliers(net, [one], {"b": after.astype(np.float64)}) == [], "once is enough"


def test_large_values_are_made_smaller_where_that_helps():
    graph, data = offset(), samples(64)
    options = {"refinement": False, "weight_correction": False}
    found = quantize_with_report(graph, data, **options)
    assert any("were made smaller in 1 layers, for example 'a'" in n for n in found.report.notes)
    without = quantize(graph, data, cross_layer=False, **options)
    wanted, new, old = (
        next(iter(values(g, data["x"]).values())) for g in (graph, found.graph, without)
    )
    assert ((new - wanted) ** 2).sum() < 0.1 * ((old - wanted) ** 2).sum()
