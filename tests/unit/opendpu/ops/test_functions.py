# SPDX-License-Identifier: Apache-2.0
"""Chains of ops that are a function of one value."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.functions import Function, evaluate, function_of, functions, order_of

SHAPE = (1, 2, 3, 4)


def graph_of(*ops: tuple[str, str, list[str]], outputs: tuple[str, ...]) -> FloatGraph:
    """Return a graph of an input ``x``, constants ``one`` and ``many``, and ops."""
    graph = FloatGraph("test")
    graph.add("x", "data", SHAPE)
    graph.add("one", "const", (1,), value=np.float32([0.5]))
    graph.add("many", "const", (4,), value=np.arange(4, dtype=np.float32))
    for name, kind, sources in ops:
        graph.add(name, kind, SHAPE, {"input": sources})
    graph.outputs = list(outputs)
    return graph


def test_a_product_with_a_function_of_itself() -> None:
    graph = graph_of(
        ("base", "concat", ["x"]), ("s", "sigmoid", ["base"]), ("p", "mul", ["base", "s"]),
        outputs=("p",),
    )  # fmt: skip
    (found,) = functions(graph)
    assert found == Function("base", ("s", "p"))
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    np.testing.assert_allclose(evaluate(graph, found, x), x / (1 + np.exp(-x)), rtol=1e-5)


def test_constants_of_one_element_belong_to_it() -> None:
    graph = graph_of(
        ("a", "sub", ["one", "x"]), ("b", "div", ["a", "one"]), ("c", "exp", ["b"]), outputs=("c",)
    )
    (found,) = functions(graph)
    assert found == Function("x", ("a", "b", "c"))
    x = np.float32([-1, 0, 2])
    np.testing.assert_allclose(evaluate(graph, found, x), np.exp((0.5 - x) / 0.5), rtol=1e-6)


def test_a_constant_a_channel_does_not() -> None:
    graph = graph_of(("a", "sub", ["x", "many"]), ("b", "exp", ["a"]), outputs=("b",))
    (found,) = functions(graph)
    assert found == Function("a", ("b",))


def test_what_others_read_ends_a_chain() -> None:
    graph = graph_of(("a", "exp", ["x"]), ("b", "tanh", ["a"]), outputs=("a", "b"))
    assert functions(graph) == [Function("x", ("a",)), Function("a", ("b",))]


def test_two_values_are_no_function_of_one() -> None:
    graph = graph_of(
        ("y", "concat", ["x"]), ("a", "exp", ["y"]), ("b", "mul", ["a", "x"]), outputs=("b",)
    )
    assert functions(graph) == [Function("y", ("a",))]
    assert function_of(graph, "b", graph.consumer_map(), order_of(graph)) is None


def test_an_activation_that_its_engine_applies_stays_there() -> None:
    graph = graph_of(
        ("total", "add", ["x", "x"]), ("r", "relu", ["total"]), ("s", "sigmoid", ["r"]),
        outputs=("s",),
    )  # fmt: skip
    assert functions(graph)[-1] == Function("r", ("s",))


def test_operators_that_stay_onnx() -> None:
    nodes = [
        helper.make_node("Erf", ["x"], ["e"]),
        helper.make_node("Softplus", ["e"], ["s"]),
        helper.make_node("CumSum", ["s", "axis"], ["c"]),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in "xc"]
    axis = onnx.numpy_helper.from_array(np.array(1), "axis")
    graph = helper.make_graph(nodes, "foreign", values[:1], values[1:], [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    loaded = load_onnx(model)
    (found,) = functions(loaded)
    assert found.end == "s"
    assert "e" in found.nodes
