# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers whose batch comes first (``layout=1``), which onnxruntime has not.

Transposes around a layer with the sequence first compute the same.
"""

from collections.abc import Iterable, Iterator

import onnx
from onnx import helper

from opendpu.frontend.model_file import all_nodes, inner_graphs
from opendpu.ops.foreign import DEFAULT_DOMAINS

RECURRENT = ("LSTM", "GRU", "RNN")
STATES = (5, 6)
"""Inputs that are states, beside the sequence: initial_h, initial_c."""
SWAPPED = (1, 0, 2)
"""Batch and sequence, or batch and directions, in the other order."""
SEQUENCE = (2, 0, 1, 3)
"""[sequence, directions, batch, hidden] with the batch in front."""


def sequence_first(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose recurrent layers have the sequence first; names are kept."""
    if not any(_is_batch_first(node) for node in all_nodes(model.graph.node)):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _rewrite(made.graph)
    return made


def _is_batch_first(node: onnx.NodeProto) -> bool:
    return (
        node.op_type in RECURRENT
        and node.domain in DEFAULT_DOMAINS
        and any(item.name == "layout" and item.i == 1 for item in node.attribute)
    )


def _rewrite(graph: onnx.GraphProto) -> None:
    """Replace the layers of a graph, and of graphs inside its nodes, in place."""
    nodes = [made for node in graph.node for made in _replaced(node)]
    del graph.node[:]
    graph.node.extend(nodes)


def _replaced(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    for attribute in node.attribute:
        for graph in inner_graphs(attribute):
            _rewrite(graph)
    return _around(node) if _is_batch_first(node) else [node]


def _around(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield a layer with transposes before and behind it.

    Their names begin with that of the first result, which is unique in a model.
    """
    layer = onnx.NodeProto()
    layer.CopyFrom(node)
    del layer.attribute[:]
    layer.attribute.extend(item for item in node.attribute if item.name != "layout")
    prefix = next(name for name in node.output if name)
    for index in (0, *STATES):
        if index < len(node.input) and node.input[index]:
            layer.input[index] = f"{prefix}/input{index}/transposed"
            yield _transposed(node.input[index], layer.input[index], SWAPPED)
    behind = []
    for index, name in enumerate(node.output):
        if name:
            layer.output[index] = f"{name}/transposed"
            behind.append(_transposed(layer.output[index], name, SWAPPED if index else SEQUENCE))
    yield layer
    yield from behind


def _transposed(source: str, result: str, axes: tuple[int, ...]) -> onnx.NodeProto:
    return helper.make_node("Transpose", [source], [result], name=result, perm=axes)
