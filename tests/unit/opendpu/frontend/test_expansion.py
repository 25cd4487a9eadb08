# SPDX-License-Identifier: Apache-2.0
"""Operators newer than onnxruntime's: those that ONNX defines by others, and renewed ones."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, reference

from opendpu.frontend import expansion, load_onnx, opsets
from opendpu.frontend.expansion import spelled_out
from opendpu.frontend.opsets import RENEWED
from opendpu.ops.session import Session
from opendpu_arch.errors import DPUError, UnsupportedError

NEWEST = onnx.defs.onnx_opset_version()


def model(node: onnx.NodeProto, opset: int, *shapes: tuple[int, ...]) -> onnx.ModelProto:
    """Return a model of one node with inputs of these shapes."""
    items = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip([name for name in node.input if name], shapes, strict=True)
    ]
    result = helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
    return helper.make_model(
        helper.make_graph([node], "net", items, [result]),
        opset_imports=[helper.make_opsetid("", opset)],
    )


def check(made: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Compare the graph with onnx's own reference of the operator."""
    feeds = {
        item.name: rng.standard_normal(
            [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for item in made.graph.input
    }
    (wanted,) = reference.ReferenceEvaluator(made).run(None, feeds)
    graph = load_onnx(made)
    orders = graph.attrs.get("onnx_order", {})
    given = {n: a.transpose(orders[n]) if n in orders else a for n, a in feeds.items()}
    ((name, found),) = Session(graph).run(given).items()
    wanted = wanted.transpose(orders[name]) if name in orders else wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(NEWEST < 28, reason="the installed onnx has no SwiGLU")
@pytest.mark.parametrize("known", [26, None])
def test_an_operator_that_onnx_defines_by_others(rng, monkeypatch, known):
    """An onnxruntime that does not know its set, or knows the set without the operator."""
    if known is not None:
        monkeypatch.setattr(expansion, "newest_opset", lambda: known)
    made = model(helper.make_node("SwiGLU", ["a", "b"], ["y"]), 28, (2, 3, 8), (2, 3, 8))
    check(made, rng)
    assert "swish" in {node.kind for node in load_onnx(made)}


@pytest.mark.skipif(NEWEST < 25, reason="the installed onnx has no local windows")
def test_attributes_that_onnxruntime_refuses(rng):
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"], left_window_size=1)
    check(model(node, 25, *[(1, 2, 6, 4)] * 3), rng)


@pytest.mark.parametrize("kind", RENEWED)
def test_renewed_definitions(kind, rng):
    opset = RENEWED[kind]
    if opset > NEWEST:
        pytest.skip("the installed onnx has no such definition")
    if kind == "Mod":
        made = model(helper.make_node(kind, ["a", "b"], ["y"], fmod=1), opset, (3, 4), (3, 4))
    elif kind == "Range":
        made = model(helper.make_node(kind, ["a", "b", "c"], ["y"]), opset, (), (), ())
        for item, value in zip(list(made.graph.input), (1.0, 9.0, 2.0), strict=True):
            made.graph.initializer.append(
                helper.make_tensor(item.name, TensorProto.FLOAT, [], [value])
            )
        del made.graph.input[:]
        made.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]))
        made.graph.node.append(helper.make_node("Add", ["x", "y"], ["z"]))
        made.graph.output[0].name = "z"
    else:
        made = model(helper.make_node(kind, ["a"], ["y"], blocksize=2), opset, (1, 3, 4, 6))
    check(made, rng)


@pytest.mark.parametrize("known", [27, None])
def test_a_renewed_definition_with_its_new_attribute(rng, monkeypatch, known):
    """There is no older operator like it, so that ONNX's definition by others is taken."""
    if known is not None:
        monkeypatch.setattr(expansion, "newest_opset", lambda: known)
    if RENEWED["SpaceToDepth"] > NEWEST:
        pytest.skip("the installed onnx has no such definition")
    node = helper.make_node("SpaceToDepth", ["a"], ["y"], blocksize=2, mode="CRD")
    check(model(node, 28, (1, 3, 4, 6)), rng)


def test_a_newer_definition_that_means_something_else_is_refused(monkeypatch):
    monkeypatch.setattr(opsets, "newest_opset", lambda: NEWEST - 1)
    node = helper.make_node("BitShift", ["a", "b"], ["y"], direction="LEFT")
    made = model(node, NEWEST, (3, 4), (3, 4))
    for item in (*made.graph.input, *made.graph.output):
        item.type.tensor_type.elem_type = TensorProto.INT8
    with pytest.raises(UnsupportedError, match=rf"uses ONNX operator set {NEWEST}, but 1 to \d+"):
        load_onnx(made)


def test_an_old_operator_set_whose_operators_mean_the_same(rng):
    check(model(helper.make_node("Relu", ["a"], ["y"]), 6, (1, 3, 4, 6)), rng)


def test_regions_are_taken_where_onnxruntime_has_only_the_older_definition(rng):
    node = helper.make_node(
        "RoiAlign", ["a", "rois", "which"], ["y"], output_height=2, output_width=2,
        sampling_ratio=2, coordinate_transformation_mode="half_pixel",
    )  # fmt: skip
    made = model(node, 22, (1, 3, 8, 8), (2, 4), (2,))
    del made.graph.input[1:]
    made.graph.initializer.append(
        helper.make_tensor("rois", TensorProto.FLOAT, [2, 4], [0, 0, 4, 4, 2, 1, 7, 6])
    )
    made.graph.initializer.append(helper.make_tensor("which", TensorProto.INT64, [2], [0, 0]))
    check(made, rng)


def test_a_model_without_such_operators_is_the_same_object():
    made = model(helper.make_node("Relu", ["a"], ["y"]), 17, (1, 4))
    assert spelled_out(made) is made


@pytest.mark.parametrize("version", [1 << 40, -(1 << 40)])
def test_versions_that_no_opset_has(version):
    """Found by fuzzing: onnx takes 32 bits."""
    with pytest.raises(DPUError):
        load_onnx(model(helper.make_node("Mish", ["x"], ["y"]), version, (1, 2)))
