# SPDX-License-Identifier: Apache-2.0
"""``create_wego_graph``: a quantized frozen graph as a graph with one operator."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.graph_file import parse
from opendpu.frontend.tensorflow.graphdef import Node, split
from opendpu.frontend.tensorflow.importer import INPUT, load_nodes
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.quantize import complete
from vitis_vai.compiled import CompiledNetwork
from vitis_vai.enums import AccuracyMode
from vitis_vai.frozen import network_in, with_network
from vitis_vai.operator import place

LABEL = "input_graph_def"
_ROUNDING = ("FixNeuron", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "Identity")


def create_wego_graph(
    input_graph_def: Any,
    feed_dict: Mapping[str, Sequence[int]] | None = None,
    accuracy_mode: AccuracyMode = AccuracyMode.Default,
    *,
    target: str | None = None,
) -> Any:
    """Return a GraphDef that computes a quantized frozen graph on the DPU.

    Placeholders and outputs keep their names; an output that is rounded is there under the name
    of what is rounded, too, which is that of the float graph. The graph can be saved, and is
    computed in processes that have imported this package.

    Parameters
    ----------
    input_graph_def
        Of :func:`vitis_vai.quantize`; or with quantizing operators: AMD's ``FixNeuron``, or
        ``FakeQuantWithMinMax*``.
    feed_dict
        Shapes by placeholder, where the graph leaves sizes open; -1 is any batch.
    accuracy_mode
        As of :func:`vitis_vai.create_wego_model`.
    target
        Of older scripts: the DPU, by default ``XLNX_TARGET_NAME``.

    Raises
    ------
    ModelFormatError, UnsupportedError
        The graph cannot be converted, or is not quantized.
    """
    AccuracyMode(accuracy_mode)
    found = network_in(input_graph_def)
    if found is not None:
        network = CompiledNetwork(found.graph, LABEL, target)
        return with_network(input_graph_def, network.header, network.content)
    nodes = parse(input_graph_def.SerializeToString(), LABEL)
    shapes = {name: tuple(shape) for name, shape in (feed_dict or {}).items()}
    graph = complete(load_nodes(nodes, LABEL, "wego", shapes))
    network = CompiledNetwork(graph, LABEL, target)
    with tf.Graph().as_default() as made:
        heads = [
            tf.compat.v1.placeholder(tf.float32, [None, *shape[1:]], name=name)
            for name, shape in network.inputs.items()
        ]
        results = place(network.header, network.content, heads, network.open_shapes())
        for name, tensor in zip(network.names, results, strict=True):
            tf.identity(tensor, name=name)
            for other in _rounded(nodes, name):
                if other not in network.names:
                    tf.identity(tensor, name=other)
    return made.as_graph_def()


def _rounded(nodes: Mapping[str, Node], name: str) -> Iterator[str]:
    """Yield the names of the results of which an output is only the rounding."""
    while nodes[name].op in _ROUNDING:
        name, number = split(nodes[name].inputs[0])
        if number or nodes[name].op == INPUT:
            return
        yield name
