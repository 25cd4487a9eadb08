# SPDX-License-Identifier: Apache-2.0
"""Softmax and LayerNorm in parts: the same in float, and near it in integers."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import helper

from opendpu.integer import IntegerNetwork
from opendpu.ir import FloatGraph, Graph
from opendpu.ops.session import Session
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu.quantize.config import Override, TensorSpec
from opendpu.quantize.placement.groups import Demands
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.transforms.tabulate import tabulate as _tabulate
from opendpu_arch.target import Target

TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip
POINT = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
FLOAT = TensorSpec(number_format="float32")
CPU = dataclasses.replace(
    TABLES, overrides=(Override(names=("cpu",), weights=FLOAT, activation=FLOAT),)
)
"""Whose op ``cpu`` stays in float."""


def tabulate(graph: Graph, config: QuantizeConfig, least: float = 0.7) -> tuple[list[str], Demands]:
    """Replace what can be, judged by rows that differ less than threefold."""
    values = logits(graph["x"].shape[-1], least=least, rows=graph["x"].shape[2])
    return _tabulate(graph, calibration_samples(graph, {"x": values}), config)


def conv(graph: Graph, name: str, source: str, channels: int) -> str:
    """Add a convolution of one pixel."""
    rng = np.random.default_rng(channels)
    shape = graph[source].shape
    weights = rng.standard_normal((channels, 1, 1, shape[-1])) / np.sqrt(shape[-1])
    given = {"input": [source], "weights": [graph.add_const(f"{name}_w", weights).name]}
    return graph.add(name, "conv2d", (*shape[:3], channels), given, POINT).name


def rows_of(count: int, kind: str = "softmax", rows: int = 12, **attrs: object) -> FloatGraph:
    """Return rows that are the input as it is, an op, and a layer that reads it."""
    graph = FloatGraph("rows")
    graph.add("x", "data", (1, 2, rows, count))
    graph.add("twice", "add", (1, 2, rows, count), {"input": ["x", "x"]})
    graph.add("op", kind, (1, 2, rows, count), {"input": ["twice"]}, attrs or {"axis": 3})
    graph.outputs = [conv(graph, "y", "op", 8)]
    return graph


def normalization(count: int, bias: bool = True, **attributes: object) -> dict[str, object]:
    """Return the attributes of an op that is ONNX's LayerNormalization."""
    rng = np.random.default_rng(count)
    constants = {"scale": rng.uniform(0.5, 1.5, count), "bias": rng.normal(0, 1, count)}
    names = ["scale", "bias"] if bias else ["scale"]
    node = helper.make_node("LayerNormalization", ["x", *names], ["y"], **attributes)
    infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("x", "y")]
    made = helper.make_graph(
        [node], "norm", infos[:1], infos[1:],
        [helper.make_tensor(n, onnx.TensorProto.FLOAT, [count], constants[n]) for n in names],
    )  # fmt: skip
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return {"model": model.SerializeToString(), "call": "norm", "output": 0}


def computed(graph: Graph, values: np.ndarray) -> np.ndarray:
    (found,) = Session(graph, keep=graph.outputs).run({"x": values}).values()
    return found


def logits(count: int, seed: int = 0, least: float = 0.2, rows: int = 12) -> np.ndarray:
    """Return scores as attention has them: rows of different spreads."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(least, 2, (1, 2, rows, 1))
    return (rng.standard_normal((1, 2, rows, count)) * spread).astype(np.float32)


@pytest.mark.parametrize("count", [2, 4, 5, 16, 17, 197, 256, 257, 1000])
def test_a_softmax_is_the_same_in_float(count: int) -> None:
    graph, values = rows_of(count), logits(count)
    wanted = computed(graph, values)
    names, demands = tabulate(graph, TABLES)
    assert names == ["op"] and demands.least and demands.same
    assert not any(node.kind == "softmax" for node in graph)
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("attributes", [{}, {"axis": -1, "epsilon": 1e-3}, {"axis": 3}])
def test_a_layer_norm_is_the_same_in_float(attributes: dict[str, object], *, bias: bool) -> None:
    graph, values = rows_of(24, "onnx", **normalization(24, bias, **attributes)), logits(24)
    wanted = computed(graph, values)
    assert tabulate(graph, TABLES) == (["op"], Demands())
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)


def test_a_term_of_the_cpu_keeps_no_sum_off_the_dpu() -> None:
    """As the embeddings of a language model, which a residual sum adds to what a layer makes."""
    graph = FloatGraph("residual")
    shape = (1, 2, 100, 256)
    graph.add("x", "data", shape)
    graph.add("cpu", "add", shape, {"input": ["x", "x"]})
    graph.add("sum", "add", shape, {"input": [conv(graph, "layer", "cpu", 256), "cpu"]})
    graph.add("op", "onnx", shape, {"input": ["sum"]}, normalization(256))
    graph.outputs = [conv(graph, "y", "op", 8)]
    values = logits(256, rows=100)
    wanted = computed(graph, values)
    assert tabulate(graph, CPU)[0] == ["op"]
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)


def test_what_only_the_cpu_makes_is_normalized_there() -> None:
    graph = FloatGraph("embeddings")
    shape = (1, 2, 12, 16)
    graph.add("x", "data", shape)
    graph.add("cpu", "add", shape, {"input": ["x", "x"]})
    graph.add("sum", "add", shape, {"input": ["cpu", "cpu"]})
    graph.add("op", "onnx", shape, {"input": ["sum"]}, normalization(16))
    graph.outputs = [conv(graph, "y", "op", 8)]
    assert tabulate(graph, CPU)[0] == []


def check_noise(graph: FloatGraph, values: np.ndarray) -> None:
    """Check that parts add no more noise to an op than rounding to a byte, or next to nothing."""
    report = quantize_with_report(graph, {"x": values}, TABLES).report
    assert report is not None
    found = report.tabulated["op"]
    (rounding,) = (tensor.sqnr for tensor in report.tensors if tensor.name == "op")
    assert found is not None and rounding is not None
    assert 10 ** (-found / 10) - 10 ** (-rounding / 10) < max(10**-2.8, 10 ** (-rounding / 10))


@pytest.mark.parametrize(("count", "scale"), [(20, 20.0), (20, 200.0), (300, 200.0)])
def test_a_softmax_of_large_scores_is_the_same_in_integers(count: int, scale: float) -> None:
    """Sums of scores and logarithms, whose scales are far apart, would drop the logarithms."""
    values = scale * logits(count)
    made = quantize_with_report(rows_of(count), {"x": values}, TABLES).graph
    wanted = computed(made, values)
    (found,) = IntegerNetwork(made).run({"x": values}).values()
    found = found * 2.0 ** -made[made.outputs[0]].fix_point
    assert np.square(wanted).sum() > 10**2.5 * np.square(wanted - found).sum()


@pytest.mark.parametrize("count", [16, 64, 197, 300])
def test_a_softmax_loses_little(count: int) -> None:
    check_noise(rows_of(count), np.concatenate([logits(count, seed) for seed in range(8)]))


def test_a_layer_norm_loses_little() -> None:
    graph = rows_of(96, "onnx", **normalization(96))
    check_noise(graph, np.concatenate([logits(96, seed, least=0.7) for seed in range(8)]))


@pytest.mark.parametrize(
    "config",
    [
        QuantizeConfig(), dataclasses.replace(TABLES, target=Target.from_name("B512")),
        dataclasses.replace(
            TABLES, overrides=(Override(kinds=("softmax",), weights=FLOAT, activation=FLOAT),)
        ),
        dataclasses.replace(
            TABLES, target=dataclasses.replace(Target.from_name("B512+table"), save_argmax=False)
        ),
    ],
    ids=["no target", "no tables", "kept in float", "no comparators"],
)  # fmt: skip
def test_what_keeps_a_softmax_whole(config: QuantizeConfig) -> None:
    assert tabulate(rows_of(16), config) == ([], Demands())


def test_ends_of_networks_and_norms_of_other_axes_stay_whole() -> None:
    last = rows_of(16)
    last.outputs = ["op"]
    last.prune()
    assert tabulate(last, TABLES) == ([], Demands())
    assert tabulate(rows_of(16, "onnx", **normalization(16, axis=2)), TABLES) == ([], Demands())


CAUSAL = np.triu(np.ones((16, 16), bool), 1)
HALF = np.broadcast_to(np.arange(16) >= 8, (16, 16))


def masked(hidden: np.ndarray, how: str, far: float = -100.0) -> FloatGraph:
    """Return rows of which some scores are hidden, in front of their softmax."""
    graph = rows_of(16, rows=16)
    shape = graph["twice"].shape
    bias = np.random.default_rng(4).standard_normal(shape).astype(np.float32)
    values = np.where(hidden, far, 0.0).astype(np.float32)
    if how == "Where":
        node = helper.make_node("Where", ["hidden", "far", "x"], ["y"])
        infos = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in ("x", "y")]
        flags = helper.make_tensor("hidden", onnx.TensorProto.BOOL, [1, 1, 16, 16], hidden.ravel())
        one = helper.make_tensor("far", onnx.TensorProto.FLOAT, [], [far])
        made = helper.make_graph([node], "hide", infos[:1], infos[1:], [flags, one])
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        attrs = {"model": model.SerializeToString(), "call": "hide", "output": 0}
        graph.add("masked", "onnx", shape, {"input": ["twice"]}, attrs)
    else:
        graph.add_const("mask", values[None, None] + (bias if how == "bias" else 0))
        graph.add("masked", "add", shape, {"input": ["mask", "twice"]})
    graph.add("same", "reshape", shape, {"input": ["masked"]}, {"shape": list(shape)})
    graph["op"].inputs = {"input": ["same"]}
    graph.sort()
    return graph


@pytest.mark.parametrize("far", [-100.0, -1e9, -np.inf])
@pytest.mark.parametrize("how", ["Add", "bias", "Where"])
@pytest.mark.parametrize("hidden", [CAUSAL, HALF], ids=["causal", "half"])
def test_hidden_scores(hidden: np.ndarray, how: str, far: float) -> None:
    """In float as before; in integers with little more noise than with no score hidden."""
    graph, values = masked(hidden, how, far), logits(16, rows=16)
    wanted = computed(graph, values)
    names, _ = tabulate(graph, TABLES)
    assert names == ["op"]
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=1e-3, atol=1e-4)
    samples = np.concatenate([logits(16, seed, rows=16) for seed in range(8)])
    report = quantize_with_report(masked(hidden, how, far), {"x": samples}, TABLES).report
    assert report is not None
    found = report.tabulated["op"]
    assert found is not None and found > 26


@pytest.mark.parametrize("far", [-100.0, float(np.finfo(np.float32).min), -np.inf])
@pytest.mark.parametrize("how", ["Add", "Where"])
def test_scores_are_hidden_in_float_without_tables(how: str, far: float) -> None:
    """Eight bits that hold the mask have no room for scores, and none hold infinity."""
    graph = masked(CAUSAL, how, far)
    plain = dataclasses.replace(TABLES, target=Target.from_name("B512"))
    values = logits(16, 9, rows=16)
    samples = np.concatenate([logits(16, seed, rows=16) for seed in range(8)])
    found = quantize_with_report(graph.copy(), {"x": samples}, plain)
    assert {"masked", "same", "op"} <= set(found.report.floating if found.report else [])
    assert "eight bits have no room" in found.graph["masked" if how == "Add" else "same"].reason
    wanted = computed(graph, values)
    np.testing.assert_allclose(
        computed(found.graph, values), wanted, atol=0.05 * np.abs(wanted).max()
    )


@pytest.mark.parametrize(("behind", "replaced"), [(1, []), (64, ["op"])])
def test_distributions_of_boxes_stay_in_float(behind: int, replaced: list[str]) -> None:
    """Sides of boxes are means of distributions: nothing else is behind these softmaxes."""
    graph = FloatGraph("head")
    graph.add("x", "data", (1, 2, 12, 64))
    scores = conv(graph, "scores", conv(graph, "wide", "x", 512), 16)
    graph.add("op", "softmax", (1, 2, 12, 16), {"input": [scores]}, {"axis": 3})
    graph.outputs = [conv(graph, "sides", "op", behind)]
    found, _ = tabulate(graph, TABLES)
    assert found == replaced
    if not replaced:
        assert "belongs to the head" in graph["op"].reason


@pytest.mark.parametrize(
    ("shape", "wide"), [((1, 60, 4, 16), 120), ((1, 7, 4, 16), 28), ((1, 3, 20, 16), 20)]
)
def test_short_rows_of_a_map_are_joined(shape: tuple[int, ...], wide: int) -> None:
    """Four sides of each box: what has one number a distribution is moved pixel by pixel."""
    graph = FloatGraph("sides")
    graph.add("x", "data", shape)
    graph.add("op", "softmax", shape, {"input": [conv(graph, "scores", "x", 16)]}, {"axis": 3})
    graph.outputs = [conv(graph, "y", "op", 600)]
    values = np.random.default_rng(2).standard_normal((2, *shape[1:])).astype(np.float32)
    wanted = Session(graph, batched=True).run({"x": values})["y"]
    assert _tabulate(graph, calibration_samples(graph, {"x": values}), TABLES)[0] == ["op"]
    assert graph["op_max"].shape[2] == wide
    found = Session(graph, batched=True).run({"x": values})["y"]
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())


def test_what_chooses_between_channels_is_no_head() -> None:
    """SKNet's last choice between kernels: a mean and a small layer are behind it."""
    graph = FloatGraph("choice")
    graph.add("x", "data", (1, 2, 12, 64))
    maps = conv(graph, "maps", conv(graph, "wide", "x", 512), 16)
    window = {"kernel": [12, 2], "stride": [12, 2], "pad": [0] * 4, "pad_mode": "FLOOR"}
    mean = graph.add("mean", "avgpool2d", (1, 1, 1, 16), {"input": [maps]}, window).name
    graph.add("op", "softmax", (1, 1, 1, 16), {"input": [conv(graph, "scores", mean, 16)]},
              {"axis": 3})  # fmt: skip
    chosen = graph.add("chosen", "mul", (1, 2, 12, 16), {"input": [maps, "op"]}).name
    graph.outputs = [conv(graph, "sides", chosen, 1)]
    assert tabulate(graph, TABLES)[0] == ["op"]


def test_rows_without_a_score_stay_in_float() -> None:
    hidden = CAUSAL.copy()
    hidden[5] = True
    names, demands = tabulate(masked(hidden, "Add"), TABLES)
    assert not names
    assert demands.floating.keys() == {"masked", "same"}


def test_rows_of_very_different_variance_stay_in_float() -> None:
    assert tabulate(rows_of(96, "onnx", **normalization(96)), TABLES, least=0.01) == ([], Demands())


@pytest.mark.parametrize("least", [0.3, 0.1])
def test_rows_of_different_variance_are_brought_nearer_first(least: float) -> None:
    """In float as before; in integers with the noise that a byte leaves of the smaller rows."""
    graph, values = rows_of(96, "onnx", **normalization(96)), logits(96, least=least)
    samples = np.concatenate([logits(96, seed, least=least) for seed in range(8)])
    wanted = computed(graph, values)
    assert tabulate(graph, TABLES, least)[0] == ["op"]
    assert sum(node.name.startswith("op_nearer") for node in graph) > 4
    np.testing.assert_allclose(computed(graph, values), wanted, rtol=2e-3, atol=2e-3)
    report = quantize_with_report(
        rows_of(96, "onnx", **normalization(96)), {"x": samples}, TABLES
    ).report
    assert report is not None
    found = report.tabulated["op"]
    assert found is not None and found > {0.3: 29, 0.1: 23}[least]


@pytest.mark.parametrize("least", [0.7, 0.1])
def test_rows_of_zeros_do_not_count(least: float) -> None:
    """They become the bias, however far from the other rows they are."""
    samples = np.concatenate([logits(96, seed, least=least) for seed in range(8)])
    samples[:, :, ::3] = 0
    graph = rows_of(96, "onnx", **normalization(96))
    wanted = computed(graph, samples[:1])
    made = quantize_with_report(graph, {"x": samples}, TABLES)
    assert made.report is not None
    assert made.report.tabulated["op"] > {0.7: 29, 0.1: 23}[least]
    error = (computed(made.graph, samples[:1]) - wanted)[:, :, ::3]
    assert np.abs(error).max() < 0.05


def test_the_report_names_them() -> None:
    found = quantize_with_report(rows_of(16), {"x": logits(16)}, TABLES).report
    assert found is not None
    assert list(found.tabulated) == ["op"]
    assert any("in parts" in line and "dB, 'op'" in line for line in found.lines())


def test_parts_that_are_made_to_saturate_are_no_remark() -> None:
    """Of each sum of a row all but what lies between 1 and 4 is cut off."""
    report = quantize_with_report(rows_of(64), {"x": logits(64)}, TABLES).report
    parts = {tensor.name: tensor.saturation for tensor in report.tensors}
    assert max(part for name, part in parts.items() if "sums" in name) > 0.1
    assert not any("saturate for more than" in note for note in report.notes)


@pytest.mark.parametrize("axis", [1, 2])
def test_a_softmax_of_another_axis_is_one_of_rows(axis):
    """As attention that mixes its heads has it: the heads are last."""
    graph = FloatGraph("heads")
    graph.add("x", "data", (1, 6, 5, 4))
    source = conv(graph, "before", "x", 8)
    graph.add("op", "softmax", (1, 6, 5, 8), {"input": [source]}, {"axis": axis})
    graph.outputs = [conv(graph, "y", "op", 3)]
    x = np.random.default_rng(4).standard_normal((4, 6, 5, 4)).astype(np.float32)
    wanted = computed(graph, x[:1])
    made = quantize_with_report(graph, {"x": x}, TABLES)
    quantized = made.graph
    assert list(made.report.tabulated) == ["op"]
    assert not [n for n in quantized if n.kind == "softmax"]
    found = Session(quantized).run({"x": x[:1]})[quantized.outputs[0]]
    assert np.square(found - wanted).mean() < np.square(wanted).mean() / 300
