# SPDX-License-Identifier: Apache-2.0
"""Finetuning and correction of weights: what is fitted, on which grids, and that it helps."""

import builtins
import dataclasses

import numpy as np
import pytest

from opendpu.ops.session import Session
from opendpu.quantize import quantize_with_report
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.finetune import correct_weights, finetune
from opendpu.quantize.finetune.blocks import find_blocks
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.rows import as_matrix, as_weights, form_of, inputs_at
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.scales.grid import rounded
from opendpu_arch.errors import UnsupportedError

from .float_nets import POINT, Net

PLAIN = {"weight_correction": False, "bias_correction": False, "refinement": False}


def samples(count, seed=1):
    """Return samples whose elements depend on each other, as those of pictures do."""
    basis = np.random.default_rng(0).standard_normal((6, 8 * 8 * 4))
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((count, 6)) @ basis + 0.1 * rng.standard_normal((count, 256)) + 0.5
    return {"x": made.reshape(count, 8, 8, 4).astype(np.float32)}


def residual() -> Net:
    """Two layers with ReLU, a third one, and the sum with what the second gave."""
    net = Net()
    one = net.put("r1", "relu", [net.conv("c1", "x", 8)])
    two = net.put("r2", "relu", [net.conv("c2", one, 8, 1)])
    three = net.conv("c3", two, 8)
    net.put("sum", "add", [two, three])
    return net.done("sum")


def placed() -> Net:
    """A layer and the sum with a constant that has a value for each element, such as a position."""
    net = Net()
    place = net.add_const("place", net.random.standard_normal((1, 8, 8, 8))).name
    net.put("sum", "add", [place, net.conv("c1", "x", 8)])
    net.conv("c2", "sum", 4, 1)
    return net.done("c2")


def gated() -> Net:
    net = Net(1)
    net.put("h", "hard-swish", [net.conv("c1", "x", 8)])
    net.conv("c2", "h", 4, 1)
    return net.done("c2")


def transposed() -> Net:
    net = Net(2)
    weights = net.random.standard_normal((6, 4, 4, 4)) / 4
    attrs = {"kernel": [4, 4], "stride": [2, 2], "pad": [1, 1, 1, 1], "pad_mode": "FLOOR"}
    inputs = {"input": ["x"], "weights": [net.add_const("t_w", weights).name]}
    net.put("t", "transposed-conv2d", inputs, attrs, (1, 16, 16, 6))
    return net.done("t")


def depthwise() -> Net:
    net = Net(3)
    weights = net.random.standard_normal((1, 3, 3, 4)) / 3
    attrs = {"kernel": [3, 3], "stride": [2, 2], "pad": [1, 0, 1, 0], "pad_mode": "FLOOR"}
    inputs = {"input": ["x"], "weights": [net.add_const("d_w", weights).name]}
    net.put("d", "depthwise-conv2d", inputs, attrs, (1, 4, 4, 4))
    return net.done("d")


def grouped() -> Net:
    net = Net(4)
    weights = net.random.standard_normal((6, 1, 1, 2))
    inputs = {"input": ["x"], "weights": [net.add_const("g_w", weights).name]}
    net.put("g", "conv2d", inputs, {**POINT, "group": 2}, (1, 8, 8, 6))
    return net.done("g")


def dense() -> Net:
    net = Net(5)
    weights = net.random.standard_normal((10, 256)) / 16
    inputs = {"input": ["x"], "weights": [net.add_const("p_w", weights).name]}
    net.put("p", "inner-product", inputs, {"axis": 1}, (1, 10))
    return net.done("p")


KINDS = {
    "transposed-conv2d": transposed, "depthwise-conv2d": depthwise, "conv2d": grouped,
    "inner-product": dense,
}  # fmt: skip


def narrowed(graph, bits):
    """Put the weights of a quantized graph on a grid of fewer bits."""
    for node in graph:
        if is_layer(node):
            fix = graph[node.inputs[parameters_of(node).weights][0]]
            constant = graph[fix.inputs["input"][0]]
            point = fix.fix_point - (8 - bits)
            quantization = dataclasses.replace(fix.quantization.at(point), bits=bits)
            fix.type = fix.type.with_quantization(quantization)
            low, high = quantization.limits
            steps = np.floor(constant.value * 2.0**point + 0.5).clip(low, high)
            constant.value = (steps * 2.0**-point).astype(np.float32)


def noise(graph, reference, given):
    (found,) = Session(graph, batched=True).run(given).values()
    (wanted,) = Session(reference, batched=True).run(given).values()
    return float(np.square(found - wanted).mean())


def made(network, bits=8, count=64):
    result = quantize_with_report(network, samples(count), **PLAIN)
    if bits < 8:
        narrowed(result.graph, bits)
    return result.graph, result.reference, calibration_samples(network, samples(count))


def on_grids(graph):
    for fix in (node for node in graph if node.kind == "fix"):
        value = graph[fix.inputs["input"][0]].value
        if value is not None:
            steps = value * 2.0**fix.fix_point
            assert (steps == np.rint(steps)).all()
            low, high = fix.quantization.limits
            assert low <= steps.min() <= steps.max() <= high


@pytest.mark.parametrize("kind", KINDS)
def test_rows_times_weights_are_what_onnxruntime_computes(kind):
    network = KINDS[kind]()
    (layer,) = (node for node in network if is_layer(node))
    weights = network[layer.inputs["weights"][0]].value
    given = samples(3)
    form = form_of(network, layer)
    (wanted,) = Session(network, batched=True).run(given).values()
    places = np.arange(wanted.size // wanted.shape[-1])
    rows = inputs_at(layer, form, given["x"], wanted.shape, weights.shape, places)
    matrix = as_matrix(form, layer, weights)
    found = np.einsum("rkg,kgo->rgo", rows, matrix).reshape(wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert (as_weights(form, layer, matrix, weights.shape) == weights).all()


def test_blocks_end_behind_activations_gates_and_sums():
    graph, reference, _ = made(residual())
    blocks, left = find_blocks(graph, reference)
    assert not left
    assert [(b.layer.name, b.compared, b.others) for b in blocks] == [
        ("c1", "r1", ()), ("c2", "r2", ()), ("c3", "sum", ("r2_fix",)),
    ]  # fmt: skip
    graph, reference, _ = made(gated())
    blocks, _ = find_blocks(graph, reference)
    assert [(b.layer.name, b.compared) for b in blocks] == [("c1", "h"), ("c2", "c2")]


def test_a_constant_belongs_to_no_block():
    graph, reference, given = made(placed(), bits=4)
    blocks, left = find_blocks(graph, reference)
    assert not left
    assert [(b.layer.name, b.compared, b.others) for b in blocks] == [
        ("c1", "c1", ()), ("c2", "c2", ()),
    ]  # fmt: skip
    before = noise(graph, reference, samples(64, seed=2))
    correct_weights(graph, reference, given)
    assert noise(graph, reference, samples(64, seed=2)) < before


def test_layers_with_shared_weights_stay_as_they_are():
    net = Net()
    net.conv("c2", net.conv("c1", "x", 4, 1), 4, 1)
    graph, reference, _ = made(net.done("c2"))
    graph["c2"].inputs["weights"] = ["c1_w_fix"]
    blocks, left = find_blocks(graph, reference)
    assert not blocks
    assert left == dict.fromkeys(("c1", "c2"), "'c1_w_fix' is shared with another layer")


@pytest.mark.parametrize(
    ("network", "part"),
    [(residual, 0.8), (dense, 0.8), (depthwise, 0.97), (gated, 1), (transposed, 1), (grouped, 1)],
)
def test_correction_brings_results_of_coarse_weights_nearer(network, part):
    graph, reference, given = made(network(), bits=4)
    before = noise(graph, reference, samples(64, seed=2))
    found = correct_weights(graph, reference, given)
    assert part == 1 or any(one.kept for one in found)
    assert all(one.after < one.before for one in found if one.kept)
    on_grids(graph)
    assert noise(graph, reference, samples(64, seed=2)) <= part * before


def test_correction_says_which_layers_are_too_large(monkeypatch):
    monkeypatch.setattr("opendpu.quantize.finetune.fitting.CORRECTION_WORK", 5e5)
    graph, reference, given = made(residual(), bits=4)
    notes = []
    assert correct_weights(graph, reference, given, note=notes.append)
    text = (
        "correcting weights left out 2 layers, for example 'c1': its equations would take too long"
    )
    assert notes[0] == text


def test_correction_leaves_what_is_good():
    net = Net()
    net.conv("c1", "x", 4, 1)
    graph, reference, given = made(net.done("c1"))
    before = {node.name: node.value for node in graph if node.value is not None}
    assert correct_weights(graph, reference, given) == []
    assert all(graph[name].value is value for name, value in before.items())


@pytest.mark.parametrize("method", ["adaquant", "adaround"])
def test_finetuning_recovers_more_than_half_of_what_coarse_weights_cost(method):
    pytest.importorskip("torch")
    graph, reference, given = made(residual(), bits=4)
    fine, *_ = made(residual())
    test = samples(64, seed=2)
    before, best = noise(graph, reference, test), noise(fine, reference, test)
    found = finetune(graph, reference, given, FinetuneConfig(method=method, iterations=400))
    assert [one.kept for one in found] == [True] * 3
    on_grids(graph)
    assert noise(graph, reference, test) - best < 0.5 * (before - best)


def test_finetuning_is_deterministic_and_an_option_of_the_quantizer():
    pytest.importorskip("torch")
    texts = []
    options = {"weight_correction": False, "finetune": FinetuneConfig(iterations=20), "seed": 3}
    made = [
        quantize_with_report(gated(), samples(16), show=texts.append, **options).graph
        for _ in range(2)
    ]
    for node in made[0]:
        if node.value is not None:
            assert (node.value == made[1][node.name].value).all()
    assert any(text.startswith("finetuning: layer 2 of 2 (c2), ") for text in texts)


def test_a_network_that_gets_worse_is_put_back(monkeypatch):
    graph, reference, given = made(residual(), bits=4)
    before = {node.name: (node.value, node.type) for node in graph}
    monkeypatch.setattr("opendpu.quantize.finetune.guard.Guard.is_better", lambda self: False)
    notes = []
    found = correct_weights(graph, reference, given, note=notes.append)
    assert found
    text = "brought the network's results no nearer, so that constants stay as they were"
    assert notes == [f"correcting weights {text}"]
    assert not any(one.kept for one in found)
    assert all((graph[name].value, graph[name].type) == old for name, old in before.items())


@pytest.mark.parametrize(("least", "layers"), [(0.0, 3), (1e9, 1)])
def test_correction_ends_where_the_first_layers_gain_little(monkeypatch, least, layers):
    graph, reference, given = made(residual(), bits=4)
    before = {node.name: (node.value, node.type) for node in graph}
    for name, value in (("FIRST_PART", 3), ("FEWEST_LAYERS", 1), ("LEAST_GAIN", least)):
        monkeypatch.setattr(f"opendpu.quantize.finetune.fitting.{name}", value)
    notes = []
    found = correct_weights(graph, reference, given, note=notes.append)
    assert [one.kept for one in found] == [layers == 3] * layers
    if layers == 3:
        assert notes == []
        return
    assert notes[0].startswith("correcting weights ended behind 1 of 3 layers, which came ")
    assert all((graph[name].value, graph[name].type) == old for name, old in before.items())


def test_an_interruption_leaves_whole_layers():
    graph, reference, given = made(residual(), bits=4)

    def stop(text):
        if "layer 3" in text:
            raise KeyboardInterrupt

    untouched = graph["c3_w"].value
    with pytest.raises(KeyboardInterrupt):
        correct_weights(graph, reference, given, show=stop)
    on_grids(graph)
    assert graph["c3_w"].value is untouched


def test_finetuning_without_pytorch_says_how_to_get_it(monkeypatch):
    graph, reference, given = made(gated())
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "torch":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    text = r"finetuning needs PyTorch, which is not installed: pip install 'opendpu\[torch\]'"
    with pytest.raises(UnsupportedError, match=text):
        finetune(graph, reference, given, FinetuneConfig())


def test_results_wait_in_files_where_memory_is_short(monkeypatch):
    monkeypatch.setattr("opendpu.quantize.finetune.forward.MEMORY_BYTES", 0)
    graph, _, given = made(residual(), count=8)
    passed = ForwardPass(graph, given, 8, size=3, batched=True)
    assert passed.counts == [3, 3, 2]
    passed.compute(["r1_fix"])
    session = Session(graph, keep=["r1_fix", "sum_fix"], batched=True)
    wanted = session.run({"x": samples(8)["x"]})
    np.testing.assert_array_equal(passed.result("r1_fix", 2), wanted["r1_fix"][6:])
    passed.compute(["sum_fix"])
    np.testing.assert_array_equal(passed.result("sum_fix", 1), wanted["sum_fix"][3:6])
    passed.close()


def test_roundings_of_the_model_are_those_of_fix():
    from opendpu.quantize.finetune.grids import Grid, nearest

    array = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 3
    np.testing.assert_array_equal(nearest(array, Grid(2.0**-5, -128, 127)), rounded(array, 5))
