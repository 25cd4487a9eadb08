# SPDX-License-Identifier: Apache-2.0
"""TFLite files made on the spot with LiteRT's own schema, and what LiteRT computes of them."""

import dataclasses
from pathlib import Path

import flatbuffers
import numpy as np
import pytest

schema = pytest.importorskip(
    "ai_edge_litert.schema_py_generated", reason="LiteRT is not installed (opendpu[dev])"
)
interpreter = pytest.importorskip("ai_edge_litert.interpreter")

from opendpu.ops.session import Session  # noqa: E402

TYPES = {
    np.dtype(np.float32): schema.TensorType.FLOAT32,
    np.dtype(np.float16): schema.TensorType.FLOAT16,
    np.dtype(np.int8): schema.TensorType.INT8,
    np.dtype(np.uint8): schema.TensorType.UINT8,
    np.dtype(np.int16): schema.TensorType.INT16,
    np.dtype(np.int32): schema.TensorType.INT32,
    np.dtype(np.int64): schema.TensorType.INT64,
    np.dtype(np.bool_): schema.TensorType.BOOL,
    np.dtype(np.complex64): schema.TensorType.COMPLEX64,
    np.dtype(object): schema.TensorType.RESOURCE,
}

VERSIONS = {"BROADCAST_TO": 2}
"""Of operators of which LiteRT has no version 1."""


@dataclasses.dataclass
class Network:
    """A file in the making: tensors by name, operators in order."""

    tensors: dict = dataclasses.field(default_factory=dict)
    buffers: list = dataclasses.field(default_factory=list)
    codes: list = dataclasses.field(default_factory=list)
    operators: list = dataclasses.field(default_factory=list)
    inputs: list = dataclasses.field(default_factory=list)
    graphs: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)
    """Of a graph that an operator refers to."""

    def __post_init__(self):
        if not self.buffers:
            self.buffers.append(schema.BufferT())

    def inner(self):
        """Return a graph for an operator to refer to, by ``1 + graphs.index(...)``."""
        made = Network(buffers=self.buffers, codes=self.codes)
        self.graphs.append(made)
        return made

    def variable(self, name, shape):
        self._tensor(name, shape, np.float32, None, 0)
        self.tensors[name].isVariable = True
        return name

    def _tensor(self, name, shape, dtype, scale, zero, axis=0):
        tensor = schema.TensorT()
        tensor.name, tensor.type = name, TYPES[np.dtype(dtype)]
        tensor.shape, tensor.hasRank = list(shape), True
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(np.float32(scale))
            tensor.quantization.zeroPoint = np.broadcast_to(
                np.int64(zero), tensor.quantization.scale.shape
            ).copy()
            tensor.quantization.quantizedDimension = axis
        self.tensors[name] = tensor
        return name

    def data(self, name, shape, dtype=np.float32, scale=None, zero=0, signature=None):
        self.inputs.append(self._tensor(name, shape, dtype, scale, zero))
        if signature is not None:
            self.tensors[name].shapeSignature = list(signature)
        return name

    def const(self, name, array, scale=None, zero=0, axis=0):
        array = np.asarray(array)
        self._tensor(name, array.shape, array.dtype, scale, zero, axis)
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(array.tobytes(), np.uint8)
        self.buffers.append(buffer)
        self.tensors[name].buffer = len(self.buffers) - 1
        return name

    def op(self, kind, inputs, outputs, options=None, *, dtype=np.float32, scale=None, zero=0,
           shape=(), custom=b"", version=None):  # fmt: skip
        code = schema.OperatorCodeT()
        number = getattr(schema.BuiltinOperator, kind, schema.BuiltinOperator.CUSTOM)
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        if number == schema.BuiltinOperator.CUSTOM:
            code.customCode = kind
        code.version = version or VERSIONS.get(kind, 1)
        self.codes.append(code)
        dtypes = dtype if isinstance(dtype, list) else [dtype] * len(outputs)
        for name, found in zip(outputs, dtypes, strict=True):
            self._tensor(name, shape, found, scale, zero)
        made = schema.OperatorT()
        made.opcodeIndex = len(self.codes) - 1
        order = list(self.tensors)
        made.inputs = [order.index(name) if name else -1 for name in inputs]
        made.outputs = [order.index(name) for name in outputs]
        if options is not None:
            made.builtinOptions = options
            name = type(options).__name__.removesuffix("T")
            made.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        if custom:
            made.customOptions = np.frombuffer(custom, np.uint8)
        self.operators.append(made)
        return outputs[0] if outputs else ""

    def _graph(self, name, outputs):
        graph = schema.SubGraphT()
        order = list(self.tensors)
        graph.tensors, graph.operators = list(self.tensors.values()), self.operators
        graph.inputs = [order.index(name) for name in self.inputs]
        graph.outputs = [order.index(name) for name in outputs]
        graph.name = name
        return graph

    def write(self, path: Path, outputs) -> Path:
        model = schema.ModelT()
        made = [self._graph("main", outputs), *(g._graph("inner", g.outputs) for g in self.graphs)]
        model.version, model.subgraphs, model.buffers = 3, made, self.buffers
        model.operatorCodes = self.codes
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(builder.Output())
        return path


def options(kind, **values):
    """Return options of an operator, defaults but for those given."""
    made = getattr(schema, f"{kind}OptionsT")()
    for name, value in values.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made


def litert(path: Path, feeds: dict) -> dict:
    """Return what LiteRT's plain kernels compute, by output."""
    made = interpreter.Interpreter(
        str(path),
        experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    made.allocate_tensors()
    for item in made.get_input_details():
        made.set_tensor(item["index"], feeds[item["name"]])
    made.invoke()
    return {item["name"]: made.get_tensor(item["index"]) for item in made.get_output_details()}


def agree(graph, path: Path, feeds: dict, tolerance: float = 2e-5) -> None:
    """Compare a graph with LiteRT."""
    expected = litert(path, feeds)
    found = Session(graph).run(feeds)
    assert set(graph.outputs) == set(expected)
    for name, want in expected.items():
        assert found[name].shape == (want.shape or (1,)), name
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(found[name], want, rtol=0, atol=tolerance * scale)
