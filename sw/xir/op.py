# SPDX-License-Identifier: Apache-2.0
"""Ops, the nodes of a graph, and tensors, what they produce."""

import abc
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

from opendpu_arch.errors import GraphError
from xir import shapes
from xir.arguments import expect, expect_name
from xir.attrs import Attrs
from xir.datatype import DataType
from xir.oplib import OpDef


class Tensor(Attrs):
    """Name, dimensions and element type of an op's result; layout is NHWC.

    Raises
    ------
    GraphError
        A dimension is not a positive integer.
    """

    def __init__(self, name: str, dims: Iterable[int], data_type: DataType | str) -> None:
        super().__init__()
        self._name = expect_name(name, "name of a tensor")
        self._producer: Op | None = None
        self.reset(dims, data_type)

    def reset(self, dims: Iterable[int], data_type: DataType | str) -> None:
        """Give the tensor other dimensions and another element type."""
        try:
            values = [operator.index(dim) for dim in dims]
        except TypeError as error:
            raise TypeError(f"{self._owner()}: dimensions must be whole numbers: {error}") from None
        if any(not 0 <= dim < 2**32 for dim in values):
            raise GraphError(
                f"tensor {self._name!r} has dimensions {values}, but each must be in 0..2^32-1"
            )
        self._dims = values
        kind = DataType(data_type) if isinstance(data_type, str) else data_type
        self._data_type = expect(kind, DataType, f"{self._owner()}: data type")

    def _owner(self) -> str:
        return f"tensor {self._name!r}"

    def __repr__(self) -> str:
        """Return what PyXIR shows."""
        return f"<xir.Tensor named '{self._name}'>"

    def __str__(self) -> str:
        """Return what PyXIR prints, with long values shortened."""
        return (
            f"{{name: '{self._name}', shape: {self._dims}, type: '{self.dtype}', "
            f"attrs: {self._attrs_text()}}}"
        )

    @property
    def name(self) -> str:
        """Name, unique in its graph; can be set."""
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self.rename(name)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._dims)

    @property
    def dims(self) -> list[int]:
        """Dimensions, NHWC."""
        return list(self._dims)

    @property
    def dtype(self) -> str:
        """Element type in lower case, as PyXIR gives it: ``xint8``, ``float32``."""
        return self._data_type.to_string().lower()

    @property
    def data_type(self) -> DataType:
        """Element type."""
        return self._data_type

    @property
    def producer(self) -> Optional["Op"]:
        """The op whose result this is."""
        return self._producer

    def rename(self, name: str) -> "Tensor":
        """Change the name."""
        self._name = expect_name(name, "name of a tensor")
        return self

    def get_element_num(self) -> int:
        """Return the number of elements."""
        return math.prod(self._dims)

    def get_data_size(self) -> int:
        """Return the number of bytes, dense."""
        return (self.get_element_num() * self._data_type.bit_width + 7) // 8

    def clone(self) -> "Tensor":
        """Return a copy that no op produces."""
        copy = Tensor(self._name, self._dims, self._data_type)
        copy.set_attrs(self)
        return copy


class Op(Attrs):
    """One operation; made by :meth:`xir.Graph.create_op`, never directly."""

    def __init__(
        self,
        graph: "GraphBase",
        name: str,
        definition: OpDef,
        input_ops: Mapping[str, Sequence["Op"]],
    ) -> None:
        super().__init__()
        self._graph = graph
        self._name = name
        self._definition = definition
        self._inputs = {arg.name: list(input_ops.get(arg.name, ())) for arg in definition.args}
        for arg, ops in input_ops.items():
            self._inputs[arg] = list(ops)
        self._fanout: dict[Op, int] = {}
        self._tensor = Tensor(name, (), "UNKNOWN32")
        self._tensor._producer = self
        for op in self.get_input_ops_list():
            op._fanout[self] = op._fanout.get(self, 0) + 1

    def _owner(self) -> str:
        return f"op {self._name!r} ({self.get_type()})"

    def _kind_hint(self, name: str) -> str | None:
        definition = self._definition.attr(name)
        return definition.kind if definition else super()._kind_hint(name)

    def set_attr(self, name: str, value: Any, kind: str | None = None) -> "Attrs":
        """Set ``name``, see :meth:`Attrs.set_attr`; vectors have the length that the type says.

        Raises
        ------
        GraphError
            The value does not fit the wire type, or has another length.
        """
        before = self._attrs.get(name)
        super().set_attr(name, value, kind)
        definition = self._definition.attr(name)
        try:
            if definition is not None:
                definition.check_length(self.get_attr(name), self._owner())
        except GraphError:
            del self._attrs[name]
            if before is not None:
                self._attrs[name] = before
            raise
        return self

    def __repr__(self) -> str:
        """Return what PyXIR shows."""
        return f"<xir.Op named '{self._name}'>"

    def __str__(self) -> str:
        """Return what PyXIR prints, with long values shortened."""
        return f"{{name: '{self._name}', type: '{self.get_type()}', attrs: {self._attrs_text()}}}"

    def get_name(self) -> str:
        """Return the name, unique in the graph."""
        return self._name

    def get_type(self) -> str:
        """Return the op type."""
        return self._definition.name

    def get_definition(self) -> OpDef:
        """Return what the op library says about the type."""
        return self._definition

    def get_graph(self) -> "GraphBase":
        """Return the graph that holds this op."""
        return self._graph

    def get_input_num(self, name: str | None = None) -> int:
        """Return the number of inputs, of one argument or of all."""
        return len(self.get_input_ops_list(name))

    def get_input_ops(self) -> dict[str, list["Op"]]:
        """Return the inputs by argument; arguments without one have an empty list."""
        return {arg: list(ops) for arg, ops in self._inputs.items()}

    def get_input_ops_by_name(self, name: str) -> list["Op"]:
        """Return the inputs of one argument; GraphError if the op has no such argument."""
        return self.get_input_ops_list(name)

    def get_input_ops_list(self, name: str | None = None) -> list["Op"]:
        """Return the inputs of one argument or of all, in order."""
        if name is None:
            return [op for ops in self._inputs.values() for op in ops]
        if name not in self._inputs:
            raise GraphError(
                f"{self._owner()} has no argument {name!r}; "
                f"it has: {', '.join(self._inputs) or 'none'}",
                code="XIR_UNDEFINED_INPUT_ARG",
            )
        return list(self._inputs[name])

    def get_input_op(self, name: str, idx: int = 0) -> "Op":
        """Return one input; GraphError if there is none at ``idx``."""
        ops = self.get_input_ops_list(name)
        if not 0 <= idx < len(ops):
            raise GraphError(
                f"{self._owner()} has {len(ops)} inputs {name!r}, but number {idx} was asked for",
                code="XIR_OUT_OF_RANGE",
            )
        return ops[idx]

    def set_input_ops(self, name: str, ops: Sequence["Op"]) -> None:
        """Connect one argument to other ops; shapes are not inferred again."""
        self.get_input_ops_list(name)
        for op in ops:
            expect(op, Op, f"{self._owner()}: input {name!r}")
        for op in self._inputs[name]:
            self._forget(op)
        self._inputs[name] = list(ops)
        for op in ops:
            op._fanout[self] = op._fanout.get(self, 0) + 1

    def replace_input_ops(self, op_old: "Op", op_new: "Op") -> None:
        """Connect every input that is ``op_old`` to ``op_new`` instead."""
        expect(op_old, Op, "op_old")
        expect(op_new, Op, "op_new")
        if op_old not in self.get_input_ops_list():
            raise GraphError(f"{self._owner()} has no input {op_old.get_name()!r}")
        for arg, ops in self.get_input_ops().items():
            if op_old in ops:
                self.set_input_ops(arg, [op_new if op is op_old else op for op in ops])

    def _forget(self, producer: "Op") -> None:
        producer._fanout[self] -= 1
        if not producer._fanout[self]:
            del producer._fanout[self]

    def get_fanout_num(self) -> int:
        """Return the number of ops that use the result."""
        return len(self._fanout)

    def get_fanout_ops(self) -> list["Op"]:
        """Return the ops that use the result."""
        return list(self._fanout)

    def get_input_tensors(self) -> list[Tensor]:
        """Return the tensors of all inputs, in order of arguments."""
        return [op.get_output_tensor() for op in self.get_input_ops_list()]

    def get_input_tensors_by_name(self, name: str) -> list[Tensor]:
        """Return the input tensors of one argument."""
        return [op.get_output_tensor() for op in self.get_input_ops_list(name)]

    def get_input_tensor(self, name: str, idx: int = 0) -> Tensor:
        """Return one input tensor."""
        return self.get_input_op(name, idx).get_output_tensor()

    def get_output_tensor(self) -> Tensor:
        """Return the result."""
        return self._tensor

    def replace_output_tensor(self, tensor: Tensor) -> None:
        """Make ``tensor`` the result: name, dimensions, type and attributes at once."""
        expect(tensor, Tensor, "tensor")
        self._tensor._producer = None
        tensor._producer = self
        self._tensor = tensor

    def infer_shape(self) -> None:
        """Compute dimensions and type of the result from attributes and inputs.

        Raises
        ------
        GraphError
            Inputs and attributes do not fit together.
        """
        try:
            dims, data_type = shapes.infer(self)
        except GraphError as error:
            code = error.code or "XIR_SHAPE_UNMATCH"
            raise GraphError(f"{self._owner()}: {error.message}", code=code) from None
        self._tensor.reset(dims, data_type)


class GraphBase(Attrs, abc.ABC):
    """A graph as its ops and subgraphs see it; :class:`xir.Graph` is the one there is."""

    @abc.abstractmethod
    def get_name(self) -> str:
        """Return the name."""

    @abc.abstractmethod
    def get_op(self, name: str) -> Op | None:
        """Return the op called ``name``, or nothing."""

    @abc.abstractmethod
    def get_ops(self) -> list[Op]:
        """Return every op, in the order they were added."""

    @abc.abstractmethod
    def toposort(self) -> list[Op]:
        """Return every op after its inputs, otherwise in the order they were added."""
