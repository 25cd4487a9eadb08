# SPDX-License-Identifier: Apache-2.0
"""Reading and writing ``.xmodel`` files."""

import os
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError

from opendpu_arch import inputs, outputs
from opendpu_arch.errors import GraphError, ModelFormatError
from xir import known_attrs, oplib, proto
from xir.datatype import DataKind, DataType
from xir.op import Op
from xir.op_graph import OpGraph
from xir.oplib import ArgDef, AttrDef, Occurrence, OpDef
from xir.subgraph import Subgraph
from xir.wire import decode_attrs, decode_value, encode_attrs, encode_value

_POINTER = b"version https://git-lfs.github.com/spec/"
"""How files begin that stand for large ones in a clone without Git LFS."""


def read(graph: OpGraph, path: str | os.PathLike[str]) -> None:
    """Fill the empty ``graph`` from the file ``path``; ModelFormatError if it holds none."""
    message = read_message(path)
    try:
        _fill(graph, message)
    except ModelFormatError as error:
        raise error.within(os.fspath(path)) from None


def read_message(path: str | os.PathLike[str]) -> Any:
    """Return the protobuf message in the file ``path``; ModelFormatError if it holds none."""
    try:
        return _parse(inputs.read_bytes(path))
    except OSError as error:
        reason = error.strerror or str(error)
        missing = isinstance(error, FileNotFoundError)
        raise ModelFormatError(
            f"{os.fspath(path)}: cannot be read: {reason}",
            code="XIR_FILE_NOT_EXIST" if missing else "XIR_READ_PB_FAILURE",
        ) from error
    except ModelFormatError as error:
        raise error.within(os.fspath(path)) from None
    except ValueError as error:  # a name that no file has
        raise ModelFormatError(
            f"{os.fspath(path)!r} cannot be read: {error}", code="XIR_FILE_NOT_EXIST"
        ) from None


def write(graph: OpGraph, path: str | os.PathLike[str]) -> None:
    """Write ``graph`` to ``path``; OutputError if that fails, what was there is then untouched."""
    with outputs.writing(path) as file:
        file.writelines(_pieces(graph))


def loads(graph: OpGraph, data: bytes) -> None:
    """Fill the empty ``graph`` from the bytes of a file; ModelFormatError if they hold none."""
    _fill(graph, _parse(data))


def dumps(graph: OpGraph) -> bytes:
    """Return the bytes of the file for ``graph``; the same graph always gives the same bytes."""
    return b"".join(_pieces(graph))


def _parse(data: bytes) -> Any:
    if not data:
        raise ModelFormatError("the file is empty", code="XIR_READ_PB_FAILURE")
    try:
        message = proto.Graph.FromString(data)
    except DecodeError:
        what = (
            f"not an .xmodel, or truncated or corrupt: its {len(data)} bytes are no protobuf graph"
        )
        if bytes(data[: len(_POINTER)]) == _POINTER:
            what = "the file only points to an .xmodel that Git LFS keeps; get it with git lfs pull"
        raise ModelFormatError(what, code="XIR_READ_PB_FAILURE") from None
    if not message.HasField("subg_root"):
        raise ModelFormatError(
            f"not an .xmodel, or truncated: a graph with {len(message.op_node)} ops and no root "
            "subgraph",
            code="XIR_READ_PB_FAILURE",
        )
    return message


def _fill(graph: OpGraph, message: Any) -> None:
    graph._name = message.graph_name
    try:
        _read_graph(graph, message)
    except GraphError as error:
        raise ModelFormatError(f"corrupt: {error}", code="XIR_READ_PB_FAILURE") from None


def _read_graph(graph: OpGraph, message: Any) -> None:
    for definition in message.op_defs:
        kept = proto.OpDef()
        kept.CopyFrom(definition)  # a part of the message would keep all of it, weights too
        graph._file_definitions.append(kept)
        try:
            graph._custom_definitions.setdefault(definition.name, _read_definition(definition))
        except ValueError as error:  # an enumeration without this value
            raise GraphError(f"op definition {definition.name!r}: {error}") from None
    decode_attrs(graph, message.graph_attr)
    known_attrs.check(graph, known_attrs.GRAPH)
    for node in message.op_node:
        _read_op(graph, node)
    placed = _read_subgraph(graph.get_root_subgraph(), message.subg_root)
    if missing := set(graph.get_ops()) - placed:
        first = min(op.get_name() for op in missing)
        raise GraphError(f"op {first!r} is in no subgraph")


def _read_op(graph: OpGraph, node: Any) -> None:
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
    known_attrs.check(result, known_attrs.TENSOR)
    graph._ops[node.op_name] = op


def _read_subgraph(subgraph: Subgraph, message: Any) -> set[Op]:
    subgraph.set_name(message.subgraph_name)
    decode_attrs(subgraph, message.subg_attr)
    known_attrs.check(subgraph, known_attrs.SUBGRAPH)
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


def _pieces(graph: OpGraph) -> Iterator[bytes]:
    """Yield the file in pieces, so that no more than one op is held twice.

    Messages of the same type one after another are one message that has the fields of all.
    """
    order = graph.toposort()
    yield _wire(proto.Graph(graph_name=graph.get_name()))
    for op in order:
        message = proto.Graph()
        _write_op(op, message.op_node.add())
        yield _wire(message)
    message = proto.Graph()
    _write_subgraph(graph.get_root_subgraph(), message.subg_root)
    encode_attrs(graph, message.graph_attr)
    message.op_defs.extend(graph._file_definitions)
    written = {definition.name for definition in graph._file_definitions}
    library = {} if written else oplib.builtin()
    used = {op.get_type(): op.get_definition() for op in order}
    for name, definition in {**library, **used}.items():
        if name not in written:
            _write_definition(definition, message.op_defs.add())
    yield _wire(message)


def _wire(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


def _write_op(op: Op, message: Any) -> None:
    message.op_name, message.op_type = op.get_name(), op.get_type()
    encode_attrs(op, message.op_attr)
    for arg, ops in op.get_input_ops().items():
        message.args.add(arg_name=arg, arg_ops=[producer.get_name() for producer in ops])
    tensor = op.get_output_tensor()
    message.output_tensor.tensor_name = tensor.name
    message.output_tensor.tensor_dim.extend(tensor.dims)
    message.output_tensor.data_type = int(tensor.data_type.type)
    message.output_tensor.tensor_bit_width = tensor.data_type.bit_width
    encode_attrs(tensor, message.output_tensor.tensor_attr)


def _write_subgraph(subgraph: Subgraph, message: Any) -> None:
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
