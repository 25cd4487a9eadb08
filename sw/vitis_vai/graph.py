# SPDX-License-Identifier: Apache-2.0
"""``create_wego_graph``: a quantized frozen graph as a graph with one operator."""

from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.graphdef import parse
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.quantize import complete
from vitis_vai.compiled import CompiledNetwork
from vitis_vai.enums import AccuracyMode

_ALIVE: list[CompiledNetwork] = []
"""Networks that graphs of this process refer to by number."""


def create_wego_graph(
    input_graph_def: Any,
    feed_dict: Mapping[str, Sequence[int]] | None = None,
    accuracy_mode: AccuracyMode = AccuracyMode.Default,
) -> Any:
    """Return a GraphDef that computes a quantized frozen graph on the DPU.

    Placeholders and outputs keep their names. The graph is for this process: its operator is a
    function in it.

    Parameters
    ----------
    input_graph_def
        With quantizing operators: AMD's ``FixNeuron``, or ``FakeQuantWithMinMax*``.
    feed_dict
        Shapes by placeholder, where the graph leaves sizes open.
    accuracy_mode
        As of :func:`vitis_vai.create_wego_model`.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The graph cannot be converted, or is not quantized.
    """
    AccuracyMode(accuracy_mode)
    nodes = parse(input_graph_def.SerializeToString(), "input_graph_def")
    shapes = {name: tuple(shape) for name, shape in (feed_dict or {}).items()}
    quantized = load_nodes(nodes, "input_graph_def", "wego", shapes)
    network = CompiledNetwork(complete(quantized), "input_graph_def")
    _ALIVE.append(network)
    with tf.Graph().as_default() as made:
        heads = [
            tf.compat.v1.placeholder(tf.float32, [None, *shape[1:]], name=name)
            for name, shape in network.inputs.items()
        ]
        for name, tensor in zip(network.outputs, network.operator(heads), strict=True):
            tf.identity(tensor, name=name)
    return made.as_graph_def()
