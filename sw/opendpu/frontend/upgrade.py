# SPDX-License-Identifier: Apache-2.0
"""ONNX files of operator sets 1 to 6 as files of set 7, the first that onnxruntime runs.

What differs is in the changelog of ONNX's operators: which axes meet is an attribute, so are
shapes, and some numbers are strings. Operators that ONNX had on trial then become, in files of any
set, what they stand for, and so do activations that the file's own set does not have yet.
"""

import math
from collections.abc import Iterable, Mapping

import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.def_use import with_origin
from opendpu.frontend.model_file import constants_of_nodes, constants_of_tensors
from opendpu.frontend.node_writer import NodeWriter, Rule, rewritten
from opendpu.frontend.opsets import OLDEST_OPSET, own_opset
from opendpu.frontend.upgrade_rules import OldNode, renew, rule_of
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

IMPLIED, FIRST_IMPORTS = 1, 3
"""The operator set of files whose format is too old to name one, and the first format that does."""
LARGEST = 1 << 12
"""Numbers of constants that may be shapes."""


def upgraded(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of set 7 for one of an older set; itself if it needs nothing.

    Nodes that make no sense stay as they are, and who reads them says what is wrong.
    """
    opset = _opset(model)
    ranks = _Ranks(model.graph) if 0 < opset < OLDEST_OPSET else None

    def rule(node: onnx.NodeProto) -> Rule | None:
        if node.domain not in DEFAULT_DOMAINS:
            return None
        renewing = (lambda writer: _renewed(writer, ranks, opset)) if ranks else None
        return rule_of(node, opset) or renewing

    made = rewritten(model, rule)
    if ranks and made is not model:
        _set_oldest(made)
    return made


def _opset(model: onnx.ModelProto) -> int:
    if not model.opset_import and 0 < model.ir_version < FIRST_IMPORTS:
        return IMPLIED
    return own_opset(model)


def _set_oldest(model: onnx.ModelProto) -> None:
    """Let a model say that its nodes are of set 7."""
    for item in model.opset_import:
        if item.domain in DEFAULT_DOMAINS:
            item.version = OLDEST_OPSET
    if not model.opset_import:
        model.opset_import.append(helper.make_opsetid("", OLDEST_OPSET))
    model.ir_version = max(model.ir_version, FIRST_IMPORTS)


class _Ranks:
    """How many axes tensors have, found node after node, and constants that say shapes."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        small = [item for item in graph.initializer if math.prod(item.dims) <= LARGEST]
        self.constants = {**constants_of_tensors(small), **constants_of_nodes(graph.node)}
        self._types = {
            item.name: item.type for item in (*graph.output, *graph.value_info, *graph.input)
        } | {
            item.name: helper.make_tensor_type_proto(item.data_type, item.dims)
            for item in graph.initializer
        }

    def of(self, name: str) -> int | None:
        """Return the rank of a tensor; nothing where it is not known."""
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        return len(kind.tensor_type.shape.dim)

    def learn(self, nodes: Iterable[onnx.NodeProto], given: Mapping[str, Array]) -> None:
        """Find the types of what nodes of set 7 make; ``given`` are constants that came along."""
        self.constants |= given
        imports = [helper.make_opsetid("", OLDEST_OPSET)]
        for node in nodes:
            known = {name: self._types[name] for name in node.input if name in self._types}
            shapes = {
                name: numpy_helper.from_array(self.constants[name], name)
                for name in node.input
                if name in self.constants
            }
            known |= {
                name: helper.make_tensor_type_proto(item.data_type, item.dims)
                for name, item in shapes.items()
            }
            try:
                schema = onnx.defs.get_schema(node.op_type, OLDEST_OPSET)
                found = onnx.shape_inference.infer_node_outputs(
                    schema, node, known, shapes, opset_imports=imports
                )
            except Exception:  # onnx raises what its C++ part happened to raise
                continue
            self._types |= {name: kind for name, kind in found.items() if name}


def _renewed(writer: NodeWriter, ranks: _Ranks, opset: int) -> list[onnx.NodeProto]:
    """Write a node in the terms of set 7."""
    node, first = writer.node, len(writer.graph.initializer)
    old = OldNode(writer, list(node.input), dict(writer.attrs), ranks.constants, ranks.of, opset)
    renew(old)
    made = helper.make_node(node.op_type, old.inputs, list(node.output), node.name, **old.attrs)
    nodes = [*writer.nodes, with_origin(made, node)]
    ranks.learn(nodes, constants_of_tensors(writer.graph.initializer[first:]))
    return nodes
