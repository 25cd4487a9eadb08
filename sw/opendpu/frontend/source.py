# SPDX-License-Identifier: Apache-2.0
"""Reading and checking ONNX files before anything is converted."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper, numpy_helper

from opendpu.frontend.inference import infer_shapes
from opendpu_arch.errors import ModelFormatError, UnsupportedError

Array = npt.NDArray[Any]

QUANTIZERS = (
    "QuantizeLinear", "VitisQuantizeLinear", "ExtendedQuantizeLinear", "VAIQuantizeLinear",
    "FixNeuron", "fix_neuron",
)  # fmt: skip
"""Operators that quantize a tensor."""

OPSETS = range(7, 22)
"""Versions of the default operator set that the handlers know."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A checked ONNX model.

    ``inputs`` maps the name of each float input to its static shape; ``constants`` holds the
    initializers; ``uses`` counts how often each tensor is read, by nodes or as an output.
    """

    path: Path
    name: str
    opset: int
    nodes: list[onnx.NodeProto]
    inputs: dict[str, tuple[int, ...]]
    outputs: dict[str, tuple[int | None, ...] | None]
    constants: dict[str, Array]
    uses: Counter[str]
    quantized: bool = False
    """Whether some tensors are quantized already."""
    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """What onnx infers, by tensor, where it is known."""


def read(model: str | Path | onnx.ModelProto) -> Source:
    """Read an ONNX file, or take a model in memory, and check what conversion relies on.

    Raises
    ------
    ModelFormatError
        The file is missing, is no ONNX model, lacks weights, reads tensors nobody makes, or has
        nodes whose types do not fit together.
    UnsupportedError
        The operator set, an input's type, or a dynamic dimension other than the batch.
    """
    path = Path(model.graph.name if isinstance(model, onnx.ModelProto) else model)
    proto = _checked(path, model if isinstance(model, onnx.ModelProto) else _parse(path))
    graph = proto.graph
    constants = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    if graph.sparse_initializer:
        raise UnsupportedError(f"{path}: sparse initializers are not supported; store them dense")
    inputs = {
        item.name: _input_shape(path, item) for item in graph.input if item.name not in constants
    }
    _check_connected(path, graph, set(inputs) | set(constants))
    uses = Counter(name for node in graph.node for name in node.input if name)
    uses.update(item.name for item in graph.output)
    return Source(
        path=path,
        name=graph.name or path.stem,
        opset=_opset(path, proto),
        nodes=list(graph.node),
        inputs=inputs,
        outputs={item.name: _declared_shape(item) for item in graph.output},
        constants=constants,
        uses=uses,
        quantized=any(node.op_type in QUANTIZERS for node in graph.node),
        shapes=infer_shapes(path, proto, inputs),
    )


def _parse(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load_model(str(path), load_external_data=False)
    except FileNotFoundError:
        raise ModelFormatError(f"{path}: no such file") from None
    except (DecodeError, onnx.checker.ValidationError) as error:
        raise ModelFormatError(f"{path} is not an ONNX model: {error}") from None
    for item in model.graph.initializer:
        if external_data_helper.uses_external_data(item):
            location = external_data_helper.ExternalDataInfo(item).location
            file = path.parent / location
            if not file.is_file():
                raise ModelFormatError(
                    f"{path}: weights {item.name!r} are in {location!r}, which is missing"
                )
    external_data_helper.load_external_data_for_model(model, str(path.parent))
    return model


def _checked(path: Path, model: onnx.ModelProto) -> onnx.ModelProto:
    if not model.graph.node or not model.graph.output:
        raise ModelFormatError(f"{path} is not an ONNX model: it has no nodes or no outputs")
    return model


def _opset(path: Path, model: onnx.ModelProto) -> int:
    versions = [item.version for item in model.opset_import if item.domain in ("", "ai.onnx")]
    if not versions:
        raise ModelFormatError(f"{path} imports no version of the ai.onnx operator set")
    if versions[0] not in OPSETS:
        raise UnsupportedError(
            f"{path} uses ONNX operator set {versions[0]}, but {OPSETS[0]} to {OPSETS[-1]} "
            "are supported"
        )
    return int(versions[0])


def _input_shape(path: Path, item: onnx.ValueInfoProto) -> tuple[int, ...]:
    tensor = item.type.tensor_type
    if tensor.elem_type != onnx.TensorProto.FLOAT:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise UnsupportedError(f"{path}: input {item.name!r} has type {kind}, but must be FLOAT")
    if not tensor.HasField("shape"):
        raise UnsupportedError(f"{path}: input {item.name!r} has no shape; shapes must be static")
    dims = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_value > 0:
            dims.append(dim.dim_value)
        elif axis == 0:
            dims.append(1)
        else:
            label = dim.dim_param or "?"
            raise UnsupportedError(
                f"{path}: input {item.name!r} has dynamic dimension {axis} ({label!r}); "
                "only the batch (dimension 0) may be dynamic, it becomes 1"
            )
    return tuple(dims)


def _declared_shape(item: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    if not item.type.tensor_type.HasField("shape"):
        return None
    return tuple(dim.dim_value or None for dim in item.type.tensor_type.shape.dim)


def _check_connected(path: Path, graph: onnx.GraphProto, known: set[str]) -> None:
    for node in graph.node:
        for name in node.input:
            if name and name not in known:
                raise ModelFormatError(
                    f"{path}: node {node.name or node.output[0]!r} ({node.op_type}) reads "
                    f"{name!r}, which is neither an input, nor a weight, nor made by an "
                    "earlier node"
                )
        known.update(node.output)
    for item in graph.output:
        if item.name not in known:
            raise ModelFormatError(f"{path}: output {item.name!r} is made by no node")


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node: numbers, strings, lists and numpy arrays."""
    result: dict[str, Any] = {}
    for item in node.attribute:
        value = onnx.helper.get_attribute_value(item)
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            value = value.decode()
        result[item.name] = value
    return result


def as_float(array: Array) -> npt.NDArray[np.float32]:
    """Return ``array`` as float32."""
    return np.asarray(array, dtype=np.float32)
