# SPDX-License-Identifier: Apache-2.0
"""Graphs in memory: ops, their tensors and the tree of subgraphs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import GraphError
from xir import oplib
from xir.arguments import expect, expect_mapping, expect_name
from xir.datatype import DataType
from xir.members import Members
from xir.op import GraphBase, Op, Tensor
from xir.oplib import OpDef
from xir.subgraph import Subgraph
from xir.template import GraphTemplate, OpTemplate
from xir.topology import toposort


class OpGraph(GraphBase):
    """Ops by name and the tree of subgraphs; :class:`xir.Graph` without its files."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = expect_name(name, "name of a graph")
        self._ops: dict[str, Op] = {}
        self._root = Subgraph(self, "root", None)
        self._custom_definitions: dict[str, OpDef] = {}
        self._file_definitions: list[Any] = []

    def _owner(self) -> str:
        return f"graph {self._name!r}"

    def __repr__(self) -> str:
        """Return what PyXIR shows."""
        return f"<xir.Graph named '{self._name}'>"

    def __str__(self) -> str:
        """Return what PyXIR prints, with long values shortened."""
        return f"{{name: '{self._name}', op_num: {self.get_op_num()}, attrs: {self._attrs_text()}}}"

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def create_op(
        self,
        name: str,
        kind: str,
        attrs: Mapping[str, Any] | None = None,
        input_ops: Mapping[str, Sequence[Op]] | None = None,
        subgraph: Subgraph | None = None,
    ) -> Op:
        """Add an op and infer the shape of its result.

        Optional attributes that are not given get their defaults. A ``kind`` outside the op
        library needs the attributes ``shape`` and ``data_type``.

        Raises
        ------
        GraphError
            The name is taken, arguments or attributes are missing or unknown, or shapes do not
            fit. The graph is then as before.
        """
        expect_name(name, "name of an op")
        definition = self.get_definition(expect_name(kind, f"type of op {name!r}"))
        label = f"op {name!r} ({kind})"
        if not name or name in self._ops:
            raise GraphError(
                f"{label}: the name is empty or already in {self._owner()}",
                code="XIR_MULTI_DEFINED_OP",
            )
        given = {} if input_ops is None else expect_mapping(input_ops, f"{label}: inputs")
        values = {} if attrs is None else expect_mapping(attrs, f"{label}: attributes")
        inputs = {arg: list(ops) for arg, ops in given.items()}
        for arg, ops in inputs.items():
            for source in ops:
                expect(source, Op, f"{label}: input {arg!r}")
        self._check_inputs(label, definition, inputs)
        op = Op(self, name, definition, inputs)
        try:
            for key, value in values.items():
                op.set_attr(key, value)
            _complete(op)
            op.infer_shape()
            self._insert(op, subgraph)
        except GraphError:
            for arg in inputs:
                op.set_input_ops(arg, [])
            raise
        return op

    def create_const_op(self, name: str, array: npt.NDArray[Any]) -> Op:
        """Add a ``const`` op that holds ``array``."""
        values = np.ascontiguousarray(array).reshape(np.shape(array))
        attrs = {
            "shape": list(values.shape) or [1],
            "data_type": DataType.of(values).to_string(),
            "data": values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes(),
        }
        return self.create_op(name, "const", attrs)

    def remove_op(self, op: Op) -> None:
        """Remove an op that nobody uses; GraphError otherwise."""
        expect(op, Op, "op")
        users = ", ".join(user.get_name() for user in op.get_fanout_ops())
        if self._ops.get(op.get_name()) is not op or users:
            raise GraphError(
                f"{op._owner()} cannot be removed: "
                f"{f'used by {users}' if users else f'not in {self._owner()}'}",
                code="XIR_REMOVE_OP_FAIL",
            )
        for arg in op.get_input_ops():
            op.set_input_ops(arg, [])
        del self._ops[op.get_name()]
        self._root._drop(op)

    def get_definition(self, kind: str) -> OpDef:
        """Return the definition of an op type.

        A type that is not built in has the definition that the file brought, else the registered
        one, else that of custom ops.
        """
        if kind in oplib.builtin():
            return oplib.builtin()[kind]
        if kind not in self._custom_definitions:
            self._custom_definitions[kind] = oplib.definition_of(kind) or oplib.custom(kind)
        return self._custom_definitions[kind]

    def get_op(self, name: str) -> Op | None:
        """Return the op called ``name``, or nothing."""
        return self._ops.get(name)

    def get_ops(self) -> Members[Op]:
        """Return every op, in the order they were added."""
        return Members(self._ops.values())

    def get_op_num(self) -> int:
        """Return the number of ops."""
        return len(self._ops)

    def get_head_ops(self) -> Members[Op]:
        """Return the ops without inputs."""
        return Members(op for op in self._ops.values() if not op.get_input_num())

    def get_tail_ops(self) -> Members[Op]:
        """Return the ops whose result nobody uses."""
        return Members(op for op in self._ops.values() if not op.get_fanout_num())

    def get_tensors(self) -> Members[Tensor]:
        """Return the result of every op."""
        return Members(op.get_output_tensor() for op in self._ops.values())

    def get_tensor(self, name: str) -> Tensor | None:
        """Return the tensor called ``name``, or nothing."""
        expect(name, str, "name")
        return next((tensor for tensor in self.get_tensors() if tensor.name == name), None)

    def get_tensor_producer(self, tensor: Tensor | str) -> Op | None:
        """Return the op that produces a tensor, or nothing."""
        return self._root.get_tensor_producer(tensor)

    def toposort(self) -> list[Op]:
        """Return every op after its inputs, otherwise in the order they were added."""
        return toposort(self.get_ops(), Op.get_fanout_ops)

    def isomorphism(self, graph_template: GraphTemplate) -> list[dict[OpTemplate, Op]]:
        """Return the places where a template matches, see :meth:`GraphTemplate.find`."""
        return expect(graph_template, GraphTemplate, "graph_template").find(self.get_ops())

    def infer_shape(self) -> None:
        """Infer every shape again, inputs first."""
        for op in self.toposort():
            op.infer_shape()

    def get_root_subgraph(self) -> Subgraph:
        """Return the root of the tree of subgraphs."""
        return self._root

    def get_leaf_subgraph(self, op: Op) -> Subgraph | None:
        """Return the leaf that holds ``op``, or nothing."""
        expect(op, Op, "op")
        node: Subgraph | None = self._root if self._root.has_op(op) else None
        while node is not None and not node.is_leaf:
            node = node.find_child_subgraph_by_op(op)
        return node

    def _insert(self, op: Op, subgraph: Subgraph | None = None) -> None:
        (subgraph or self._root)._put(op)
        self._ops[op.get_name()] = op

    def _check_inputs(
        self, label: str, definition: OpDef, inputs: Mapping[str, Sequence[Op]]
    ) -> None:
        known = ", ".join(arg.name for arg in definition.args) or "none"
        for arg in inputs:
            if definition.arg(arg) is None:
                raise GraphError(
                    f"{label} has no argument {arg!r}; it has: {known}", code="XIR_UNREGISTERED_ARG"
                )
        for arg_def in definition.args:
            ops = inputs.get(arg_def.name, ())
            if not ops and arg_def.occurrence.required:
                raise GraphError(
                    f"{label}: argument {arg_def.name!r} is missing", code="XIR_INVALID_ARG_OCCUR"
                )
            if len(ops) > 1 and not arg_def.occurrence.repeated:
                raise GraphError(
                    f"{label}: argument {arg_def.name!r} has {len(ops)} ops, but takes one",
                    code="XIR_INVALID_ARG_OCCUR",
                )
        for op in (op for ops in inputs.values() for op in ops):
            if not isinstance(op, Op) or self._ops.get(op.get_name()) is not op:
                raise GraphError(
                    f"{label}: input {op!r} is not an op of {self._owner()}",
                    code="XIR_ADD_OP_FAIL",
                )


def _complete(op: Op) -> None:
    """Give optional attributes their defaults; check that the required ones are there."""
    for attr in op.get_definition().attrs:
        if not op.has_attr(attr.name):
            if attr.occurrence.required:
                raise GraphError(
                    f"{op._owner()}: attribute {attr.name!r} is missing",
                    code="XIR_INVALID_ATTR_OCCUR",
                )
            op.set_attr(attr.name, attr.default)
        attr.check_length(op.get_attr(attr.name), op._owner())
