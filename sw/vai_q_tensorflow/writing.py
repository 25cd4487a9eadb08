# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs as GraphDefs: to evaluate with TensorFlow, and to compile.

The former round with TensorFlow's ``FakeQuantWithMinMaxArgs``, which rounds halves up as the DPU
does, so that TensorFlow computes them without a library; the latter have AMD's ``FixNeuron``.
"""

from typing import Any

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Node, QuantizedGraph
from vai_q_tensorflow2.translation import translate

FAKE, FIX = "FakeQuantWithMinMaxArgs", "FixNeuron"
WEIGHTS, ACTIVATION = "wquant", "aquant"
"""What the names of quantizing operators end with."""


def graph_defs(graph: QuantizedGraph) -> tuple[bytes, bytes]:
    """Return the bytes of both files: to evaluate, and to compile.

    Nodes have the names that they have in the float graph, and placeholders any batch.

    Raises
    ------
    UnsupportedError
        An op that TensorFlow has not.
    """
    fixes = {f"{_shown(graph, node)}": node for node in graph if node.kind == "fix"}
    with tf.Graph().as_default() as made:
        feeds = {
            node.name: tf.compat.v1.placeholder(tf.float32, [None, *node.shape[1:]], name=node.name)
            for node in graph
            if node.kind == "data"
        }
        translate(
            graph, feeds,
            constant=lambda node: tf.constant(node.value, name=_legal(node.name)),
            named=lambda node: _shown(graph, node),
        )  # fmt: skip
    evaluated = made.as_graph_def()
    deployed = type(evaluated)()
    deployed.CopyFrom(evaluated)
    for item in deployed.node:
        if item.op == FAKE and item.name in fixes:
            _as_fix_neuron(item, fixes[item.name])
    return evaluated.SerializeToString(), deployed.SerializeToString()


def _shown(graph: QuantizedGraph, node: Node) -> str:
    """Return the name of a node in the file: a rounding has its source's, and what it is."""
    if node.kind != "fix":
        return _legal(node.name)
    source = graph[node.inputs["input"][0]]
    return f"{_legal(source.name)}/{ACTIVATION if source.value is None else WEIGHTS}"


def _legal(name: str) -> str:
    """Return a name that TensorFlow takes."""
    return "".join(c if (c.isalnum() and c.isascii()) or c in "_./-" else "_" for c in name)


def _as_fix_neuron(item: Any, fix: Node) -> None:
    """Make AMD's operator of TensorFlow's."""
    item.op = FIX
    item.ClearField("attr")
    item.attr["T"].type = tf.float32.as_datatype_enum
    item.attr["bit_width"].i = fix.quantization.bits
    item.attr["quantize_pos"].i = fix.fix_point
    item.attr["if_signed"].b = True
    item.attr["round_mode"].i = 1  # halves up
