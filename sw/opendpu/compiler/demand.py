# SPDX-License-Identifier: Apache-2.0
"""Options that change a quantized graph before it is compiled: input shapes and outputs."""

from collections.abc import Mapping, Sequence

import xir
from opendpu.compiler.options import ONLY_INPUT
from opendpu.ir import QuantizedGraph
from opendpu_arch.errors import GraphError, UnsupportedError


def with_input_shapes(graph: xir.Graph, shapes: Mapping[str, tuple[int, ...]]) -> xir.Graph:
    """Return the graph with inputs of these shapes, and all other shapes inferred again.

    Raises
    ------
    UnsupportedError
        There is no such input, or the ops do not fit together with these shapes.
    """
    heads = {op.get_name(): op for op in graph.get_ops() if op.get_type() == "data"}
    named = input_names(shapes, heads)
    if all(tuple(heads[name].get_output_tensor().dims) == shape for name, shape in named.items()):
        return graph
    changed = xir.Graph.from_bytes(graph.to_bytes())
    for name, shape in named.items():
        op = changed.get_op(name)
        assert op is not None
        op.set_attr("shape", list(shape))
    try:
        changed.infer_shape()
    except GraphError as error:
        raise UnsupportedError(
            f"option 'input_shape' does not fit the graph: {error}", code="XCOM_SIZE_UNMATCH"
        ) from None
    return changed


def input_names(
    shapes: Mapping[str, tuple[int, ...]], known: Mapping[str, object]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes by the names of inputs; UnsupportedError where one does not exist."""
    given = dict(shapes)
    if ONLY_INPUT in given and len(known) == 1:
        given[next(iter(known))] = given.pop(ONLY_INPUT)
    for name in given:
        if name not in known:
            label = f"input {name!r}" if name else "one shape without a name"
            raise UnsupportedError(
                f"option 'input_shape' has {label}, but the inputs are: {', '.join(known)}",
                code="XCOM_ITEM_UNDEFINED",
            )
    return given


def with_outputs(graph: QuantizedGraph, names: Sequence[str]) -> QuantizedGraph:
    """Return the graph with the results of other ops as its outputs.

    An op whose result is quantized stands for its ``fix``.

    Raises
    ------
    UnsupportedError
        The graph has no such op.
    """
    users = graph.consumer_map()
    outputs = []
    for name in names:
        if name not in graph.nodes or graph[name].kind in ("const", "data"):
            raise UnsupportedError(
                f"option 'output_ops' names {name!r}, but the graph has no such op; "
                f"its outputs are: {', '.join(graph.outputs)}",
                code="XCOM_USER_INVALID_OUTPUT_OPS",
            )
        behind = users[name]
        quantized = len(behind) == 1 and behind[0].kind == "fix"
        outputs.append(behind[0].name if quantized else name)
    changed = graph.copy()
    changed.outputs = list(dict.fromkeys(outputs))
    return changed
