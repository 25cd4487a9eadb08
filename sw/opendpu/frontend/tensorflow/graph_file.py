# SPDX-License-Identifier: Apache-2.0
"""Serialized GraphDefs as nodes, without calls of functions. TensorFlow is not needed."""

import pathlib

from google.protobuf.message import DecodeError

from opendpu.frontend.tensorflow.functions import inlined
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.frontend.tensorflow.proto import Graph
from opendpu.frontend.whole_file import read_bytes
from opendpu_arch.errors import ModelFormatError


def parse(data: bytes, label: str) -> dict[str, Node]:
    """Return the nodes of a serialized GraphDef, by name.

    Raises
    ------
    ModelFormatError
        It is none, or two nodes have one name.
    """
    graph = Graph()
    try:
        graph.ParseFromString(data)
    except DecodeError:
        raise ModelFormatError(f"{label} is not a frozen graph: it is no GraphDef") from None
    nodes: dict[str, Node] = {}
    given = [Node(node.name, node.op, tuple(node.input), node.attr) for node in graph.node]
    for node in inlined(given, graph.library, label):
        if node.name in nodes:
            raise ModelFormatError(f"{label} has two nodes {node.name!r}")
        nodes[node.name] = node
    if not nodes:
        raise ModelFormatError(f"{label} is not a frozen graph: it has no nodes")
    return nodes


def read(path: pathlib.Path) -> dict[str, Node]:
    """Return the nodes in a file.

    Raises
    ------
    ModelFormatError
        It cannot be read, or is no GraphDef.
    """
    return parse(read_bytes(path), str(path))
