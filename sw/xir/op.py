# SPDX-License-Identifier: Apache-2.0
"""Ops: the nodes of a graph."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opendpu_arch.errors import GraphError
from xir import shapes
from xir.attrs import Attrs
from xir.oplib import OpDef
from xir.tensor import Tensor

if TYPE_CHECKING:
    from xir.graph import Graph


class Op(Attrs):
    """One operation; made by :meth:`xir.Graph.create_op`, never directly."""

    def __init__(
        self,
        graph: "Graph",
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

    def _kind_hint(self, key: str) -> str | None:
        definition = self._definition.attr(key)
        return definition.kind if definition else super()._kind_hint(key)

    def __repr__(self) -> str:
        """Return name and type."""
        return f"xir.Op{{name: {self._name}, type: {self.get_type()}}}"

    def get_name(self) -> str:
        """Return the name, unique in the graph."""
        return self._name

    def get_type(self) -> str:
        """Return the op type."""
        return self._definition.name

    def get_definition(self) -> OpDef:
        """Return what the op library says about the type."""
        return self._definition

    def get_graph(self) -> "Graph":
        """Return the graph that holds this op."""
        return self._graph

    def get_input_num(self, arg_name: str | None = None) -> int:
        """Return the number of inputs, of one argument or of all."""
        return len(self.get_input_ops_list(arg_name))

    def get_input_ops(self) -> dict[str, list["Op"]]:
        """Return the inputs by argument; arguments without one have an empty list."""
        return {arg: list(ops) for arg, ops in self._inputs.items()}

    def get_input_ops_by_name(self, arg_name: str) -> list["Op"]:
        """Return the inputs of one argument; GraphError if the op has no such argument."""
        return self.get_input_ops_list(arg_name)

    def get_input_ops_list(self, arg_name: str | None = None) -> list["Op"]:
        """Return the inputs of one argument or of all, in order."""
        if arg_name is None:
            return [op for ops in self._inputs.values() for op in ops]
        if arg_name not in self._inputs:
            raise GraphError(
                f"{self._owner()} has no argument {arg_name!r}; "
                f"it has: {', '.join(self._inputs) or 'none'}"
            )
        return list(self._inputs[arg_name])

    def get_input_op(self, arg_name: str, idx: int = 0) -> "Op":
        """Return one input; GraphError if there is none at ``idx``."""
        ops = self.get_input_ops_list(arg_name)
        if not 0 <= idx < len(ops):
            raise GraphError(
                f"{self._owner()} has {len(ops)} inputs {arg_name!r}, "
                f"but number {idx} was asked for"
            )
        return ops[idx]

    def set_input_ops(self, arg_name: str, ops: Sequence["Op"]) -> None:
        """Connect one argument to other ops; shapes are not inferred again."""
        self.get_input_ops_list(arg_name)
        for op in self._inputs[arg_name]:
            self._forget(op)
        self._inputs[arg_name] = list(ops)
        for op in ops:
            op._fanout[self] = op._fanout.get(self, 0) + 1

    def replace_input_ops(self, old: "Op", new: "Op") -> None:
        """Connect every input that is ``old`` to ``new`` instead."""
        if old not in self.get_input_ops_list():
            raise GraphError(f"{self._owner()} has no input {old.get_name()!r}")
        for arg, ops in self.get_input_ops().items():
            if old in ops:
                self.set_input_ops(arg, [new if op is old else op for op in ops])

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

    def get_input_tensors_by_name(self, arg_name: str) -> list[Tensor]:
        """Return the input tensors of one argument."""
        return [op.get_output_tensor() for op in self.get_input_ops_list(arg_name)]

    def get_input_tensor(self, arg_name: str, idx: int = 0) -> Tensor:
        """Return one input tensor."""
        return self.get_input_op(arg_name, idx).get_output_tensor()

    def get_output_tensor(self) -> Tensor:
        """Return the result."""
        return self._tensor

    def replace_output_tensor(self, tensor: Tensor) -> None:
        """Make ``tensor`` the result: name, dimensions, type and attributes at once."""
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
            raise GraphError(f"{self._owner()}: {error}") from None
        self._tensor.reset(dims, data_type)
