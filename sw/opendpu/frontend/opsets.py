# SPDX-License-Identifier: Apache-2.0
"""Which operator sets a model uses, and which of them can be handled."""

import functools
from collections.abc import Iterable

import onnx
from onnx import helper

from opendpu.frontend.model_file import all_nodes, label_of
from opendpu.frontend.single_node import Dialect, RefusedError
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu_arch.errors import ModelFormatError, UnsupportedError

FIRST_OPSET, OLDEST_OPSET = 1, 7
"""ONNX's first operator set, and the first that the handlers know: :mod:`opendpu.frontend.upgrade`
makes that of older ones. The last is the newest that onnxruntime runs."""


LAGGING = {
    "DequantizeLinear": 27, "OptionalGetElement": 27, "OptionalHasElement": 27,
    "QuantizeLinear": 27, "RoiAlign": 21,
}  # fmt: skip
"""Operators that onnxruntime has in older definitions only, with the last set that has those."""

BLOCKED = "com.microsoft.nchwc"
"""Domain of operators whose weights lie as one machine's CPU wants them, in blocks of its own."""

RENEWED = {"Mod": 28, "Range": 27, "SpaceToDepth": 28}
"""Operators whose definition says the same as the one before in other words, or with attributes
that change nothing where they are not given; the first set that has it."""


def opsets_of(label: str, model: onnx.ModelProto) -> dict[str, int]:
    """Return the versions of the operator sets by domain; ONNX's own is ``""``.

    A version that onnxruntime does not run yet, or no longer, is taken for the nearest that it
    runs, where the model's operators mean the same in it. ``label`` is the model's name in
    messages.

    Raises
    ------
    ModelFormatError
        The model has nodes of ONNX's own operator set, but does not say of which version.
    UnsupportedError
        There is no such version, or it is too new. Or onnxruntime saved the model for one machine.
    """
    _check_blocks(label, model)
    found = {
        "" if item.domain in DEFAULT_DOMAINS else item.domain: int(item.version)
        for item in model.opset_import
    }
    if "" not in found:
        if any(node.domain in DEFAULT_DOMAINS for node in model.graph.node) or not model.graph.node:
            raise ModelFormatError(f"{label} imports no version of the ai.onnx operator set")
        found[""] = newest_opset()
    opset, newest = found[""], newest_opset()
    nodes = model.graph.node
    nearest = min(max(opset, OLDEST_OPSET), newest)
    known = 0 < opset <= onnx.defs.onnx_opset_version()
    if known and nearest != opset and means_the_same(nodes, opset, nearest):
        found[""] = nearest
    for limit in sorted({LAGGING[n.op_type] for n in nodes if n.op_type in LAGGING}, reverse=True):
        if known and found[""] > limit and means_the_same(nodes, found[""], limit):
            found[""] = limit
    if not OLDEST_OPSET <= found[""] <= newest:
        raise UnsupportedError(
            f"{label} uses ONNX operator set {opset}, but {FIRST_OPSET} to {newest} are supported"
        )
    return found


def _check_blocks(label: str, model: onnx.ModelProto) -> None:
    """Refuse operators that mean another thing on another machine; files say nothing of which."""
    nodes = [node for node in all_nodes(model.graph.node) if node.domain == BLOCKED]
    if nodes:
        raise UnsupportedError(
            f"{label} was saved by onnxruntime for the CPU of one machine: {len(nodes)} operators "
            f"of {BLOCKED}, the first {label_of(nodes[0])}, have weights in its blocks; take the "
            "model before, or save it with a graph optimization level up to ORT_ENABLE_EXTENDED"
        )


def own_opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operator set that a model imports; 0 if it imports none."""
    own = (int(item.version) for item in model.opset_import if item.domain in DEFAULT_DOMAINS)
    return max(own, default=0)


def import_own(model: onnx.ModelProto) -> None:
    """Let a model that is given nodes of ONNX's own operator set import it, if it does not."""
    if not any(item.domain in DEFAULT_DOMAINS for item in model.opset_import):
        model.opset_import.append(helper.make_opsetid("", newest_opset()))


def with_opset(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
    """Return a model that says that it is of another version of ONNX's own operator set."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for item in made.opset_import:
        if item.domain in DEFAULT_DOMAINS:
            item.version = version
    return made


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


def schema_of(kind: str, version: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """Return the definition of an operator in a set of its domain, if there is one."""
    try:
        return onnx.defs.get_schema(kind, version, domain)
    except (onnx.defs.SchemaError, TypeError):  # a name that is no UTF-8 text, a huge version
        return None


def is_defined(node: onnx.NodeProto, opset: int) -> bool:
    """Return whether a node is an operator of ONNX's own set of some version."""
    return node.domain in DEFAULT_DOMAINS and schema_of(node.op_type, opset) is not None


def means_the_same(nodes: Iterable[onnx.NodeProto], opset: int, other: int) -> bool:
    """Return whether operators have the same definition in another set, but for types."""
    for node in all_nodes(nodes):
        if node.domain in DEFAULT_DOMAINS:
            one, two = (schema_of(node.op_type, version) for version in (opset, other))
            if one is None or two is None:
                return False
            if one.since_version != two.since_version and not _alike(node, one, two):
                return False
    return True


def _alike(node: onnx.NodeProto, one: onnx.defs.OpSchema, other: onnx.defs.OpSchema) -> bool:
    if _form(one) == _form(other):
        return True
    new, old = sorted((one, other), key=lambda schema: schema.since_version)[::-1]
    before = onnx.defs.get_schema(node.op_type, new.since_version - 1).since_version
    renewed = RENEWED.get(node.op_type) == new.since_version and before == old.since_version
    return renewed and all(attribute.name in old.attributes for attribute in node.attribute)


def _form(schema: onnx.defs.OpSchema) -> tuple[object, ...]:
    """Return what a definition says, element types excluded."""
    attributes = {
        name: (item.type, item.required, item.default_value.SerializeToString())
        for name, item in schema.attributes.items()
    }
    inputs = [(item.name, item.option) for item in schema.inputs]
    outputs = [(item.name, item.option) for item in schema.outputs]
    return attributes, inputs, outputs, " ".join((schema.doc or "").split())
