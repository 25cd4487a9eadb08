# SPDX-License-Identifier: Apache-2.0
"""Masks of attention that are computed of an input: scores keep eight bits of their own."""

import dataclasses

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu_arch.target import Target

COUNT, HEADS = 12, 2
TABLES = QuantizeConfig(
    target=Target.from_name("B512+table"), cross_layer=False, bias_correction=False,
    weight_correction=False, refinement=False,
)  # fmt: skip


def attention(how: str, *, guarded: bool = False) -> onnx.ModelProto:
    """Return scores of a layer, a mask of 1 and 0, their softmax and a layer."""
    random, nodes, constants = np.random.default_rng(2), [], {}

    def node(kind: str, inputs: list[str], output: str, **attrs: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attrs))
        return output

    def const(name: str, value: np.ndarray) -> str:
        constants[name] = numpy_helper.from_array(value, name)
        return name

    def weights(name: str) -> str:
        values = random.standard_normal((COUNT, COUNT)) / 2
        return const(name, values.astype(np.float32))

    scores = node("MatMul", ["x", weights("w0")], "scores")
    if how == "times":
        one = const("one", np.float32(1))
        hidden = node("Sub", [one, node("Cast", ["mask"], "real", to=1)], "hidden")
        added = node("Mul", [hidden, const("far", np.float32(-10000))], "added")
    else:
        far = const(
            "far", np.float32({"infinity": -np.inf, "least": np.finfo(np.float32).min}[how])
        )
        seen = node("Cast", ["mask"], "seen", to=9)
        added = node("Where", [seen, const("none", np.float32(0)), far], "added")
    made = node("Softmax", [node("Add", [scores, added], "masked")], "softmax", axis=3)
    if guarded:
        check = node("IsNaN", [made], "check")
        made = node("Where", [check, const("zero", np.float32(0)), made], "whole")
    node("MatMul", [made, weights("w1")], "y")
    shape = (1, HEADS, COUNT, COUNT)
    graph = helper.make_graph(
        nodes, "attention",
        [helper.make_tensor_value_info("x", 1, shape),
         helper.make_tensor_value_info("mask", 7, (1, 1, 1, COUNT))],
        [helper.make_tensor_value_info("y", 1, shape)], list(constants.values()),
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def samples(count: int) -> dict[str, np.ndarray]:
    """Return scores, and masks of rows from half to all of their length."""
    random = np.random.default_rng(5)
    x = random.standard_normal((count, HEADS, COUNT, COUNT)).astype(np.float32)
    length = random.integers(COUNT // 2, COUNT + 1, (count, 1, 1, 1))
    return {"x": x, "mask": (np.arange(COUNT) < length).astype(np.int64)}


def noise(model: onnx.ModelProto, config: QuantizeConfig) -> tuple[float, list[str]]:
    """Return the signal to noise of the integers in dB, and what stays in float."""
    graph, given = load_onnx(model), samples(8)
    found = quantize_with_report(graph, given, config)
    assert found.report is not None
    (ratio,) = found.report.outputs_sqnr.values()
    assert ratio is not None
    return ratio, list(found.report.floating)


@pytest.mark.parametrize("how", ["times", "infinity", "least"])
def test_softmax_is_the_dpus_and_loses_little(how: str) -> None:
    ratio, floating = noise(attention(how), TABLES)
    assert ratio > 24
    assert not {"softmax", "masked", "scores", "y"} & set(floating)


def test_what_replaces_nan_is_left_out() -> None:
    ratio, floating = noise(attention("infinity", guarded=True), TABLES)
    assert ratio > 24
    assert not {"softmax", "check", "whole"} & set(floating)


def test_without_tables_sum_and_softmax_stay_in_float() -> None:
    plain = dataclasses.replace(TABLES, target=Target.from_name("B512"))
    ratio, floating = noise(attention("least"), plain)
    assert ratio > 24
    assert {"masked", "added"} <= set(floating)


def test_hidden_scores_have_no_part_in_the_result() -> None:
    """What they are multiplied with behind the softmax may be anything."""
    model, given = attention("infinity"), samples(8)
    found = quantize_with_report(load_onnx(model), given, TABLES)
    (softmax,) = (n for n in found.graph if n.name == "softmax")
    (fix,) = (n for n in found.graph.consumers("softmax") if n.kind == "fix")
    assert softmax.kind == "reshape"
    found.graph.outputs = [fix.name]
    probabilities = IntegerNetwork(found.graph)
    integers = np.clip(np.rint(given["x"] * 2.0**4), -128, 127).astype(np.int8)
    (made,) = probabilities.run({"x": integers, "mask": given["mask"]}).values()
    hidden = np.broadcast_to(given["mask"] == 0, made.shape)
    assert hidden.any()
    assert not made[hidden].any()
    assert made[~hidden].any()
