# SPDX-License-Identifier: Apache-2.0
"""Models with compiled parts, as files: read and written without onnxruntime's session.

onnxruntime's own CPU provider does not open them, so that what a session says of such a model comes
from here.
"""

import dataclasses
import os
import pathlib
from typing import Any

import onnx
import onnxruntime
from onnx import TensorProto, helper

from opendpu.onnxruntime import context
from opendpu.onnxruntime.executable import Executable
from opendpu.onnxruntime.identity import Model
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, OutputError, UnsupportedError

_KINDS: dict[int, str] = {TensorProto.FLOAT: "float", TensorProto.DOUBLE: "double"}
"""Types whose names are other ones in onnxruntime than in NumPy."""


@dataclasses.dataclass(frozen=True)
class NodeArg:
    """What onnxruntime says of an input or output: sizes that are open are names, or None."""

    name: str
    shape: list[int | str | None]
    type: str

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> "NodeArg":
        """Return that of an input or output in a file."""
        tensor = value.type.tensor_type
        kind = _KINDS.get(tensor.elem_type)
        kind = kind or helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
        sizes = (
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in tensor.shape.dim
        )
        return cls(value.name, list(sizes), f"tensor({kind})")


@dataclasses.dataclass(frozen=True)
class ModelMetadata:
    """What a model says of itself, by onnxruntime's names."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class CompiledModel:
    """A model of one ``EPContext`` node, with as much of onnxruntime's session as it can answer.

    Parameters
    ----------
    model
        The model.
    path
        Where it came from, for files beside it; nothing if from memory.
    session_options
        What the session was given.

    Raises
    ------
    UnsupportedError
        It has other nodes, or what is compiled in it is not ours.
    """

    def __init__(self, model: onnx.ModelProto, path: str, session_options: Any) -> None:
        label = path or "the model"
        kinds = sorted({node.op_type for node in model.graph.node})
        if len(model.graph.node) != 1 or kinds != [context.OPERATOR]:
            raise UnsupportedError(
                f"{label}: beside compiled parts (EPContext) there are other operators "
                f"({', '.join(kinds)}): call opendpu.onnxruntime.register(), and open it with "
                "onnxruntime.InferenceSession"
            )
        (node,) = model.graph.node
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if not context.is_ours(self._attributes):
            source = self._attributes.get("source", b"").decode(errors="replace")
            raise UnsupportedError(
                f"{label}: its compiled parts (EPContext) are of {source or 'no provider'!r}, but "
                f"must be of {PROVIDER!r}"
            )
        self._model, self._path = model, path
        self._session_options = session_options or onnxruntime.SessionOptions()

    def executable(self, options: ProviderOptions) -> Executable:
        """Return what is compiled in it; errors are those of :func:`.context.read`."""
        return context.read(self._attributes, self._path, options)

    def get_inputs(self) -> list[NodeArg]:
        """Return name, shape and type of each input."""
        return [NodeArg.of(value) for value in self._model.graph.input]

    def get_outputs(self) -> list[NodeArg]:
        """Return name, shape and type of each output."""
        return [NodeArg.of(value) for value in self._model.graph.output]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return nothing: weights are compiled."""
        return []

    def get_input_memory_infos(self) -> list[Any]:
        """Return where inputs are read: the host's memory."""
        return [_host() for _ in self._model.graph.input]

    def get_output_memory_infos(self) -> list[Any]:
        """Return where outputs are written: the host's memory."""
        return [_host() for _ in self._model.graph.output]

    def get_session_options(self) -> Any:
        """Return what the session was given."""
        return self._session_options

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says of itself."""
        model = self._model
        return ModelMetadata(
            model.producer_name, model.graph.name, model.domain, model.doc_string,
            model.graph.doc_string, model.model_version,
            {entry.key: entry.value for entry in model.metadata_props},
        )  # fmt: skip

    def get_profiling_start_time_ns(self) -> int:
        """Return 0: onnxruntime computes nothing that it could measure."""
        return 0

    def end_profiling(self) -> str:
        """Return no file, as :meth:`get_profiling_start_time_ns`."""
        return ""

    def run(self, *_: Any) -> list[Any]:
        """Refuse: only the DPU computes what is compiled for it."""
        raise UnsupportedError(
            f"{self._path or 'the model'}: compiled parts (EPContext) run with {PROVIDER} only"
        )


def read(given: str | os.PathLike[str] | bytes, session_options: Any) -> CompiledModel | None:
    """Return a model with compiled parts; nothing if it has none, or cannot be read.

    Raises
    ------
    UnsupportedError
        See :class:`CompiledModel`.
    """
    try:
        proto = (
            onnx.load_model_from_string(given) if isinstance(given, bytes)
            else onnx.load(os.fspath(given), load_external_data=False)
        )  # fmt: skip
    except Exception:  # onnxruntime says what is wrong with it
        return None
    if all(node.op_type != context.OPERATOR for node in proto.graph.node):
        return None
    path = "" if isinstance(given, bytes) else os.fspath(given)
    return CompiledModel(proto, path, session_options)


def write(found: Executable, model: Model, options: context.ContextOptions) -> pathlib.Path:
    """Write a model whose one node holds what was compiled, and return its file.

    Parameters
    ----------
    found
        What was compiled.
    model
        What it was compiled from; it says names, shapes and types, and where to write by default.
    options
        As of a session.

    Raises
    ------
    OutputError
        There is no path, the file is there already, or cannot be written.
    ModelFormatError
        ``model`` cannot be read.
    """
    path, source = _chosen_path(model, options), _proto(model)
    graph = source.graph
    weights = {value.name for value in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    attributes = context.attributes_of(
        found, f"{PROVIDER}_{found.digest[:16]}_0", dataclasses.replace(options, path=str(path))
    )
    node = helper.make_node(
        context.OPERATOR, [v.name for v in inputs], [v.name for v in graph.output],
        attributes["partition_name"].decode(), domain=context.DOMAIN, **attributes,
    )  # fmt: skip
    made = helper.make_graph([node], graph.name or "graph", inputs, list(graph.output))
    opsets = [one for one in source.opset_import if one.domain != context.DOMAIN]
    proto = helper.make_model(
        made, opset_imports=[*opsets, helper.make_opsetid(context.DOMAIN, 1)],
        ir_version=source.ir_version, producer_name="opendpu",
    )  # fmt: skip
    outputs.write(path, proto.SerializeToString(deterministic=True))
    return path


def _chosen_path(model: Model, options: context.ContextOptions) -> pathlib.Path:
    """Return where to write, which onnxruntime does only where nothing is yet."""
    if options.path:
        path = pathlib.Path(options.path)
    elif isinstance(model, onnx.ModelProto):
        raise OutputError("ep.context_file_path must be given for a model from memory")
    else:
        source = pathlib.Path(model)
        path = source.with_name(f"{source.stem}_ctx.onnx")
    if path.exists():
        raise OutputError(f"{path}: ep.context_enable writes it, but it is there already")
    return path


def _proto(model: Model) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        return onnx.load(os.fspath(model), load_external_data=False)
    except Exception as error:  # protobuf's errors have no common base
        raise ModelFormatError(f"{os.fspath(model)}: no ONNX: {error}") from None


def _host() -> Any:
    return onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_DEVICE_ALLOCATOR, 0,
        onnxruntime.OrtMemType.DEFAULT,
    )  # fmt: skip
