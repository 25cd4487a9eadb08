# SPDX-License-Identifier: Apache-2.0
"""Calls of functions in a GraphDef become the nodes of the functions."""

import numpy as np
import pytest
from graph_defs import Network

from opendpu.frontend.tensorflow import functions, load_frozen
from opendpu.ops.session import Session
from opendpu_arch.errors import ModelFormatError


def halves(net):
    """Add a function of two arguments: the sum of its second's halves, and the first one's tail."""
    made = net.function("halves", ["whole", "axis"], {"sum": "add:z:0", "tail": "cut:output:1"})
    made.node("cut", "Split", "axis", "whole", "^checked", num_split=2)
    made.node("checked", "NoOp")
    made.node("add", "AddV2", "cut:output:0", "cut:output:1")
    return net


def test_calls_are_inlined(tmp_path, rng):
    net = halves(Network())
    outer = net.function("twice", ["x"], {"y": "both:z:0"})
    outer.const("axis", np.int32(1))
    outer.node("first", "StatefulPartitionedCall", "x", "axis:output:0", f="@halves")
    outer.node("second", "halves", "x", "axis:output:0")  # as TensorFlow 1 calls functions
    outer.node("both", "Sub", "first:sum:0", "second:tail:0")
    net.data("x", (1, 6))
    net.node("out", "PartitionedCall", "x", f="@twice")
    graph = load_frozen(net.write(tmp_path / "calls.pb"))
    x = rng.normal(size=(1, 6)).astype(np.float32)
    (found,) = Session(graph).run({"x": x}).values()
    np.testing.assert_array_equal(found, x[:, :3] + x[:, 3:] - x[:, 3:])
    assert any(node.name.startswith("out/first/") for node in graph)


def test_results_by_name(tmp_path, rng):
    net = Network()
    made = net.function("best", ["x"], {"places": "top:indices:0"})
    made.const("k", np.int32(2))
    made.node("top", "TopKV2", "x", "k:output:0")
    net.data("x", (1, 6))
    net.node("out", "PartitionedCall", "x", f="@best")
    x = rng.normal(size=(1, 6)).astype(np.float32)
    (found,) = Session(load_frozen(net.write(tmp_path / "top.pb"))).run({"x": x}).values()
    np.testing.assert_array_equal(found, np.argsort(-x)[:, :2])


def endless(net):
    net.function("a", ["x"], {"y": "next:y:0"}).node("next", "PartitionedCall", "x", f="@a")
    return "is in 100 others"


def growing(net):
    for i in range(8):
        made = net.function(f"f{i}", ["x"], {"y": "x"})
        for k in range(20):
            made.node(f"n{k}", "PartitionedCall" if i else "Neg", "x", f=f"@f{i - 1}")
    net.function("a", ["x"], {"y": "x"}).node("next", "PartitionedCall", "x", f="@f7")
    return "makes more than 200000 nodes of the graph"


def starved(net):
    net.function("a", ["x", "y"], {"z": "x"})
    return "has 1 inputs, but 'a' takes 2"


def dangling(net):
    net.function("a", ["x"], {"y": "gone:y:0"}).node("n", "Neg", "x")
    return "reads 'gone:y:0', which nothing in its function makes"


def nameless(net):
    net.function("a", ["x"], {"y": "n"}).node("n", "Neg", "x")
    return "reads 'n', which nothing in its function makes"


@pytest.mark.parametrize("build", [endless, growing, starved, dangling, nameless])
def test_faults(build, tmp_path):
    net = Network()
    message = build(net)
    net.data("x", (1, 6))
    net.node("out", "PartitionedCall", "x", f="@a")
    with pytest.raises(ModelFormatError, match=rf"bad\.pb: the call 'out\S*' {message}"):
        load_frozen(net.write(tmp_path / "bad.pb"))


def test_results_are_those_of_tensorflow():
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed (opendpu[tensorflow])")
    from tensorflow.python.framework import op_def_registry

    from opendpu.frontend.tensorflow import ops
    from opendpu.frontend.tensorflow.registry import HANDLERS

    assert ops
    for op in {*HANDLERS, *functions.RESULTS}:
        known = op_def_registry.get(op)
        names = tuple(result.name for result in known.output_arg) if known is not None else ()
        if len(names) > 1:
            told = functions.RESULTS.get(op, ())
            assert told and names[: len(told)] == told, op
