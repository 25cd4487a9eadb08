# SPDX-License-Identifier: Apache-2.0
"""ONNX files into memory: the protobuf, and weights where they lie."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, external_data_helper, helper, inliner, numpy_helper

from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import is_quantizing
from opendpu_arch import inputs
from opendpu_arch.errors import ModelFormatError

"""Names of ONNX's own operator set."""
_MAPPED = "fiub"
"""Kinds of element types that numpy knows by itself, and files hold one after another."""


class ParsedModel(NamedTuple):
    """An ONNX model in memory, read once for all who need it.

    Parameters
    ----------
    label
        What it is called in messages.
    proto
        The model; its functions are inlined.
    folder
        Where weights in files of their own are.
    """

    label: str
    proto: onnx.ModelProto
    folder: pathlib.Path


AnyModel = str | os.PathLike[str] | onnx.ModelProto | ParsedModel
"""A model by its file, or in memory."""


def read_model(model: AnyModel) -> ParsedModel:
    """Return a model that is a file or in memory; one that was read already as it is.

    Quantizers stay what they are, though a model may say as functions how it computes them.
    Weights in other files stay there, see :func:`constants_of`.

    Raises
    ------
    ModelFormatError
        The file cannot be read, or is no ONNX model.
    """
    if isinstance(model, ParsedModel):
        return model
    if isinstance(model, onnx.ModelProto):
        label, proto, folder = model.graph.name or "model", model, pathlib.Path()
    else:
        path = pathlib.Path(model)
        label, proto, folder = os.fspath(model), _parse(path), path.parent
    if not proto.graph.node and not proto.graph.output:
        raise ModelFormatError(f"{label} is not an ONNX model: it has no nodes and no outputs")
    if not proto.graph.output:
        raise ModelFormatError(f"{label} has no outputs")
    _read_inner(label, proto, folder)
    if proto.functions:
        kept = [(f.domain, f.name) for f in proto.functions if is_quantizing(f.domain, f.name)]
        try:
            proto = inliner.inline_selected_functions(_one_opset(proto), kept, exclude=True)
        except Exception as error:  # onnx raises what its C++ part happened to raise
            raise ModelFormatError(f"{label}: its functions cannot be inlined: {error}") from None
    return ParsedModel(label, proto, folder)


def _read_inner(label: str, proto: onnx.ModelProto, folder: pathlib.Path) -> None:
    """Read constants of nodes, and of graphs inside them, that are in files of their own."""
    faults = []
    nodes = (proto.graph.node, *(function.node for function in proto.functions))
    for tensor in (found for some in nodes for found in _inner_tensors(some)):
        if external_data_helper.uses_external_data(tensor):
            try:
                tensor.CopyFrom(numpy_helper.from_array(_values(tensor, folder), tensor.name))
            except _FaultError as fault:
                faults.append(f"constant {tensor.name!r}: its numbers {fault}")
    if faults:
        raise ModelFormatError(f"{label}: {'; '.join(faults)}")


def _one_opset(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose functions are of its own operator set, as onnxruntime takes them.

    onnx's inliner refuses the model otherwise.
    """
    opset = next((item.version for item in proto.opset_import if not item.domain), 0)
    given = [i for f in proto.functions for i in f.opset_import if not i.domain]
    if not opset or all(item.version == opset for item in given):
        return proto
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for function in made.functions:
        for item in function.opset_import:
            if not item.domain:
                item.version = opset
    return made


def _parse(path: pathlib.Path) -> onnx.ModelProto:
    if path.is_dir():
        raise ModelFormatError(f"{path} is a directory, but must be an ONNX file")
    try:
        inputs.refuse_device(path)
        return onnx.load_model(str(path), load_external_data=False)
    except FileNotFoundError:
        raise ModelFormatError(f"{path}: no such file", code="XCOM_FILE_NOT_EXISTS") from None
    except OSError as error:
        raise ModelFormatError(f"{path} cannot be read: {error.strerror or error}") from None
    except (DecodeError, onnx.checker.ValidationError, UnicodeDecodeError, ValueError) as error:
        raise ModelFormatError(f"{path} is not an ONNX model: {error}") from None


def constants_of(
    graph: onnx.GraphProto, folder: pathlib.Path
) -> tuple[dict[str, Array], list[str]]:
    """Return the initializers of a graph by name, and what is wrong with others.

    Weights in files of their own are mapped into memory, not read.
    """
    found: dict[str, Array] = {}
    faults: list[str] = []
    for tensor in graph.initializer:
        try:
            found[tensor.name] = _values(tensor, folder)
        except _FaultError as fault:
            faults.append(f"weights {tensor.name!r} {fault}")
        except Exception as error:  # onnx checks nothing before it reads
            faults.append(f"weights {tensor.name!r} cannot be read: {error}")
    for sparse in graph.sparse_initializer:
        try:
            found[sparse.values.name] = _dense(sparse)
        except Exception as error:  # as above
            faults.append(f"sparse weights {sparse.values.name!r} cannot be read: {error}")
    return found, faults


def constants_of_tensors(tensors: Iterable[TensorProto]) -> dict[str, Array]:
    """Return tensors by name; damaged ones are left for who reads them to say so."""
    found: dict[str, Array] = {}
    for tensor in tensors:
        with contextlib.suppress(Exception):  # onnx checks nothing before it reads
            found[tensor.name] = np.asarray(numpy_helper.to_array(tensor))
    return found


def constants_of_nodes(nodes: Iterable[onnx.NodeProto]) -> dict[str, Array]:
    """Return what nodes of type ``Constant`` make, as far as it is numbers."""
    found: dict[str, Array] = {}
    for node in nodes:
        if node.op_type == "Constant" and len(node.attribute) == 1:
            with contextlib.suppress(Exception):  # as above
                value = helper.get_attribute_value(node.attribute[0])
                tensor = isinstance(value, TensorProto)
                made = numpy_helper.to_array(value) if tensor else np.asarray(value)
                found[node.output[0]] = np.asarray(made)
    return found


class _FaultError(Exception):
    """What is wrong with a tensor."""


def _values(tensor: TensorProto, folder: pathlib.Path) -> Array:
    if any(size < 0 for size in tensor.dims):
        raise _FaultError(f"have shape {list(tensor.dims)}")
    if not external_data_helper.uses_external_data(tensor):
        return np.asarray(numpy_helper.to_array(tensor))
    place = external_data_helper.ExternalDataInfo(tensor)
    path = _external_file(place.location, folder)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if dtype.kind not in _MAPPED or dtype.type.__module__ != "numpy":
        return np.asarray(numpy_helper.to_array(tensor, str(folder)))
    shape = tuple(tensor.dims)
    size, start = int(np.prod(shape, dtype=object)) * dtype.itemsize, int(place.offset or 0)
    if start + size > path.stat().st_size:
        raise _FaultError(
            f"take {size} bytes at {start} of {place.location!r}, which has {path.stat().st_size}"
        )
    if size == 0:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype.newbyteorder("<"), "r", start, shape)


def _external_file(location: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / location
    if not path.resolve().is_relative_to(folder.resolve()):
        raise _FaultError(f"are in {location!r}, which is outside the model's folder")
    if not path.is_file():
        raise _FaultError(f"are in {location!r}, which is missing")
    return path


def external_files(graph: onnx.GraphProto, folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the files of weights beside a model, as far as they are there, in order of name."""
    found = set()
    for tensor in _tensors(graph):
        if external_data_helper.uses_external_data(tensor):
            with contextlib.suppress(_FaultError):
                location = external_data_helper.ExternalDataInfo(tensor).location
                found.add(_external_file(location, folder))
    return sorted(found)


def _tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Yield the constants of a graph and of those inside it."""
    yield from graph.initializer
    yield from _inner_tensors(graph.node)


def _inner_tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[TensorProto]:
    """Yield the constants in attributes of nodes, and those of graphs inside them."""
    for node in all_nodes(nodes):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in inner_graphs(attribute):
                yield from inner.initializer


def _dense(sparse: onnx.SparseTensorProto) -> Array:
    """Return a sparse tensor with its zeros; positions are linear, or one a row."""
    values = numpy_helper.to_array(sparse.values)
    places = numpy_helper.to_array(sparse.indices)
    result = np.zeros(tuple(sparse.dims), values.dtype)
    if places.ndim == 1:
        result.reshape(-1)[places] = values
    else:
        result[tuple(places.T)] = values
    return result


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """Return the tensors around a node that graphs inside it read: of If, Loop, Scan."""
    for attribute in node.attribute:
        for graph in inner_graphs(attribute):
            own = {item.name for item in graph.input}
            own |= {item.name for item in graph.initializer}
            for inner in graph.node:
                for name in (*inner.input, *captured(inner)):
                    if name and name not in own:
                        yield name
                own.update(inner.output)
            for item in graph.output:
                if item.name not in own:
                    yield item.name


def all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Return nodes, and those of graphs inside them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in inner_graphs(attribute):
                yield from all_nodes(graph.node)


def inner_graphs(attribute: onnx.AttributeProto) -> Iterable[onnx.GraphProto]:
    """Return the graphs that an attribute holds."""
    if attribute.type == onnx.AttributeProto.GRAPH:
        return [attribute.g]
    return attribute.graphs if attribute.type == onnx.AttributeProto.GRAPHS else ()


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the tensors that a node needs, those of graphs inside it too; each once."""
    return list(dict.fromkeys(name for name in (*node.input, *captured(node)) if name))


def label_of(node: onnx.NodeProto) -> str:
    """Return what a node is called in messages: its name, or first output, and operator."""
    return f"{node.name or next(iter(node.output), '')!r} ({operator_name(node)})"


def operator_name(node: onnx.NodeProto) -> str:
    """Return a node's operator, with its domain if that is not ONNX's own."""
    return f"{node.domain}.{node.op_type}" if node.domain not in DEFAULT_DOMAINS else node.op_type
