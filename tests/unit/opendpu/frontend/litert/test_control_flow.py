# SPDX-License-Identifier: Apache-2.0
"""Loops, branches and recurrent layers of TFLite files against LiteRT."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, agree, options

from opendpu.frontend.tflite import load_tflite
from opendpu_arch.errors import ModelFormatError, UnsupportedError

TANH, RELU = 4, 1


def weights(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32) * 0.5


def ints(*numbers):
    return np.array(numbers, np.int32)


def as_long_as(net, rounds):
    """Add the condition of a loop: fewer rounds than that."""
    graph = net.inner()
    count = graph.data("count", (), np.int32)
    graph.data("state", (2, 3))
    graph.op("LESS", [count, graph.const("most", np.int32(rounds))], ["on"], options("Less"),
             dtype=np.bool_)  # fmt: skip
    graph.outputs = ["on"]


def one_round(net, kind="TANH"):
    """Add the body of a loop: it counts, and changes a state."""
    graph = net.inner()
    count, state = graph.data("count", (), np.int32), graph.data("state", (2, 3))
    more = graph.op("ADD", [count, graph.const("one", np.int32(1))], ["more"], options("Add"),
                    dtype=np.int32)  # fmt: skip
    moved = graph.op("ADD", [state, graph.const("w", weights(2, 3))], ["moved"], options("Add"),
                     shape=(2, 3))  # fmt: skip
    graph.outputs = [more, graph.op(kind, [moved], ["changed"], shape=(2, 3))]


def looped(net, condition=1, body=2):
    """Add a loop over a count and a state; return its last state."""
    first = [net.const("zero", np.int32(0)), net.data("x", (2, 3))]
    net.op("WHILE", first, ["rounds", "last"],
           options("While", condSubgraphIndex=condition, bodySubgraphIndex=body),
           dtype=[np.int32, np.float32])  # fmt: skip
    return net.op("NEG", ["last"], ["y"], options("Neg"))


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_loops(rounds, tmp_path, rng):
    net = Network()
    as_long_as(net, rounds)
    one_round(net)
    path = net.write(tmp_path / "loop.tflite", [looped(net)])
    agree(load_tflite(path), path, {"x": rng.standard_normal((2, 3)).astype(np.float32)})


def test_loops_of_constants_are_not_computed_while_the_file_is_read(tmp_path):
    """Such a loop may have no end."""
    net = Network()
    as_long_as(net, 0x7FFFFFFF)
    one_round(net)
    looped(net)
    first = net.const("first", weights(2, 3))
    net.operators[0].inputs[1] = list(net.tensors).index(first)
    net.op("ADD", ["y", "x"], ["sum"], options("Add"))
    graph = load_tflite(net.write(tmp_path / "endless.tflite", ["sum"]))
    assert "onnx" in [node.kind for node in graph]


def choice(net):
    """Add two ways to go on, by the sign of a sum."""
    x = net.data("x", (2, 3))
    for kind in ("TANH", "NEG"):
        graph = net.inner()
        graph.outputs = [graph.op(kind, [graph.data("x", (2, 3))], ["made"], shape=(2, 3))]
    total = net.op("SUM", [x, net.const("axes", ints(0, 1))], ["total"], options("Reducer"))
    positive = net.op("GREATER", [total, net.const("none", np.float32(0))], ["positive"],
                      options("Greater"), dtype=np.bool_)  # fmt: skip
    return net.op("IF", [positive, x], ["y"],
                  options("If", thenSubgraphIndex=1, elseSubgraphIndex=2))  # fmt: skip


def test_branches(tmp_path, rng):
    net = Network()
    path = net.write(tmp_path / "branch.tflite", [choice(net)])
    graph, values = load_tflite(path), np.abs(rng.standard_normal((2, 3))).astype(np.float32)
    for x in (values, -values):
        agree(graph, path, {"x": x})


def test_what_is_in_loops_is_named_once(tmp_path):
    net = Network()
    as_long_as(net, 3)
    one_round(net, "LSH_PROJECTION")
    path = net.write(tmp_path / "odd.tflite", [looped(net)])
    with pytest.raises(UnsupportedError) as caught:
        load_tflite(path)
    assert str(caught.value) == (
        f"{path} has an operator that cannot be converted:\n"
        "  LSH_PROJECTION (no counterpart): changed"
    )


@pytest.mark.parametrize("body", [0, 7, -1])
def test_graphs_that_are_not_there(body, tmp_path):
    net = Network()
    as_long_as(net, 3)
    one_round(net)
    path = net.write(tmp_path / "odd.tflite", [looped(net, body=body)])
    with pytest.raises(ModelFormatError, match=rf"WHILE 'rounds': it refers to graph {body} of 3"):
        load_tflite(path)


def test_graphs_within_themselves(tmp_path):
    net = Network()
    as_long_as(net, 3)
    graph = net.inner()
    state = [graph.data("count", (), np.int32), graph.data("state", (2, 3))]
    graph.op("WHILE", state, ["c", "s"], options("While", condSubgraphIndex=1, bodySubgraphIndex=2),
             dtype=[np.int32, np.float32])  # fmt: skip
    graph.outputs = ["c", "s"]
    path = net.write(tmp_path / "odd.tflite", [looped(net)])
    with pytest.raises(ModelFormatError, match=r"WHILE 'c': it refers to graph 2 of 3"):
        load_tflite(path)


def test_graphs_that_double_at_each_step(tmp_path):
    """A small file, and 2**30 conversions."""
    net = Network()
    for number in range(2, 32):
        graph = net.inner()
        on, x = graph.data("on", (), np.bool_), graph.data("x", (2, 3))
        further = options("If", thenSubgraphIndex=number, elseSubgraphIndex=number)
        for name in ("one", "two"):
            graph.op("IF", [on, on, x], [f"{name} on", name], further, shape=(2, 3),
                     dtype=[np.bool_, np.float32])  # fmt: skip
        graph.outputs = ["on", "two"]
    last = net.inner()
    last.outputs = [last.data("on", (), np.bool_), last.data("x", (2, 3))]
    given = [net.data("on", (), np.bool_), net.data("x", (2, 3))]
    net.op("IF", [given[0], *given], ["z", "y"], dtype=[np.bool_, np.float32],
           options=options("If", thenSubgraphIndex=1, elseSubgraphIndex=1))  # fmt: skip
    path = net.write(tmp_path / "odd.tflite", ["y"])
    with pytest.raises(ModelFormatError, match="it leads through more than 512 graphs"):
        load_tflite(path)


def lstm(net, *, time_major, peepholes):
    """Add an LSTM of five units for seven steps of three values."""
    x = net.data("x", (7, 1, 3) if time_major else (1, 7, 3))
    given = [x, *(net.const(f"w{i}", weights(5, 3) + i / 9) for i in range(4))]
    given += [net.const(f"r{i}", weights(5, 5) - i / 9) for i in range(4)]
    given += [net.const(f"p{i}", weights(5) + i / 9) if peepholes else "" for i in range(3)]
    given += [net.const(f"b{i}", weights(5) * i) for i in range(4)]
    given += ["", "", net.variable("hidden", (1, 5)), net.variable("cell", (1, 5)), *[""] * 4]
    return net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", given, ["y"],
        options("UnidirectionalSequenceLSTM", fusedActivationFunction=TANH, timeMajor=time_major),
    )  # fmt: skip


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("peepholes", [True, False])
def test_lstm(time_major, peepholes, tmp_path, rng):
    net = Network()
    path = net.write(
        tmp_path / "lstm.tflite", [lstm(net, time_major=time_major, peepholes=peepholes)]
    )
    shape = (7, 1, 3) if time_major else (1, 7, 3)
    agree(load_tflite(path), path, {"x": rng.standard_normal(shape).astype(np.float32)})


@pytest.mark.parametrize("activation", [TANH, RELU, 0])
@pytest.mark.parametrize("time_major", [True, False])
def test_rnn(time_major, activation, tmp_path, rng):
    net = Network()
    shape = (6, 1, 3) if time_major else (1, 6, 3)
    given = [net.data("x", shape), net.const("w", weights(4, 3)), net.const("r", weights(4, 4)),
             net.const("b", weights(4)), net.variable("hidden", (1, 4))]  # fmt: skip
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_RNN", given, ["y"],
        options("SequenceRNN", fusedActivationFunction=activation, timeMajor=time_major),
    )  # fmt: skip
    path = net.write(tmp_path / "rnn.tflite", ["y"])
    agree(load_tflite(path), path, {"x": rng.standard_normal(shape).astype(np.float32)})


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"cellClip": 3.0}, "it clips its states"),
     ({"fusedActivationFunction": RELU}, "its activation must be tanh")],
)  # fmt: skip
def test_lstm_that_onnx_does_not_have(values, reason, tmp_path):
    net = Network()
    lstm(net, time_major=True, peepholes=False)
    for name, value in values.items():
        setattr(net.operators[-1].builtinOptions, name, value)
    path = net.write(tmp_path / "odd.tflite", ["y"])
    with pytest.raises(UnsupportedError, match=f"UNIDIRECTIONAL_SEQUENCE_LSTM \\({reason}\\): y"):
        load_tflite(path)
