# SPDX-License-Identifier: Apache-2.0
"""Streaming networks: what they keep from call to call goes in and out."""

import numpy as np
import pytest
from tflite_files import Network, agree, options

from opendpu.frontend import load_model
from opendpu.ops.session import Session
from opendpu_arch.errors import ModelFormatError, UnsupportedError


def handle(net, name):
    made = options("VarHandle", sharedName=name, container="")
    return net.op("VAR_HANDLE", [], [f"{name}/handle"], made, dtype=object)


def test_what_a_call_leaves_for_the_next_one(tmp_path, rng):
    """A window of three steps over a signal: two are kept."""
    net = Network()
    net.data("x", (1, 1, 4))
    state = handle(net, "state")
    read = options("ReadVariable")
    net.op("READ_VARIABLE", [state], ["old"], read, shape=(1, 2, 4))
    net.op("READ_VARIABLE", [state], ["again"], read, shape=(1, 2, 4))
    joined = options("Concatenation", axis=1)
    net.op("CONCATENATION", ["old", "x"], ["window"], joined, shape=(1, 3, 4))
    first, size = net.const("first", np.int32([0, 1, 0])), net.const("size", np.int32([1, 2, 4]))
    net.op("SLICE", ["window", first, size], ["new"], options("Slice"), shape=(1, 2, 4))
    net.op("ASSIGN_VARIABLE", [state, "new"], [], options("AssignVariable"))
    axes = net.const("axes", np.int32([1]))
    net.op("MEAN", ["window", axes], ["mean"], options("Reducer", keepDims=False), shape=(1, 4))
    net.op("SUM", ["again", axes], ["y"], options("Reducer", keepDims=False), shape=(1, 4))
    graph = load_model(net.write(tmp_path / "net.tflite", ["mean", "y"]))
    assert [node.name for node in graph if node.kind == "data"] == ["x", "state"]
    assert list(graph.outputs) == ["mean", "y", "new"]
    session, signal = Session(graph), rng.standard_normal((8, 4)).astype(np.float32)
    state = np.zeros((1, 2, 4), np.float32)
    padded = np.concatenate([np.zeros((2, 4), np.float32), signal])
    for step in range(len(signal)):
        found = session.run({"x": signal[None, step : step + 1], "state": state})
        state = found["new"]
        window = padded[step : step + 3]
        np.testing.assert_allclose(found["mean"][0], window.mean(0), rtol=0, atol=1e-6)
        np.testing.assert_allclose(found["y"][0], window[:2].sum(0), rtol=0, atol=1e-6)


def test_a_variable_that_is_set_before_it_is_read_is_no_input(tmp_path, rng):
    net = Network()
    net.data("x", (1, 4))
    state = handle(net, "state")
    net.op("RELU", ["x"], ["positive"], shape=(1, 4))
    net.op("ASSIGN_VARIABLE", [state, "positive"], [], options("AssignVariable"))
    net.op("READ_VARIABLE", [state], ["back"], options("ReadVariable"), shape=(1, 4))
    net.op("ADD", ["back", "x"], ["y"], options("Add"), shape=(1, 4))
    path = net.write(tmp_path / "net.tflite", ["y"])
    graph = load_model(path)
    assert [node.name for node in graph if node.kind == "data"] == ["x"]
    assert list(graph.outputs) == ["y", "positive"]
    x = rng.standard_normal((1, 4)).astype(np.float32)
    found = Session(graph).run({"x": x})
    np.testing.assert_array_equal(found["positive"], np.maximum(x, 0))
    graph.outputs.remove("positive")
    agree(graph, path, {"x": x})


def test_inputs_that_always_have_one_value(tmp_path, rng):
    """Of a rank that the file gives, a state among them."""
    net = Network()
    net.data("x", (1, 3, 4))
    net.data("gain", ())
    state = handle(net, "state")
    read = options("ReadVariable")
    net.op("READ_VARIABLE", [state], ["old"], read, shape=(1, 3, 4))
    net.op("MUL", ["x", "gain"], ["m"], options("Mul"), shape=(1, 3, 4))
    net.op("ADD", ["m", "old"], ["y"], options("Add"), shape=(1, 3, 4))
    path = net.write(tmp_path / "net.tflite", ["y"])
    graph = load_model(path, input_values={"gain": 0.25, "state": np.full((1, 3, 4), 2.0)})
    assert [node.name for node in graph if node.kind == "data"] == ["x"]
    x = rng.standard_normal((1, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(Session(graph).run({"x": x})["y"], x / 4 + 2, rtol=1e-6)
    with pytest.raises(UnsupportedError, match="has input 'gains', but the inputs are: x"):
        load_model(path, input_values={"gains": 1})


def test_a_variable_without_a_name(tmp_path):
    net = Network()
    net.data("x", (1, 4))
    handle(net, "state")
    net.op("READ_VARIABLE", ["x"], ["y"], options("ReadVariable"), shape=(1, 4))
    path = net.write(tmp_path / "net.tflite", ["y"])
    with pytest.raises(
        ModelFormatError, match=r"net\.tflite: a variable is used that no VAR_HANDLE"
    ):
        load_model(path)
