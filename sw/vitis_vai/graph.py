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
from vitis_vai.frozen import network_in, with_network
from vitis_vai.operator import place

LABEL = "input_graph_def"


def create_wego_graph(
    input_graph_def: Any,
    feed_dict: Mapping[str, Sequence[int]] | None = None,
    accuracy_mode: AccuracyMode = AccuracyMode.Default,
) -> Any:
    """Return a GraphDef that computes a quantized frozen graph on the DPU.

    Placeholders and outputs keep their names. The graph can be saved, and is computed in processes
    that have imported this package.

    Parameters
    ----------
    input_graph_def
        Of :func:`vitis_vai.quantize`; or with quantizing operators: AMD's ``FixNeuron``, or
        ``FakeQuantWithMinMax*``.
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
    found = network_in(input_graph_def)
    if found is not None:
        network = CompiledNetwork(found.graph, LABEL)
        return with_network(input_graph_def, network.header, network.content)
    nodes = parse(input_graph_def.SerializeToString(), LABEL)
    shapes = {name: tuple(shape) for name, shape in (feed_dict or {}).items()}
    network = CompiledNetwork(complete(load_nodes(nodes, LABEL, "wego", shapes)), LABEL)
    with tf.Graph().as_default() as made:
        heads = [
            tf.compat.v1.placeholder(tf.float32, [None, *shape[1:]], name=name)
            for name, shape in network.inputs.items()
        ]
        sizes = [shape[1:] for shape in network.outputs.values()]
        results = place(network.header, network.content, heads, sizes)
        for name, tensor in zip(network.outputs, results, strict=True):
            tf.identity(tensor, name=name)
    return made.as_graph_def()
