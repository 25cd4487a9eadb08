# SPDX-License-Identifier: Apache-2.0
"""Graphs as ONNX models, so that onnxruntime computes them.

Feature maps are NHWC in our graphs and NCHW in ONNX's spatial operators. A value is kept in the
order in which its op made it, and transposed only where a reader needs the other one.

Integers that stand for real numbers are carried as float32, in which every kernel of
:mod:`opendpu.ops.fixed` is exact; a model takes and gives them in their own type.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.ir import Array, Graph, Node, TensorType
from opendpu.ops.formats import fake_quantize, real_numbers

OPSET = 17
"""Operator set of models whose ops say none."""
AXES_AS_INPUT = 18
"""First operator set in which axes of every reduction are an input."""
IR_VERSION = 10
LARGE_BYTES = 1 << 16
"""Constants from this size on are given to sessions as they are in memory."""
FED_BYTES = 1 << 27
"""Floating-point constants beyond this size are inputs, which sessions do not copy."""
Arranged = Callable[[Array], Array]
"""The same elements in another shape or order of axes."""
TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
FLOAT = onnx.TensorProto.FLOAT


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of a model: its name there, and whether its axes are NCHW."""

    name: str
    channels_first: bool


class OnnxBuilder:
    """Adds ops of a graph to an ONNX model.

    Parameters
    ----------
    graph
        Where the ops are.
    opset
        Version of the default operator set.
    batched
        Whether samples are stacked along the first axis of the inputs, which is 1 in the graph.
    """

    def __init__(self, graph: Graph, *, opset: int = OPSET, batched: bool = False) -> None:
        self.graph = graph
        self.opset = opset
        self.batched = batched
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self.large: dict[str, Array] = {}
        """Values of constants that are not in the model itself."""
        self.fed: dict[str, Array] = {}
        """Values of constants that are inputs of the model."""
        self.inputs: list[onnx.ValueInfoProto] = []
        self.opsets: dict[str, int] = {"": opset}
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        """Functions of models that are part of this one, by domain and name."""
        self.libraries: dict[str, None] = {}
        """Paths of libraries with operators of other domains, in the order they were found."""
        self.calls: dict[str, list[str]] = {}
        """Outputs of the ONNX models that are part of this one, by call."""
        self.rounds = False
        """Whether quantizers here only round: what is between them is computed in float32."""
        self.cuts = True
        """Whether terms of the DPU's sums are cut as there."""
        self._limits: dict[str, tuple[int, int]] = {}
        self._plain: dict[str, str] = {}
        self._first: dict[str, str] = {}
        self._count = 0

    # Values

    def add_input(self, name: str, *, channels_first: bool = False) -> None:
        """Make the result of a node an input of the model, in its own order of axes or as NCHW."""
        made = self.graph[name].type
        shape: list[int | str] = list(made.shape)
        if self.batched and shape and shape[0] == 1:
            shape[0] = "N"
        if channels_first:
            shape = [shape[axis] for axis in TO_NCHW]
        kind = helper.np_dtype_to_tensor_dtype(made.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        value = self.op("Cast", [name], to=FLOAT) if made.is_fixed else name
        self.bind(self.graph[name], value, channels_first=channels_first)

    def constant(self, name: str) -> Array | None:
        """Return the values of a constant, of a converted one too; none for what is computed."""
        node = self.graph[name]
        if node.value is not None:
            return node.value.astype(np.float32) if node.type.is_fixed else node.value
        if node.kind not in ("fix", "fix2float"):
            return None
        value = self.graph[node.inputs["input"][0]].value
        if value is None:
            return None
        if node.kind == "fix":
            return fake_quantize(value, node.quantization)
        return real_numbers(value, node.quantization)

    def parameter(self, name: str, arranged: Arranged) -> str:
        """Return the ONNX name of a constant with its elements in another arrangement."""
        value = self.constant(name)
        assert value is not None, name
        return self.initializer(arranged(value))

    def plain(self, name: str) -> str:
        """Return the ONNX name of a result in the graph's order of axes."""
        if name not in self._plain:
            if self.constant(name) is not None:
                self._plain[name] = self.parameter(name, lambda array: array)
            else:
                self._plain[name] = self.op("Transpose", [self._first[name]], perm=list(TO_NHWC))
        return self._plain[name]

    def channels_first(self, name: str) -> str:
        """Return the ONNX name of a feature map as NCHW."""
        if name not in self._first:
            if self.constant(name) is not None:
                self._first[name] = self.parameter(name, lambda array: array.transpose(TO_NCHW))
            else:
                self._first[name] = self.op("Transpose", [self._plain[name]], perm=list(TO_NCHW))
        return self._first[name]

    def is_first(self, name: str) -> bool:
        """Return whether a result is there as NCHW without another transpose."""
        return name in self._first and name not in self._plain

    def bind(self, node: Node, name: str, *, channels_first: bool = False) -> None:
        """Say which ONNX value is the result of a node."""
        (self._first if channels_first else self._plain)[node.name] = name

    def first_values(self) -> set[str]:
        """Return the ONNX names of all feature maps that are NCHW."""
        return set(self._first.values())

    def output(self, name: str) -> Output:
        """Return how a result leaves the model: integers in their own type.

        Also those of a node without quantization: what it moves may be carried as float32.
        """
        first = self.is_first(name)
        value = self._first[name] if first else self.plain(name)
        made = self.graph[name].type
        if made.dtype.kind in "iu":
            value = self.op("Cast", [value], to=helper.np_dtype_to_tensor_dtype(made.dtype))
        return Output(value, first)

    # Integers

    def limits(self, name: str) -> tuple[int, int]:
        """Return what the integers of a result are not below and not above."""
        return self._limits.get(name) or self.graph[name].quantization.limits

    def narrow(self, name: str, low: int, high: int) -> None:
        """Say that the integers of a result are in a smaller range than their type."""
        least, most = self.graph[name].quantization.limits
        self._limits[name] = (max(low, least), min(high, most))

    # Nodes

    def unique(self, stem: str) -> str:
        """Return a name that no other ONNX value has."""
        self._count += 1
        return f"{stem}:{self._count}"

    def op(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Add an ONNX node with one output; return its name."""
        output = self.unique(op_type)
        self.nodes.append(helper.make_node(op_type, list(inputs), [output], **attrs))
        return output

    def reduced(self, op_type: str, value: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction along axes, as the operator set has it; return its name."""
        if self.opset >= AXES_AS_INPUT or op_type == "ReduceSum":
            return self.op(op_type, [value, self.integers(axes)], keepdims=keepdims)
        return self.op(op_type, [value], axes=list(axes), keepdims=keepdims)

    def front_of_shape(self, value: str, count: int) -> str:
        """Add the sizes of the first axes of a tensor; return their name."""
        sizes = self.op("Shape", [value])
        return self.op("Slice", [sizes, self.integers([0]), self.integers([count])])

    def initializer(self, value: Array) -> str:
        """Add a constant; return its name. Large ones stay outside the model."""
        name = self.unique("constant")
        array = np.ascontiguousarray(value).reshape(value.shape)
        if array.nbytes > FED_BYTES and array.dtype == np.float32:
            self.inputs.append(helper.make_tensor_value_info(name, FLOAT, array.shape))
            self.fed[name] = array
            return name
        if array.nbytes < LARGE_BYTES:
            self.initializers[name] = numpy_helper.from_array(array, name)
            return name
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        outside = onnx.TensorProto(
            name=name, data_type=kind, dims=array.shape,
            data_location=onnx.TensorProto.EXTERNAL,
        )  # fmt: skip
        outside.external_data.add(key="location", value="memory")
        self.initializers[name] = outside
        self.large[name] = array
        return name

    def integers(self, values: Iterable[int]) -> str:
        """Add a vector of int64; return its name."""
        return self.initializer(np.array(list(values), np.int64))

    def reshape(self, name: str, before: TensorType, shape: Sequence[int]) -> str:
        """Add a reshape; samples stay apart where both shapes have a first axis of 1."""
        target = list(shape)
        if self.batched and target and target[0] == 1 and before.shape[:1] == (1,):
            target[0] = 0
        return self.op("Reshape", [name, self.integers(target)])

    @functools.cached_property
    def users(self) -> dict[str, list[Node]]:
        """Readers of each node's result, by its name."""
        return self.graph.consumer_map()

    def cut(self, value: str, point: int) -> str:
        """Add what rounds real numbers down to so many fractional bits; return its name."""
        steps = self.op("Mul", [value, self.initializer(np.array(2.0**point, np.float32))])
        unit = self.initializer(np.array(2.0**-point, np.float32))
        return self.op("Mul", [self.op("Floor", [steps]), unit])

    def model(self, outputs: Iterable[str]) -> onnx.ModelProto:
        """Return the model with these ONNX values as outputs."""
        made = helper.make_graph(
            self.nodes, self.graph.name or "graph", self.inputs,
            [helper.make_empty_tensor_value_info(name) for name in outputs],
        )  # fmt: skip
        made.initializer.extend(self.initializers.values())
        imports = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        return helper.make_model(
            made, opset_imports=imports, ir_version=IR_VERSION,
            functions=list(self.functions.values()),
        )  # fmt: skip
