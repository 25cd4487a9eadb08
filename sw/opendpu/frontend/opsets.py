# SPDX-License-Identifier: Apache-2.0
"""Which operator sets a model uses, and which of them can be handled."""

import functools
from collections.abc import Iterable

import onnx
from onnx import helper

from opendpu.frontend.model_file import inner_graphs
from opendpu.frontend.single_node import Dialect, RefusedError
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu_arch.errors import ModelFormatError, UnsupportedError

OLDEST_OPSET = 7
"""First operator set that the handlers know; the last is the newest that onnxruntime runs."""


def opsets_of(label: str, model: onnx.ModelProto) -> dict[str, int]:
    """Return the versions of the operator sets by domain; ONNX's own is ``""``.

    A version that onnxruntime does not run yet is taken for the newest that it runs, where the
    model's operators mean the same in it. ``label`` is the model's name in messages.

    Raises
    ------
    ModelFormatError
        The model has nodes of ONNX's own operator set, but does not say of which version.
    UnsupportedError
        The version is too old or too new.
    """
    found = {
        "" if item.domain in DEFAULT_DOMAINS else item.domain: int(item.version)
        for item in model.opset_import
    }
    if "" not in found:
        if any(node.domain in DEFAULT_DOMAINS for node in model.graph.node) or not model.graph.node:
            raise ModelFormatError(f"{label} imports no version of the ai.onnx operator set")
        found[""] = newest_opset()
    opset, newest = found[""], newest_opset()
    if newest < opset <= onnx.defs.onnx_opset_version() and _means_the_same(
        model.graph.node, opset, newest
    ):
        found[""] = newest
    if not OLDEST_OPSET <= found[""] <= newest:
        raise UnsupportedError(
            f"{label} uses ONNX operator set {opset}, but {OLDEST_OPSET} to {newest} are supported"
        )
    return found


@functools.cache
def newest_opset() -> int:
    """Return the newest version of ONNX's operator set that the installed onnxruntime runs."""
    for version in range(onnx.defs.onnx_opset_version(), OLDEST_OPSET, -1):
        dialect = Dialect({"": version})
        node = helper.make_node("Relu", ["x"], ["y"])
        kind = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [1])
        try:
            dialect.session(dialect.model([node], {"x": kind}, {}, ["y"]))
        except RefusedError:
            continue
        return version
    return OLDEST_OPSET


def _means_the_same(nodes: Iterable[onnx.NodeProto], opset: int, older: int) -> bool:
    """Return whether operators have the same definition in an older set, but for more types."""
    for node in nodes:
        if node.domain in DEFAULT_DOMAINS:
            try:
                one, other = (onnx.defs.get_schema(node.op_type, v) for v in (opset, older))
            except onnx.defs.SchemaError:
                return False
            if one.since_version != other.since_version and _form(one) != _form(other):
                return False
        inner = (graph for item in node.attribute for graph in inner_graphs(item))
        if not all(_means_the_same(graph.node, opset, older) for graph in inner):
            return False
    return True


def _form(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """Return what a definition says, element types excluded."""
    attributes = {
        name: (item.type, item.required, item.default_value.SerializeToString())
        for name, item in schema.attributes.items()
    }
    inputs = [(item.name, item.option) for item in schema.inputs]
    outputs = [(item.name, item.option) for item in schema.outputs]
    return attributes, inputs, outputs, " ".join((schema.doc or "").split())
