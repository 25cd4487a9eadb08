# SPDX-License-Identifier: Apache-2.0
"""Which nodes of a model stay in float: what ``quantize_static`` says by names and operators."""

import glob
from collections.abc import Collection, Iterable, Sequence

import onnx

from opendpu.frontend.model_file import reads
from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch.errors import UnsupportedError

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
        Nodes that are the only ones, or excepted; an empty list is as none.

    Raises
    ------
    UnsupportedError
        A node that the model has not.
    """
    nodes = list(model.graph.node)
    names = [name_of(node) for node in nodes]
    lists = {
        "input_nodes": input_nodes, "output_nodes": output_nodes,
        "nodes_to_quantize": nodes_to_quantize, "nodes_to_exclude": nodes_to_exclude,
    }  # fmt: skip
    for what, given in lists.items():
        unknown = sorted(set(given or ()) - set(names))
        if unknown:
            raise UnsupportedError(
                f"{what} names {unknown[0]!r}, but the model has no such node; it has "
                f"{', '.join(names[:5])}{' ...' * (len(names) > 5)}"
            )
    outside = set()
    if input_nodes:
        outside |= _before(nodes, set(input_nodes))
    if output_nodes:
        outside |= _behind(nodes, set(output_nodes))
    for node, name in zip(nodes, names, strict=True):
        other = bool(op_types_to_quantize) and node.op_type not in (op_types_to_quantize or ())
        left_out = bool(nodes_to_quantize) and name not in (nodes_to_quantize or ())
        if other or left_out or name in (nodes_to_exclude or ()):
            outside.add(name)
    return [name for name in names if name in outside]


def name_of(node: onnx.NodeProto) -> str:
    """Return the name of a node, or of its first output where it has none."""
    return str(node.name or next(iter(node.output), ""))


def as_overrides(names: Sequence[str]) -> tuple[Override, ...]:
    """Return the rule that leaves nodes in float."""
    if not names:
        return ()
    patterns = tuple(glob.escape(name) for name in names)
    return (Override(names=patterns, weights=FLOAT, bias=FLOAT, activation=FLOAT),)


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
