# SPDX-License-Identifier: Apache-2.0
"""What handlers of ONNX operators work with: tensors by name, and ways to emit nodes."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from opendpu.frontend.layout import CHANNELS_LAST, Value, gathered, plain, reshaped, same_data
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.frontend.source import Source, as_float, attributes
from opendpu.ir import FloatGraph, Node, Quantization, TensorType
from opendpu.ir.types import UNKNOWN, Origin
from opendpu.ops.formats import integers_of

Array = npt.NDArray[Any]


class Context:
    """State of one conversion: the graph so far and where every ONNX tensor lives in it."""

    def __init__(self, source: Source, *, any_scale: bool = False) -> None:
        self.source = source
        self.any_scale = any_scale
        """Whether quantization may be other than a power of two around zero."""
        self.opset = source.opset
        self.graph = FloatGraph(source.name)
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Array] = dict(source.constants)
        self.grids: dict[str, Quantization] = {}
        """What the constants stand for that are integers, 8 bits if nothing else is allowed."""
        self.integers: dict[str, Array] = {}
        """The integers of those that the model stores, where float32 has not all of them."""
        self.origin: Origin = UNKNOWN
        """Where the nodes come from that are made now."""
        self._views: dict[tuple[str, tuple[int, ...], str], str] = {}

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the ONNX shape of a tensor or constant."""
        if name in self.constants:
            return tuple(self.constants[name].shape)
        return self.values[name].shape

    def emit(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        inputs: dict[str, list[str]],
        attrs: dict[str, Any] | None = None,
        dtype: npt.DTypeLike = np.float32,
    ) -> str:
        """Append a node to the graph; return its name, which is unique.

        Scalars have shape [1].
        """
        made = TensorType(shape or (1,), np.dtype(dtype))
        unique = self.graph.unique(name)
        return self.graph.add(unique, kind, made, inputs, attrs, origin=self.origin).name

    def snapshot(self) -> "Snapshot":
        """Return what :meth:`restore` needs to undo everything from now on."""
        return Snapshot(
            dict(self.graph.nodes), dict(self.values), dict(self.constants), dict(self.grids),
            dict(self._views),
        )  # fmt: skip

    def restore(self, before: "Snapshot") -> None:
        """Undo what was made since a snapshot."""
        self.graph.nodes, self.values = before.nodes, before.values
        self.constants, self.grids = before.constants, before.grids
        self._views = before.views

    def rename(self, old: str, new: str) -> None:
        """Give a node of the graph another name, which must be free."""
        self.graph.rename(old, new)
        for tensor, value in self.values.items():
            if value.node == old:
                self.values[tensor] = value.on(new)

    def const(self, name: str, array: Array) -> str:
        """Append a constant to the graph; return its name."""
        return self.graph.add_const(name, as_float(array), origin=self.origin).name

    def constant_node(self, name: str, array: Array) -> str:
        """Append a constant of any element type; return its name."""
        if array.dtype == np.float32:
            return self.const(name, array)
        made = TensorType(array.shape or (1,), array.dtype)
        value = np.ascontiguousarray(array).reshape(made.shape)
        return self.graph.add(
            self.graph.unique(name), "const", made, value=value, origin=self.origin
        ).name

    def parameter(
        self, name: str, array: Array, tensor: str, outputs: tuple[int, int] | None = None
    ) -> str:
        """Append what became of the constant ``tensor``, with a ``fix`` if it is quantized.

        Integers with any other scale than the DPU's stay what they are, in front of a
        ``fix2float``. ``outputs`` are the axes of output channels in ``tensor`` and in ``array``,
        along which there may be a scale for each.
        """
        found = self.grids.get(tensor)
        if found is not None and not self.any_scale:
            node = self.const(name, array)
            return self.graph.add_fix(f"{node}_fix", node, found).name
        if found is None:
            return self.const(name, array)
        if found.axis is not None:
            if outputs is None or found.axis != outputs[0]:
                raise Refusal(
                    f"constant {tensor!r} has a scale for each index of axis {found.axis}, but "
                    "only output channels can have scales of their own"
                )
            found = dataclasses.replace(found, axis=outputs[1])
        made = TensorType(array.shape or (1,), np.dtype(f"int{found.bits}"), found)
        stored = self.integers.get(tensor)
        if stored is None or stored.size != array.size:
            stored = integers_of(array.reshape(made.shape), found)
        integers = stored.reshape(made.shape).astype(made.dtype)
        node = self.graph.add(
            self.graph.unique(f"{name}_fix"), "const-fix", made, value=integers, origin=self.origin
        ).name
        real = TensorType(made.shape, quantization=found)
        return self.graph.add(
            self.graph.unique(name), "fix2float", real, {"input": [node]}, origin=self.origin
        ).name

    def view(self, node: str, shape: tuple[int, ...]) -> str:
        """Return a node with the data of ``node`` in another shape; of scalars that is [1]."""
        shape = shape or (1,)
        if self.graph[node].shape == shape:
            return node
        key = (node, shape, "reshape")
        value = self.graph[node].value
        if value is not None and key not in self._views:
            self._views[key] = self.constant_node(f"{node}_reshape", value.reshape(shape))
        stored = self._integers_behind(node)
        if stored is not None and key not in self._views:
            self._views[key] = self._with_shape(node, stored, shape)
        if key not in self._views:
            self._views[key] = self.emit(
                f"{node}_reshape", "reshape", shape, {"input": [node]}, {"shape": list(shape)},
                self.graph[node].type.dtype,
            )  # fmt: skip
        return self._views[key]

    def _integers_behind(self, name: str) -> Node | None:
        """Return the constant in integers that a node makes real numbers of, with one scale."""
        node = self.graph[name]
        if node.kind != "fix2float":
            return None
        stored = self.graph[node.inputs["input"][0]]
        return stored if stored.kind == "const-fix" and stored.quantization.axis is None else None

    def _with_shape(self, name: str, stored: Node, shape: tuple[int, ...]) -> str:
        """Add the real numbers of a constant in integers in another shape."""
        assert stored.value is not None
        integers = self.graph.add(
            self.graph.unique(f"{stored.name}_reshape"), "const-fix",
            stored.type.with_shape(shape), value=stored.value.reshape(shape), origin=self.origin,
        ).name  # fmt: skip
        return self.graph.add(
            self.graph.unique(f"{name}_reshape"), "fix2float",
            self.graph[name].type.with_shape(shape), {"input": [integers]}, origin=self.origin,
        ).name  # fmt: skip

    def ordered(self, value: Value, perm: tuple[int, ...]) -> str:
        """Return a node that holds ``value`` with its axes in the order ``perm``."""
        value = self._unflat(value)
        target = tuple(value.shape[axis] for axis in perm)
        if same_data(value.shape, value.perm, perm):
            return self.view(value.node, target)
        base = self.view(value.node, value.stored)
        order = tuple(value.perm.index(axis) for axis in perm)
        key = (base, order, "transpose")
        array = self.graph[base].value
        if array is not None and key not in self._views:
            self._views[key] = self.constant_node(f"{base}_transpose", array.transpose(order))
        if key not in self._views:
            self._views[key] = self.emit(
                f"{base}_transpose",
                "transpose",
                target,
                {"input": [base]},
                {"order": list(order)},
                self.graph[base].type.dtype,
            )
        return self._views[key]

    def _unflat(self, value: Value) -> Value:
        if value.flat is None:
            return value
        shape, perm = value.flat
        before = Value(value.node, shape, perm)
        order = gathered(before, value.shape)
        return reshaped(Value(self.ordered(before, order), shape, order), value.shape)

    def straight(self, value: Value) -> Value:
        """Return ``value`` with its order undone if it was flattened out of order."""
        return self._unflat(value)


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """State of a conversion, to go back to."""

    nodes: dict[str, Node]
    values: dict[str, Value]
    constants: dict[str, Array]
    grids: dict[str, Quantization]
    views: dict[tuple[str, tuple[int, ...], str], str]


@dataclasses.dataclass(frozen=True)
class Call:
    """One ONNX node as its handler sees it."""

    context: Context
    proto: onnx.NodeProto
    attrs: dict[str, Any]

    @classmethod
    def of(cls, context: Context, proto: onnx.NodeProto) -> "Call":
        """Return the call with its attributes decoded."""
        return cls(context, proto, attributes(proto))

    @property
    def output(self) -> str:
        """Name of the first output tensor."""
        return str(self.proto.output[0])

    def has(self, index: int) -> bool:
        """Return whether the optional input ``index`` is given."""
        return index < len(self.proto.input) and bool(self.proto.input[index])

    def name(self, index: int) -> str:
        """Return the name of input ``index``; Refusal if it is missing."""
        if not self.has(index):
            raise Refusal(f"input {index} is missing")
        return str(self.proto.input[index])

    def constant(self, index: int) -> Array | None:
        """Return input ``index`` if it is known at conversion time."""
        return self.context.constants.get(self.name(index)) if self.has(index) else None

    def weights(self, index: int, what: str) -> Array:
        """Return input ``index``, which must be known; Refusal otherwise."""
        array = self.constant(index)
        if array is None:
            raise Refusal(f"{what} ({self.name(index)!r}) are computed, but must be constant")
        return array

    def parameter(
        self, index: int, what: str, array: Array, outputs: tuple[int, int] | None = None
    ) -> str:
        """Return a node with ``array``, which was made from the constant input ``index``.

        ``outputs`` is as of :meth:`Context.parameter`.
        """
        self.finite(index, array)
        return self.context.parameter(f"{self.output}_{what}", array, self.name(index), outputs)

    def finite(self, index: int, array: Array) -> None:
        """Check what was made of the trained constant ``index``.

        Raises
        ------
        FaultError
            It holds values that are infinite or not a number.
        """
        count = array.size - int(np.count_nonzero(np.isfinite(array)))
        if count:
            raise FaultError(
                f"weights {self.name(index)!r} hold {count} values that are NaN or infinite"
            )

    def is_quantized(self, index: int) -> bool:
        """Return whether input ``index`` is a constant in integers."""
        return self.has(index) and self.name(index) in self.context.grids

    def elementwise(
        self, kind: str, attrs: dict[str, Any] | None = None, dtype: npt.DTypeLike = np.float32
    ) -> None:
        """Emit an op on each element; the order of the axes, flat or not, stays what it was."""
        value = self.value(0)
        shape = value.stored if value.flat is None else value.shape
        node = self.context.view(value.node, shape)
        name = self.context.emit(self.output, kind, shape, {"input": [node]}, attrs, dtype)
        self.bind(value.on(name))

    def value(self, index: int) -> Value:
        """Return input ``index`` as a value; constants become nodes of the graph."""
        name = self.name(index)
        if name not in self.context.values:
            array = self.context.constants[name]
            node = self.context.parameter(name, array, name)
            self.context.values[name] = Value(node, array.shape, plain(array.ndim))
        return self.context.values[name]

    def feature_map(self, index: int = 0) -> tuple[str, tuple[int, int, int, int]]:
        """Return input ``index`` as NHWC node and its shape; NCL becomes N1LC."""
        value = self.value(index)
        perm = CHANNELS_LAST.get(len(value.shape))
        if perm is None:
            raise Refusal(
                f"input has shape {list(value.shape)}, but only 1-D and 2-D feature "
                "maps (NCL, NCHW) are supported"
            )
        node = self.context.ordered(value, perm)
        if len(value.shape) == 3:
            batch, channels, length = value.shape
            node = self.context.view(node, (batch, 1, length, channels))
        shape = self.context.graph[node].shape
        return node, (shape[0], shape[1], shape[2], shape[3])

    def set_feature_map(self, node: str, rank: int) -> None:
        """Bind the output to an NHWC node; ``rank`` is the rank of the ONNX tensor."""
        batch, height, width, channels = self.context.graph[node].shape
        shape = (batch, channels, width) if rank == 3 else (batch, channels, height, width)
        self.bind(Value(node, shape, CHANNELS_LAST[rank]))

    def bind(self, value: Value) -> None:
        """Say where the first output lives."""
        self.context.values[self.output] = value

    def sole_producer(self, index: int) -> Node | None:
        """Return the node behind input ``index`` if nobody but this call can see its result."""
        name = self.name(index)
        value = self.context.values.get(name)
        if value is None or value.flat is not None or self.context.source.uses[name] != 1:
            return None
        node = self.context.graph[value.node]
        aliases = [
            n
            for n, v in self.context.values.items()
            if v.node == node.name and n != name and self.context.source.uses[n] > 0
        ]
        if node.kind == "data" or self.context.graph.consumers(node.name):
            return None
        return None if any(self._pending(alias) for alias in aliases) else node

    def _pending(self, alias: str) -> bool:
        """Return whether a tensor may still be read by another node than this call's chain."""
        return self.context.source.uses[alias] > 1 or alias in self.context.source.outputs


def broadcast_shape(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape both broadcast to; Refusal if they do not."""
    try:
        return tuple(np.broadcast_shapes(one, other))
    except ValueError:
        raise Refusal(f"shapes {list(one)} and {list(other)} cannot be broadcast") from None
