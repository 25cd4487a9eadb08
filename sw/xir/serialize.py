# SPDX-License-Identifier: Apache-2.0
"""Reading and writing ``.xmodel`` files."""

import os
import pathlib
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from opendpu_arch import outputs
from opendpu_arch.errors import GraphError, ModelFormatError
from xir import proto
from xir.datatype import DataKind, DataType
from xir.op import Op
from xir.oplib import ArgDef, AttrDef, Occurrence, OpDef
from xir.wire import decode_attrs, decode_value, encode_attrs, encode_value

if TYPE_CHECKING:
    from xir.graph import Graph
    from xir.subgraph import Subgraph


def read(graph: "Graph", path: str | os.PathLike[str]) -> None:
    """Fill the empty ``graph`` from the file ``path``; ModelFormatError if it holds none."""
    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFormatError(f"{os.fspath(path)}: cannot be read: {reason}") from error
    try:
        loads(graph, data)
    except ModelFormatError as error:
        raise ModelFormatError(f"{os.fspath(path)}: {error}") from None


def write(graph: "Graph", path: str | os.PathLike[str]) -> None:
    """Write ``graph`` to ``path``; OutputError if that fails, what was there is then untouched."""
    outputs.write(path, dumps(graph))


def loads(graph: "Graph", data: bytes) -> None:
    """Fill the empty ``graph`` from the bytes of a file; ModelFormatError if they hold none."""
    if not data:
        raise ModelFormatError("the file is empty")
    try:
        message = proto.Graph.FromString(data)
    except DecodeError:
        raise ModelFormatError(
            f"not an .xmodel, or truncated or corrupt: its {len(data)} bytes are no protobuf graph"
        ) from None
    if not message.op_node or not message.HasField("subg_root"):
        raise ModelFormatError(
            f"not an .xmodel, or truncated: a graph with {len(message.op_node)} ops and "
            f"{'a' if message.HasField('subg_root') else 'no'} root subgraph"
        )
    graph._name = message.graph_name
    try:
        _read_graph(graph, message)
    except GraphError as error:
        raise ModelFormatError(f"corrupt: {error}") from None


def _read_graph(graph: "Graph", message: Any) -> None:
    for definition in message.op_defs:
        graph._file_definitions.append(definition)
        try:
            graph._definitions.setdefault(definition.name, _read_definition(definition))
        except ValueError as error:  # an enumeration without this value
            raise GraphError(f"op definition {definition.name!r}: {error}") from None
    decode_attrs(graph, message.graph_attr)
    for node in message.op_node:
        _read_op(graph, node)
    placed = _read_subgraph(graph.get_root_subgraph(), message.subg_root)
    if missing := set(graph.get_ops()) - placed:
        first = min(op.get_name() for op in missing)
        raise GraphError(f"op {first!r} is in no subgraph")


def _read_op(graph: "Graph", node: Any) -> None:
    label = f"op {node.op_name!r} ({node.op_type})"
    if not node.op_name or graph.get_op(node.op_name) is not None:
        raise GraphError(f"{label}: the name is empty or used twice")
    inputs: dict[str, list[Op]] = {}
    for arg in node.args:
        producers = [graph.get_op(name) for name in arg.arg_ops]
        if None in producers:
            missing = arg.arg_ops[producers.index(None)]
            raise GraphError(f"{label}: input {missing!r} does not precede it")
        inputs.setdefault(arg.arg_name, []).extend(op for op in producers if op is not None)
    op = Op(graph, node.op_name, graph.get_definition(node.op_type), inputs)
    decode_attrs(op, node.op_attr)
    tensor = node.output_tensor
    if tensor.data_type not in DataKind.__members__.values():
        raise GraphError(f"{label}: data type is {tensor.data_type}, but must be in 0..6")
    result = op.get_output_tensor()
    result.rename(tensor.tensor_name)
    result.reset(tensor.tensor_dim, DataType(DataKind(tensor.data_type), tensor.tensor_bit_width))
    decode_attrs(result, tensor.tensor_attr)
    graph._ops[node.op_name] = op


def _read_subgraph(subgraph: "Subgraph", message: Any) -> set[Op]:
    subgraph.set_name(message.subgraph_name)
    decode_attrs(subgraph, message.subg_attr)
    if message.op_name and message.subg_child:
        raise GraphError(f"{subgraph._owner()} holds both ops and subgraphs")
    placed: set[Op] = set()
    for name in message.op_name:
        op = subgraph.get_graph().get_op(name)
        if op is None or op in placed:
            raise GraphError(f"{subgraph._owner()}: op {name!r} is unknown or listed twice")
        subgraph._ops[op] = None
        placed.add(op)
    for child in message.subg_child:
        below = _read_subgraph(subgraph.add_child(child.subgraph_name), child)
        if twice := below & placed:
            first = min(op.get_name() for op in twice)
            raise GraphError(f"{subgraph._owner()}: op {first!r} is in two subgraphs")
        placed |= below
    return placed


def _read_definition(message: Any) -> OpDef:
    args = tuple(
        ArgDef(arg.name, Occurrence(arg.occur_type), DataKind(arg.data_type))
        for arg in message.input_args
    )
    attrs = []
    for attr in message.attrs:
        kind, default = decode_value(attr.default_value) or ("string", "")
        attrs.append(
            AttrDef(attr.name, Occurrence(attr.occur_type), kind, attr.list_length, default)
        )
    return OpDef(message.name, args, tuple(attrs))


def dumps(graph: "Graph") -> bytes:
    """Return the bytes of the file for ``graph``; the same graph always gives the same bytes."""
    message = proto.Graph(graph_name=graph.get_name())
    order = graph.toposort()
    for op in order:
        _write_op(op, message.op_node.add())
    _write_subgraph(graph.get_root_subgraph(), message.subg_root)
    encode_attrs(graph, message.graph_attr)
    written = {definition.name for definition in graph._file_definitions}
    message.op_defs.extend(graph._file_definitions)
    used = {op.get_type() for op in order}
    for definition in graph._definitions.values():
        whole = not graph._file_definitions or definition.name in used
        if whole and definition.name not in written:
            _write_definition(definition, message.op_defs.add())
    return bytes(message.SerializeToString(deterministic=True))


def _write_op(op: Op, message: Any) -> None:
    message.op_name, message.op_type = op.get_name(), op.get_type()
    encode_attrs(op, message.op_attr)
    for arg, ops in op.get_input_ops().items():
        message.args.add(arg_name=arg, arg_ops=[producer.get_name() for producer in ops])
    tensor = op.get_output_tensor()
    message.output_tensor.tensor_name = tensor.name
    message.output_tensor.tensor_dim.extend(tensor.dims)
    message.output_tensor.data_type = int(tensor.data_type.kind)
    message.output_tensor.tensor_bit_width = tensor.data_type.bits
    encode_attrs(tensor, message.output_tensor.tensor_attr)


def _write_subgraph(subgraph: "Subgraph", message: Any) -> None:
    message.subgraph_name = subgraph.get_name()
    encode_attrs(subgraph, message.subg_attr)
    if subgraph.is_leaf:
        message.op_name.extend(op.get_name() for op in subgraph.toposort())
        return
    for child in subgraph.toposort_child_subgraph():
        _write_subgraph(child, message.subg_child.add())


def _write_definition(definition: OpDef, message: Any) -> None:
    message.name = definition.name
    for arg in definition.args:
        message.input_args.add(
            name=arg.name, occur_type=int(arg.occurrence), data_type=int(arg.data_kind)
        )
    for attr in definition.attrs:
        entry = message.attrs.add(
            name=attr.name, occur_type=int(attr.occurrence), list_length=attr.length
        )
        encode_value(attr.kind, attr.default, entry.default_value)
