# SPDX-License-Identifier: Apache-2.0
"""Graphs of a session with variables as constants, and the shapes of what they compute."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorflow.python.framework import convert_to_constants

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from opendpu_arch.errors import UnsupportedError
from tf1_nndct.branches import as_taken

Shape = tuple[int | None, ...] | None
"""Of a tensor; nothing where not even the number of dimensions is known."""
PASSING = ("Identity", "ReadVariableOp", "StopGradient", "PreventGradient")
"""What gives its input."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """A frozen graph.

    Parameters
    ----------
    definition
        Its ``GraphDef``.
    nodes
        Its nodes by name, each behind those that it reads.
    shapes
        By the name of a tensor, ``node:0``.
    outputs
        Names of the nodes that are wanted.
    """

    definition: Any
    nodes: dict[str, Any]
    shapes: dict[str, Shape]
    outputs: tuple[str, ...]

    def constant(self, tensor: str) -> Any | None:
        """Return the constant that a node's input is, behind what only passes it on."""
        node = self.nodes[node_of(tensor)]
        while node.op in PASSING:
            node = self.nodes[node_of(node.input[0])]
        return node if node.op == "Const" else None

    def shape(self, tensor: str) -> Shape:
        """Return the shape of a node's input or of its first result."""
        return self.shapes[tensor if ":" in tensor else f"{tensor}:0"]


def node_of(tensor: str) -> str:
    """Return the node that makes a tensor, or that has to run before."""
    return tensor.removeprefix("^").partition(":")[0]


def value_of(node: Any) -> Array:
    """Return the value of a constant; writable."""
    return np.array(tf.make_ndarray(node.attr["value"].tensor))


def dimensions(node: Any) -> tuple[int, ...]:
    """Return the shape of a constant, whose value is not looked at."""
    return tuple(size.size for size in node.attr["value"].tensor.tensor_shape.dim)


def frozen(session: Any, outputs: Sequence[str]) -> Any:
    """Return the part of a session's graph that outputs need, variables as constants.

    Raises
    ------
    UnsupportedError
        The graph has no such node.
    """
    names = {node.name for node in session.graph.as_graph_def().node}
    for name in outputs:
        if name not in names:
            raise UnsupportedError(
                f"the graph has no node {name!r} of output_node_names",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
    return convert_to_constants.convert_variables_to_constants_from_session_graph(
        session, session.graph.as_graph_def(), list(outputs)
    )


def graph_of(definition: Any, specs: Mapping[str, Any], outputs: Sequence[str]) -> Graph:
    """Return a frozen graph with the shapes that follow from those of its inputs.

    Raises
    ------
    UnsupportedError
        An input is none, or its shape cannot be.
    """
    known = {node_of(name): spec for name, spec in specs.items()}
    taken, sized = as_taken(definition), type(definition)()
    sized.CopyFrom(taken)  # the graph itself keeps what it says: eval functions give batches
    for node in sized.node:
        if node.op == "Placeholder" and node.name in known:
            shape = tf.TensorShape(known.pop(node.name).shape).as_proto()
            node.attr["shape"].shape.CopyFrom(shape)
    if known:
        raise UnsupportedError(
            f"the graph has no input {next(iter(known))!r} of input_specs",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(sized, name="")
        except ValueError as error:
            raise UnsupportedError(
                f"input_specs do not fit the graph: {error}",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            ) from None
        shapes = {
            tensor.name: None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
            for operation in graph.get_operations() for tensor in operation.outputs
        }  # fmt: skip
        order = [operation.name for operation in graph.get_operations()]
    nodes = {node.name: node for node in taken.node}
    return Graph(definition, {name: nodes[name] for name in order}, shapes, tuple(outputs))
