# SPDX-License-Identifier: Apache-2.0
"""Drafts: XIR graphs that can still be edited, with constants as numpy arrays."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import xir
from opendpu_arch.errors import GraphError

Array = npt.NDArray[Any]


@dataclasses.dataclass
class Node:
    """One op of a draft.

    ``inputs`` holds node names by XIR argument; ``shape`` is the shape of the result, NHWC;
    ``value`` is the float32 array of a ``const`` and nothing for every other kind.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    inputs: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    value: Array | None = None

    def sources(self) -> list[str]:
        """Return the names of all inputs, argument by argument."""
        return [name for names in self.inputs.values() for name in names]


class Draft:
    """An editable graph: nodes in topological order and the names of the outputs.

    Parameters
    ----------
    name
        Name of the graph.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.outputs: list[str] = []
        self.attrs: dict[str, Any] = {}

    def __iter__(self) -> Iterator[Node]:
        """Iterate over the nodes, inputs before users."""
        return iter(list(self.nodes.values()))

    def __getitem__(self, name: str) -> Node:
        """Return the node called ``name``; GraphError if there is none."""
        if name not in self.nodes:
            raise GraphError(f"graph {self.name!r} has no node {name!r}")
        return self.nodes[name]

    def unique(self, name: str) -> str:
        """Return ``name``, or with a number behind it if it is taken."""
        if name not in self.nodes:
            return name
        number = 1
        while f"{name}_{number}" in self.nodes:
            number += 1
        return f"{name}_{number}"

    def add(
        self,
        name: str,
        kind: str,
        shape: Iterable[int],
        inputs: Mapping[str, list[str]] | None = None,
        attrs: Mapping[str, Any] | None = None,
        value: Array | None = None,
    ) -> Node:
        """Append a node; GraphError if the name is taken or an input is unknown."""
        if name in self.nodes:
            raise GraphError(f"graph {self.name!r} already has a node {name!r}")
        node = Node(
            name,
            kind,
            tuple(shape),
            {k: list(v) for k, v in (inputs or {}).items()},
            dict(attrs or {}),
            value,
        )
        for source in node.sources():
            self[source]
        self.nodes[name] = node
        return node

    def add_const(self, name: str, value: Array) -> Node:
        """Append a float32 constant under ``name`` or the next free name."""
        array = np.ascontiguousarray(value, dtype=np.float32)
        array = array.reshape(np.shape(value) or (1,))
        return self.add(self.unique(name), "const", array.shape, value=array)

    def consumers(self, name: str) -> list[Node]:
        """Return the nodes that use the result of ``name``."""
        return [node for node in self.nodes.values() if name in node.sources()]

    def consumer_map(self) -> dict[str, list[Node]]:
        """Return the users of every node at once."""
        users: dict[str, list[Node]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for source in dict.fromkeys(node.sources()):
                users[source].append(node)
        return users

    def replace(self, old: str, new: str) -> None:
        """Let every user of ``old``, and the outputs, use ``new`` instead."""
        for node in self.nodes.values():
            if node.name != new:
                node.inputs = {
                    arg: [new if name == old else name for name in names]
                    for arg, names in node.inputs.items()
                }
        self.outputs = [new if name == old else name for name in self.outputs]

    def rename(self, old: str, new: str) -> None:
        """Give a node another name; GraphError if it is taken."""
        if old == new:
            return
        if new in self.nodes:
            raise GraphError(f"graph {self.name!r} already has a node {new!r}")
        self.replace(old, new)
        self.nodes = {(new if name == old else name): node for name, node in self.nodes.items()}
        self.nodes[new].name = new

    def prune(self) -> None:
        """Drop every node that no output depends on; inputs of the graph stay."""
        alive = set(self.outputs)
        for node in reversed(self.nodes.values()):
            if node.name in alive:
                alive.update(node.sources())
        self.nodes = {n.name: n for n in self if n.name in alive or n.kind == "data"}

    def sort(self) -> None:
        """Bring the nodes into topological order, stable otherwise; GraphError on a cycle."""
        ordered: dict[str, Node] = {}
        active: set[str] = set()
        for root in self:
            stack = [root.name]
            while stack:
                name = stack[-1]
                waiting = [s for s in self[name].sources() if s not in ordered]
                if name in ordered or not waiting:
                    ordered.setdefault(name, self[name])
                    active.discard(name)
                    stack.pop()
                elif name in active:
                    raise GraphError(f"graph {self.name!r} has a cycle through {name!r}")
                else:
                    active.add(name)
                    stack.extend(reversed(waiting))
        self.nodes = ordered

    def copy(self) -> "Draft":
        """Return an independent draft; constants are shared, they are never changed in place."""
        twin = Draft(self.name)
        twin.outputs, twin.attrs = list(self.outputs), dict(self.attrs)
        twin.nodes = {
            n.name: dataclasses.replace(
                n, inputs={k: list(v) for k, v in n.inputs.items()}, attrs=dict(n.attrs)
            )
            for n in self
        }
        return twin

    def to_xir(self) -> xir.Graph:
        """Return the draft as XIR graph with graph attribute ``return_ops``.

        Raises
        ------
        GraphError
            An op breaks its definition, or the shape that XIR infers is not the draft's.
        """
        graph = xir.Graph(self.name)
        ops: dict[str, xir.Op] = {}
        for node in self:
            if node.value is not None:
                ops[node.name] = graph.create_const_op(node.name, node.value)
                continue
            attrs = dict(node.attrs)
            if node.kind == "data" or node.kind not in xir.builtin():
                attrs |= {"shape": list(node.shape), "data_type": "FLOAT32"}
            inputs = {arg: [ops[n] for n in names] for arg, names in node.inputs.items()}
            op = graph.create_op(node.name, node.kind, attrs, inputs)
            if tuple(op.get_output_tensor().dims) != node.shape:
                raise GraphError(
                    f"op {node.name!r} ({node.kind}) has shape {list(node.shape)}, "
                    f"but XIR infers {op.get_output_tensor().dims}"
                )
            ops[node.name] = op
        for key, value in self.attrs.items():
            graph.set_attr(key, value)
        graph.set_attr("return_ops", list(self.outputs))
        return graph

    @classmethod
    def from_xir(cls, graph: xir.Graph) -> "Draft":
        """Return the draft of a float or quantized graph; outputs are its ``return_ops``.

        Without that attribute, the outputs are the ops whose result nobody uses.
        """
        draft = cls(graph.get_name())
        for op in graph.toposort():
            attrs = {
                k: v
                for k, v in op.get_attrs().items()
                if k not in ("data", "shape", "data_type") or op.get_type() == "reshape"
            }
            value = None
            shape = tuple(op.get_output_tensor().dims)
            if op.get_type() == "const":
                value = _const_value(op, shape)
            inputs = {
                arg: [i.get_name() for i in ops] for arg, ops in op.get_input_ops().items() if ops
            }
            draft.add(op.get_name(), op.get_type(), shape, inputs, attrs, value)
        if graph.has_attr("return_ops"):
            draft.outputs = list(graph.get_attr("return_ops"))
        else:
            draft.outputs = [op.get_name() for op in graph.get_tail_ops()]
        draft.attrs = {k: v for k, v in graph.get_attrs().items() if k != "return_ops"}
        for name in draft.outputs:
            draft[name]
        return draft


def _const_value(op: xir.Op, shape: tuple[int, ...]) -> Array:
    kind = str(op.get_attr("data_type")).upper()
    dtypes = {"FLOAT32": "<f4", "FLOAT64": "<f8", "INT32": "<i4", "INT64": "<i8"}
    if kind not in dtypes:
        raise GraphError(
            f"constant {op.get_name()!r} has data type {kind}, "
            f"but must be one of {', '.join(dtypes)}"
        )
    data = np.frombuffer(op.get_attr("data"), dtype=dtypes[kind])
    if data.size != int(np.prod(shape)):
        raise GraphError(
            f"constant {op.get_name()!r} holds {data.size} elements, but its shape is {list(shape)}"
        )
    return data.reshape(shape).astype(np.float32, copy=False)
