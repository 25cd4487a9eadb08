# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs as ONNX files: onnxruntime gives the DPU's numbers, and we read them back."""

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import BODIES, SHAPE, images, network, on_simulator, program

from opendpu.export import FORMS, to_onnx
from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.quantize import complete, quantize
from opendpu_arch.errors import UnsupportedError


def quantized(name: str) -> QuantizedGraph:
    return quantize(load_onnx(network(name)), {"image": images(32)}, refinement=False)


def by_onnxruntime(model: onnx.ModelProto, given: np.ndarray, *, optimized: bool = True):
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = (
        levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    results = [session.run(["y"], {"image": one[None]})[0] for one in given]
    return np.concatenate(results)


@pytest.mark.parametrize("optimized", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_onnxruntime_gives_the_numbers_of_the_program(name, optimized):
    graph = quantized(name)
    given = images(16, seed=5)
    wanted = on_simulator(graph, given)
    assert len(np.unique(wanted)) > 20
    found = by_onnxruntime(to_onnx(graph), given, optimized=optimized)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_numbers(form):
    graph = quantized("residual")
    given = images(4, seed=6)
    wanted = by_onnxruntime(to_onnx(graph), given)
    np.testing.assert_array_equal(by_onnxruntime(to_onnx(graph, form), given), wanted)


@pytest.mark.parametrize("name", BODIES)
def test_nothing_but_onnx_rounds_halves_to_even(name):
    graph = quantized(name)
    model = to_onnx(graph, exact=False)
    assert {node.domain for node in model.graph.node} == {""}
    assert not model.functions
    given = images(16, seed=5)
    wanted = on_simulator(graph, given)
    found = by_onnxruntime(model, given).reshape(wanted.shape)
    unit = 2.0 ** -graph[graph.outputs[0]].fix_point
    difference = np.abs(found - wanted) / unit
    assert 0 < (difference > 0).mean() < 0.2
    assert difference.max() <= 2


@pytest.mark.parametrize(("form", "exact"), [*((form, True) for form in FORMS), ("native", False)])
@pytest.mark.parametrize("name", BODIES)
def test_what_is_read_back_is_the_same_program(name, form, exact):
    graph = quantized(name)
    back = complete(load_onnx(to_onnx(graph, form, exact=exact)))
    assert program(back) == program(graph)


@pytest.mark.parametrize("form", FORMS)
def test_functions_are_of_the_operator_set_of_the_model(form):
    """Otherwise onnx's inliner, and who uses it, refuses the file."""
    graph = quantized("residual")
    model = to_onnx(graph, form, opset=20)
    (own,) = (item.version for item in model.opset_import if not item.domain)
    assert {item.version for f in model.functions for item in f.opset_import} == {own} == {20}
    assert program(complete(load_onnx(model))) == program(graph)


def test_the_model_is_valid_and_has_the_names_and_layout_of_the_users():
    model = to_onnx(quantized("average"))
    onnx.checker.check_model(model)
    (given,), (made,) = model.graph.input, model.graph.output
    shapes = [[d.dim_value for d in i.type.tensor_type.shape.dim] for i in (given, made)]
    assert (given.name, made.name) == ("image", "y")
    assert shapes == [list(SHAPE), [1, 8, 7, 8]]
    kinds = [node.op_type for node in model.graph.node]
    assert "Transpose" not in kinds
    assert kinds.count("QuantizeLinear") == 4
    values = {name for node in model.graph.node for name in node.output}
    assert {"image_fix", "c", "r_fix", "r_fix_dequantized"} <= values
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert {node.op_type: node.name for node in model.graph.node}["AveragePool"] == "p"


def test_names_of_nodes_differ_even_where_the_users_end_in_numbers():
    proto = network("residual")
    for node, name in zip(proto.graph.node, ("n", "n_1", "n_2", "n_1_1", "n_3"), strict=True):
        node.name = name
    graph = quantize(load_onnx(proto), {"image": images(16)}, refinement=False)
    for node in graph:  # as where one of the user's nodes became several
        if node.origin.name == "n_2":
            node.origin = graph["c"].origin
    names = [node.name for node in to_onnx(graph).graph.node]
    assert len(set(names)) == len(names)
    assert {"n", "n_1", "n_1_1", "n_3"} <= set(names)
    onnxruntime.InferenceSession(to_onnx(graph).SerializeToString())


def test_weights_are_stored_in_as_many_bits_as_they_have():
    model = to_onnx(quantized("average"))
    stored = {tuple(t.dims): t.data_type for t in model.graph.initializer if len(t.dims) == 4}
    assert stored == {(8, 4, 3, 3): onnx.TensorProto.INT8, (8, 8, 1, 1): onnx.TensorProto.INT8}


def test_a_free_batch():
    graph = quantized("residual")
    model = to_onnx(graph, dynamic_batch=True)
    given = images(5, seed=7)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {"image": given})
    np.testing.assert_array_equal(found, by_onnxruntime(to_onnx(graph), given))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("opset", [13, 14, 15, 18, 21])
def test_every_operator_set_gives_the_same(form, opset):
    graph = quantized("residual")
    model = to_onnx(graph, form, opset=opset)
    assert {item.version for item in model.opset_import if not item.domain} == {opset}
    given = images(3, seed=7)
    np.testing.assert_array_equal(
        by_onnxruntime(model, given), by_onnxruntime(to_onnx(graph, form), given)
    )


def test_what_cannot_be_written_is_refused():
    graph = quantized("average")
    with pytest.raises(UnsupportedError, match=r"form 'qdq' .* choose one of native, vai, vitis"):
        to_onnx(graph, "qdq")
    with pytest.raises(UnsupportedError, match="operator set is 12, but must be 13 or newer"):
        to_onnx(graph, opset=12)
