# SPDX-License-Identifier: Apache-2.0
"""Softmax and LayerNorm in parts: the same in float, and near it in integers."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import helper

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


def tabulate(graph: Graph, config: QuantizeConfig, least: float = 0.7) -> tuple[list[str], Demands]:
    """Replace what can be, judged by rows that differ less than threefold."""
    values = logits(graph["x"].shape[-1], least=least)
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


def check_noise(graph: FloatGraph, values: np.ndarray) -> None:
    """Check that parts add no more noise to an op than rounding to a byte, or next to nothing."""
    report = quantize_with_report(graph, {"x": values}, TABLES).report
    assert report is not None
    found = report.tabulated["op"]
    (rounding,) = (tensor.sqnr for tensor in report.tensors if tensor.name == "op")
    assert found is not None and rounding is not None
    assert 10 ** (-found / 10) - 10 ** (-rounding / 10) < max(10**-2.8, 10 ** (-rounding / 10))


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


def test_other_axes_and_ends_of_networks_stay_whole() -> None:
    assert tabulate(rows_of(16, axis=2), TABLES) == ([], Demands())
    last = rows_of(16)
    last.outputs = ["op"]
    last.prune()
    assert tabulate(last, TABLES) == ([], Demands())
    assert tabulate(rows_of(16, "onnx", **normalization(16, axis=2)), TABLES) == ([], Demands())


def test_masked_scores_stay_in_float() -> None:
    """-100 beside scores of some units leaves these no bits."""
    graph = rows_of(16)
    mask = np.zeros((1, 1, 12, 16))
    mask[..., 8:] = -100
    graph.add_const("mask", mask)
    graph.add("masked", "add", graph["twice"].shape, {"input": ["twice", "mask"]})
    graph["op"].inputs = {"input": ["masked"]}
    graph.sort()
    assert tabulate(graph, TABLES) == ([], Demands())


def test_rows_of_very_different_variance_stay_in_float() -> None:
    assert tabulate(rows_of(96, "onnx", **normalization(96)), TABLES, least=0.1) == ([], Demands())


def test_the_report_names_them() -> None:
    found = quantize_with_report(rows_of(16), {"x": logits(16)}, TABLES).report
    assert found is not None
    assert list(found.tabulated) == ["op"]
    assert any("in parts" in line and "dB, 'op'" in line for line in found.lines())
