# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX defines by others, and onnxruntime does not know yet: what they stand for."""

import onnx
from onnx import helper, inliner

from opendpu.frontend.model_file import all_nodes
from opendpu.frontend.opsets import means_the_same, newest_opset, schema_of
from opendpu.frontend.single_node import Dialect, RefusedError
from opendpu.ops.foreign import DEFAULT_DOMAINS

PREVIEW = "ai.onnx.preview"
"""Domain of operators that are tried out; onnxruntime has none of them."""

DEFINED = ("has_function", "has_context_dependent_function")
"""Properties of schemas whose operator has a definition by others."""

COMPLETE = 22
"""Operator set up to which onnxruntime computes all that ONNX defines by others."""

NEW_ATTRIBUTES = {"Attention": {"left_window_size", "right_window_size"}}
"""Attributes that came without a new version of their operator; onnxruntime refuses them."""


def spelled_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with ONNX's own definitions instead of operators that onnxruntime lacks.

    A model that cannot be treated so is returned as it is.
    """
    versions = {item.domain: int(item.version) for item in model.opset_import}
    opset = min(
        max((versions.get(name, 0) for name in DEFAULT_DOMAINS), default=0),
        onnx.defs.onnx_opset_version(),
    )
    wanted = {
        (node.domain, node.op_type)
        for node in all_nodes(model.graph.node)
        if _is_lacking(node, opset, versions)
    }
    wanted |= _without_kernel(model, opset) - wanted
    if not wanted:
        return model
    try:
        return inliner.inline_selected_functions(
            model, sorted(wanted), inline_schema_functions=True
        )
    except Exception:  # onnx raises what its C++ part happened to raise
        return model


def _without_kernel(model: onnx.ModelProto, opset: int) -> set[tuple[str, str]]:
    """Return the operators of new sets that onnxruntime takes, but cannot compute."""
    if opset <= COMPLETE or opset > newest_opset():
        return set()
    unsure = {
        node.op_type: node
        for node in model.graph.node
        if node.domain in DEFAULT_DOMAINS and _is_new_function(node.op_type, opset)
    }
    if not unsure:
        return set()
    try:
        inferred = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # onnx raises what its C++ part happened to raise
        return set()
    types = {item.name: item.type for item in (*inferred.input, *inferred.value_info)}
    types |= {
        item.name: helper.make_tensor_type_proto(item.data_type, item.dims)
        for item in inferred.initializer
    }
    dialect = Dialect({"": opset})
    found = set()
    for node in unsure.values():
        names = {name for name in node.input if name}
        if not names <= types.keys():
            continue
        given = {name: types[name] for name in names}
        try:
            dialect.session(dialect.model([node], given, {}, [n for n in node.output if n]))
        except RefusedError:
            found.add((node.domain, node.op_type))
    return found


def _is_new_function(kind: str, opset: int) -> bool:
    schema = _function(kind, opset)
    return schema is not None and schema.since_version > COMPLETE


def _function(kind: str, version: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """Return the definition of an operator by others in a set, if there is one."""
    schema = schema_of(kind, version, domain)
    return schema if any(getattr(schema, name, False) for name in DEFINED) else None


def _is_lacking(node: onnx.NodeProto, opset: int, versions: dict[str, int]) -> bool:
    """Return whether onnx has a definition of a node by other operators that is needed."""
    if node.domain not in (*DEFAULT_DOMAINS, PREVIEW):
        return False
    preview = node.domain == PREVIEW
    version = versions.get(PREVIEW, 1) if preview else opset
    schema = _function(node.op_type, version, PREVIEW if preview else "")
    if schema is None:
        return False
    given = {attribute.name for attribute in node.attribute}
    if preview or not given.isdisjoint(NEW_ATTRIBUTES.get(node.op_type, ())):
        return True
    newest = newest_opset()
    return schema.since_version > newest and not means_the_same([node], opset, newest)
