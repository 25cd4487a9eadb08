# SPDX-License-Identifier: Apache-2.0
"""CPU islands: few sessions, the right order, ONNX models as ops."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import xir
from opendpu.runtime import cpu
from opendpu.runtime.cpu.island import Island, _SessionStep
from opendpu_arch.errors import UnsupportedError


def data(graph: xir.Graph, name: str, shape: list[int], kind: str = "FLOAT32") -> xir.Op:
    return graph.create_op(name, "data", {"shape": shape, "data_type": kind})


def foreign(
    graph: xir.Graph, name: str, model: bytes, inputs: list[xir.Op], shape: list[int],
    output: int = 0, call: str = "call", kind: str = "FLOAT32",
) -> xir.Op:  # fmt: skip
    attrs = {
        "shape": shape, "data_type": kind, "model": model, "call": call, "output": output
    }  # fmt: skip
    return graph.create_op(name, "onnx", attrs, {"input": inputs})


def model_of(
    nodes: list[onnx.NodeProto], inputs: list[str], outputs: list[str], opset: int = 17
) -> bytes:
    graph = helper.make_graph(
        nodes, "call",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def sessions(island: Island) -> int:
    return sum(isinstance(step, _SessionStep) for step in island._steps)


def test_neighbours_are_one_session_around_a_python_op(rng):
    graph = xir.Graph("g")
    x = data(graph, "x", [1, 4])
    ops = [graph.create_op("a", "sigmoid", {}, {"input": [x]})]
    ops.append(
        graph.create_op("p", "hard-softmax", {"axis": 1, "type": "poly"}, {"input": [ops[0]]})
    )
    ops.append(graph.create_op("b", "tanh", {}, {"input": [x]}))
    ops.append(graph.create_op("c", "mul", {}, {"input": [ops[1], ops[2]]}))
    island = Island(ops, ["c"])
    assert sessions(island) == 2
    assert len(island._steps) == 3
    value = rng.standard_normal((1, 4)).astype(np.float32)
    gate = 2.0 ** (1 / (1 + np.exp(-value)))
    wanted = gate / gate.sum() * np.tanh(value)
    np.testing.assert_allclose(island.run({"x": value})["c"], wanted, rtol=1e-5)


def test_outputs_of_one_call_are_computed_once(rng):
    graph = xir.Graph("g")
    x = data(graph, "x", [1, 6])
    split = model_of([helper.make_node("Split", ["x"], ["a", "b"], axis=1)], ["x"], ["a", "b"])
    parts = [foreign(graph, f"y{n}", split, [x], [1, 3], output=n) for n in range(2)]
    total = graph.create_op("t", "sub", {}, {"input": parts})
    island = Island([*parts, total], ["t", "y0"])
    assert sessions(island) == 1
    value = rng.standard_normal((1, 6)).astype(np.float32)
    found = island.run({"x": value})
    np.testing.assert_array_equal(found["t"], value[:, :3] - value[:, 3:])
    np.testing.assert_array_equal(found["y0"], value[:, :3])


def test_two_operator_sets_are_two_sessions(rng):
    graph = xir.Graph("g")
    x = data(graph, "x", [1, 6])
    old, new = (
        model_of([helper.make_node("Erf", ["x"], ["y"])], ["x"], ["y"], v) for v in (13, 19)
    )
    first = foreign(graph, "a", old, [x], [1, 6], call="old")
    second = foreign(graph, "b", new, [first], [1, 6], call="new")
    island = Island([first, second], ["b"])
    assert sessions(island) == 2
    value = rng.standard_normal((1, 6)).astype(np.float32)
    assert island.run({"x": value})["b"].shape == (1, 6)


def test_names_inside_control_flow_do_not_meet_others(rng):
    """Both branches read a value from outside; two calls of the same model are in one session."""
    then, other = (
        helper.make_graph(
            [helper.make_node(kind, ["x", "x"], [f"{kind}_y"])], kind, [],
            [helper.make_empty_tensor_value_info(f"{kind}_y")],
        )
        for kind in ("Add", "Mul")
    )  # fmt: skip
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["truth"], to=TensorProto.BOOL),
        helper.make_node("If", ["truth"], ["y"], then_branch=then, else_branch=other),
    ]
    model = model_of(nodes, ["x"], ["y"])
    graph = xir.Graph("g")
    x = data(graph, "x", [3])
    first = foreign(graph, "a", model, [x], [3], call="one")
    second = foreign(graph, "b", model, [first], [3], call="two")
    island = Island([first, second], ["b"])
    assert sessions(island) == 1
    value = np.abs(rng.standard_normal(3)).astype(np.float32)
    np.testing.assert_allclose(island.run({"x": value})["b"], 4 * value, rtol=1e-6)
    np.testing.assert_array_equal(island.run({"x": np.zeros(3, np.float32)})["b"], np.zeros(3))


@pytest.mark.parametrize("fix_point", [None, 2])
def test_integers_that_are_moved_behind_a_conversion_stay_integers(rng, fix_point):
    """The session carries them as float32; without a ``fix_point`` of their tensor too."""
    graph = xir.Graph("g")
    x = data(graph, "x", [1, 2, 3, 4])
    bits = {"bit_width": 8, "if_signed": True, "round_mode": "DPU_ROUND"}
    fixed = graph.create_op("f", "float2fix", {"fix_point": 2, **bits}, {"input": [x]})
    moved = graph.create_op("y", "transpose", {"order": [0, 2, 1, 3]}, {"input": [fixed]})
    if fix_point is not None:
        moved.get_output_tensor().set_attr("fix_point", fix_point)
    value = rng.integers(-128, 128, (1, 2, 3, 4), np.int8)
    found = Island([fixed, moved], ["y"]).run({"x": value.astype(np.float32) / 4})["y"]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, value.transpose(0, 2, 1, 3))


def test_bool_is_uint8_in_files():
    graph = xir.Graph("g")
    x = data(graph, "x", [3], "UINT8")
    nodes = [helper.make_node("Not", ["x"], ["y"])]
    made = helper.make_graph(
        nodes, "call", [helper.make_tensor_value_info("x", TensorProto.BOOL, [3])],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, [3])],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(made, opset_imports=imports, ir_version=10).SerializeToString()
    op = foreign(graph, "y", model, [x], [3], kind="UINT8")
    found = Island([op], ["y"]).run({"x": np.array([0, 1, 0], np.uint8)})["y"]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [1, 0, 1])


def test_a_user_s_function_comes_before_the_session():
    graph = xir.Graph("g")
    op = graph.create_op("y", "sigmoid", {}, {"input": [data(graph, "x", [2])]})
    cpu.register("sigmoid")(lambda op, inputs: inputs[0] + 1)
    try:
        found = Island([op], ["y"]).run({"x": np.zeros(2, np.float32)})["y"]
    finally:
        cpu.unregister("sigmoid")
    np.testing.assert_array_equal(found, [1, 1])


def test_a_model_that_onnxruntime_refuses_is_one_clear_error():
    graph = xir.Graph("g")
    model = model_of([helper.make_node("NoSuchOperator", ["x"], ["y"])], ["x"], ["y"])
    op = foreign(graph, "y", model, [data(graph, "x", [2])], [2])
    with pytest.raises(
        UnsupportedError, match=r"onnxruntime refuses ops of graph 'island': .*NoSu"
    ):
        Island([op], ["y"])
