# SPDX-License-Identifier: Apache-2.0
"""Graphs as files and pictures."""

import os

from xir import dot, serialize
from xir.op_graph import OpGraph


class Graph(OpGraph):
    """A model: quantized (one leaf of float and fix ops) or compiled (subgraphs by device)."""

    @staticmethod
    def deserialize(fname: str | os.PathLike[str]) -> "Graph":
        """Return the graph in an ``.xmodel`` file.

        Raises
        ------
        ModelFormatError
            The file cannot be read, is truncated or corrupt, or is no ``.xmodel``.
        """
        graph = Graph("")
        serialize.read(graph, fname)
        return graph

    @staticmethod
    def from_bytes(data: bytes) -> "Graph":
        """Return the graph in the bytes of a file; ModelFormatError if they hold none."""
        graph = Graph("")
        serialize.loads(graph, data)
        return graph

    def to_bytes(self) -> bytes:
        """Return the bytes of the file; the same graph always gives the same bytes."""
        return serialize.dumps(self)

    def serialize(self, fname: str | os.PathLike[str]) -> None:
        """Write the graph to an ``.xmodel`` file, all of it or nothing.

        Raises
        ------
        OutputError
            The file cannot be written; what was there before is untouched.
        """
        serialize.write(self, fname)

    def save_as_dot(self, fname: str | os.PathLike[str]) -> None:
        """Write the graph as a Graphviz file."""
        self._root.save_as_dot(fname)

    def save_as_image(self, fname: str | os.PathLike[str], format: str = "png") -> None:
        """Draw the graph with Graphviz, see :func:`xir.dot.draw`; ToolError if it is missing."""
        dot.draw(dot.render(self._root.picture()), fname, format)
