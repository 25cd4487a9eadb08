# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a model stay in float: what ``quantize_static`` says by names and operators."""

import glob
import re
from collections.abc import Collection, Iterable, Sequence

import onnx

from opendpu.frontend.model_file import reads
from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch.errors import UnsupportedError

Part = tuple[Sequence[str], Sequence[str]]
"""A part of a graph: the nodes that it starts with, and those that it ends with."""

FLOAT = TensorSpec(number_format="float32")
"""How a tensor that is not quantized is quantized."""


def float_nodes(
    model: onnx.ModelProto,
    *,
    input_nodes: Collection[str] = (),
    output_nodes: Collection[str] = (),
    op_types_to_quantize: Collection[str] | None = None,
    nodes_to_quantize: Collection[str] | None = None,
    nodes_to_exclude: Collection[str] | None = None,
    subgraphs_to_exclude: Sequence[Part] = (),
) -> list[str]:
    """Return the names of the nodes that are not to be quantized, in order.

    Parameters
    ----------
    model
        The float model.
    input_nodes, output_nodes
        Nodes where quantization starts and ends, themselves included: what only leads to the first
        and what follows the last stays float.
    op_types_to_quantize
        Operators that are quantized; none or an empty list for all.
    nodes_to_quantize, nodes_to_exclude
        Nodes that are the only ones, or excepted; an empty list is as none. A name that begins
        with ``^`` is a regular expression for the beginning of names.
    subgraphs_to_exclude
        Parts of the graph that are excepted, each by the nodes that it starts and ends with.

    Raises
    ------
    UnsupportedError
        A node that the model has not.
    """
    nodes = list(model.graph.node)
    names = [name_of(node) for node in nodes]
    nodes_to_quantize = matching(names, nodes_to_quantize or ())
    nodes_to_exclude = matching(names, nodes_to_exclude or ())
    ends = [name for part in subgraphs_to_exclude for side in part for name in side]
    lists = {
        "input_nodes": input_nodes, "output_nodes": output_nodes,
        "nodes_to_quantize": nodes_to_quantize, "nodes_to_exclude": nodes_to_exclude,
        "subgraphs_to_exclude": ends,
    }  # fmt: skip
    for what, given in lists.items():
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise UnsupportedError(
                f"{what} names {unknown[0]!r}, but the model has no such node; it has "
                f"{', '.join(names[:5])}{' ...' * (len(names) > 5)}"
            )
    outside: set[str] = set()
    for starts, stops in subgraphs_to_exclude:
        outside |= _between(nodes, set(starts), set(stops))
    if input_nodes:
        outside |= _before(nodes, set(input_nodes))
    if output_nodes:
        outside |= _behind(nodes, set(output_nodes))
    for node, name in zip(nodes, names, strict=True):
        other = bool(op_types_to_quantize) and node.op_type not in (op_types_to_quantize or ())
        left_out = bool(nodes_to_quantize) and name not in nodes_to_quantize
        if other or left_out or name in nodes_to_exclude:
            outside.add(name)
    return [name for name in names if name in outside]


def matching(names: Sequence[str], patterns: Collection[str]) -> list[str]:
    """Return the names that are asked for: each as it is, or all that an expression stands for.

    Raises
    ------
    UnsupportedError
        It is no regular expression.
    """
    found = []
    for one in patterns:
        if not one.startswith("^"):
            found.append(one)
            continue
        try:
            found += [name for name in names if re.match(one, name)]
        except re.error as error:
            raise UnsupportedError(f"{one!r} is no regular expression: {error}") from None
    return found


def name_of(node: onnx.NodeProto) -> str:
    """Return the name of a node, or of its first output where it has none."""
    return str(node.name or next(iter(node.output), ""))


def as_overrides(names: Sequence[str]) -> tuple[Override, ...]:
    """Return the rule that leaves nodes in float."""
    if not names:
        return ()
    patterns = tuple(glob.escape(name) for name in names)
    return (Override(names=patterns, weights=FLOAT, bias=FLOAT, activation=FLOAT),)


def _between(nodes: Sequence[onnx.NodeProto], starts: set[str], stops: set[str]) -> set[str]:
    """Return the nodes on the ways from some to others, both included."""
    from_starts = starts | _behind(nodes, starts)
    needed = {tensor for node in nodes if name_of(node) in stops for tensor in reads(node)}
    found = starts | stops
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output) and name_of(node) in from_starts:
            found.add(name_of(node))
            needed.update(reads(node))
    return found


def _before(nodes: Sequence[onnx.NodeProto], starts: Collection[str]) -> set[str]:
    """Return the nodes that lead to some, but are none of them nor behind one."""
    needed = {tensor for node in nodes if name_of(node) in starts for tensor in reads(node)}
    found = set()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output) and name_of(node) not in starts:
            found.add(name_of(node))
            needed.update(reads(node))
    return found


def _behind(nodes: Iterable[onnx.NodeProto], ends: Collection[str]) -> set[str]:
    """Return the nodes that follow some, but are none of them."""
    reached: set[str] = set()
    found = set()
    for node in nodes:
        inside = name_of(node) in ends
        if inside or not reached.isdisjoint(reads(node)):
            reached.update(node.output)
            if not inside:
                found.add(name_of(node))
    return found
