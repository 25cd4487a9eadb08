# SPDX-License-Identifier: Apache-2.0
"""Subgraphs: the tree that assigns every op of a graph to one leaf."""

import collections
import os
from collections.abc import Iterable
from typing import Optional, overload

from opendpu_arch.errors import GraphError
from xir import dot
from xir.arguments import expect, expect_name
from xir.attrs import Attrs
from xir.members import Members
from xir.op import GraphBase, Op, Tensor
from xir.template import GraphTemplate, OpTemplate
from xir.topology import toposort


class Subgraph(Attrs):
    """A leaf holds ops, an inner node holds subgraphs; the root covers the whole graph.

    Where PyXIR returns sets, lists are returned here, so that results do not depend on hashes.
    """

    def __init__(self, graph: GraphBase, name: str, parent: Optional["Subgraph"]) -> None:
        super().__init__()
        self._graph = graph
        self._name = name
        self._parent = parent
        self._children: list[Subgraph] = []
        self._ops: dict[Op, None] = {}

    def _owner(self) -> str:
        return f"subgraph {self._name!r}"

    def __repr__(self) -> str:
        """Return what PyXIR shows."""
        return f"<xir.Subgraph named '{self._name}'>"

    def __str__(self) -> str:
        """Return what PyXIR prints, with long values shortened."""
        return f"{{name: '{self._name}', op_num: {self.get_op_num()}, attrs: {self._attrs_text()}}}"

    def get_name(self) -> str:
        """Return the name."""
        return self._name

    def set_name(self, name: str) -> "Subgraph":
        """Change the name."""
        self._name = expect_name(name, "name of a subgraph")
        return self

    def get_graph(self) -> GraphBase:
        """Return the graph."""
        return self._graph

    @property
    def is_root(self) -> bool:
        """Whether this is the root of its graph."""
        return self._parent is None

    @property
    def is_leaf(self) -> bool:
        """Whether this has no children."""
        return not self._children

    @property
    def root(self) -> "Subgraph":
        """The root of the tree."""
        return self if self._parent is None else self._parent.root

    @property
    def depth(self) -> int:
        """Distance from the root."""
        return 0 if self._parent is None else self._parent.depth + 1

    def get_parent(self) -> Optional["Subgraph"]:
        """Return the parent; the root has none."""
        return self._parent

    # Ops.

    def get_ops(self) -> Members[Op]:
        """Return the ops below this node."""
        if self.is_leaf:
            return Members(self._ops)
        return Members(op for child in self._children for op in child.get_ops())

    def get_op_num(self) -> int:
        """Return the number of ops."""
        return len(self.get_ops())

    @overload
    def has_op(self, name: Op | str) -> bool: ...

    @overload
    def has_op(self, *, op: Op) -> bool: ...

    def has_op(self, name: Op | str | None = None, op: Op | None = None) -> bool:
        """Return whether an op, or one called ``name``, is below this node."""
        wanted = name if op is None else op
        if isinstance(wanted, str):
            return any(own.get_name() == wanted for own in self.get_ops())
        if self.is_leaf:
            return wanted in self._ops
        return wanted is not None and any(child.has_op(wanted) for child in self._children)

    def toposort(self) -> list[Op]:
        """Return the ops, every op after its inputs."""
        return toposort(self.get_ops(), Op.get_fanout_ops)

    def get_tensor_producer(self, tensor: Tensor | str) -> Op | None:
        """Return the op of this subgraph that produces a tensor, or nothing."""
        name = tensor if isinstance(tensor, str) else expect(tensor, Tensor, "tensor").name
        return next((o for o in self.get_ops() if o.get_output_tensor().name == name), None)

    def get_input_tensors(self) -> Members[Tensor]:
        """Return the tensors that come from outside, in the order they are first used."""
        inside = set(self.get_ops())
        used = (op for own in self.toposort() for op in own.get_input_ops_list())
        outside = dict.fromkeys(op for op in used if op not in inside)
        return Members(op.get_output_tensor() for op in outside)

    def get_output_tensors(self) -> Members[Tensor]:
        """Return the tensors that are used outside, or by nobody."""
        inside = set(self.get_ops())
        return Members(
            op.get_output_tensor()
            for op in self.toposort()
            if not op.get_fanout_num() or any(user not in inside for user in op.get_fanout_ops())
        )

    def get_sorted_input_tensors(self) -> list[Tensor]:
        """Return the input tensors by name."""
        return sorted(self.get_input_tensors(), key=lambda tensor: tensor.name)

    def get_sorted_output_tensors(self) -> list[Tensor]:
        """Return the output tensors by name."""
        return sorted(self.get_output_tensors(), key=lambda tensor: tensor.name)

    # Children.

    def get_children_num(self) -> int:
        """Return the number of children."""
        return len(self._children)

    def get_children(self) -> Members["Subgraph"]:
        """Return the children."""
        return Members(self._children)

    @property
    def children(self) -> Members["Subgraph"]:
        """The children, as Vitis AI 1.2 named them."""
        return self.get_children()

    @property
    def metadata(self) -> "Subgraph":
        """What has the attributes in Vitis AI 1.2: the subgraph itself."""
        return self

    def get_attr_str(self, key: str) -> str:
        """Return an attribute of kind ``string``, as Vitis AI 1.2 did."""
        return str(self.get_attr(key))

    def is_child(self, op: "Subgraph") -> bool:
        """Return whether a subgraph is a direct child; its name here is PyXIR's."""
        return op in self._children

    def toposort_child_subgraph(self) -> list["Subgraph"]:
        """Return the children, every child after those it takes tensors from."""
        owner = {op: child for child in self._children for op in child.get_ops()}

        def successors(child: Subgraph) -> list[Subgraph]:
            users = (user for op in child.get_ops() for user in op.get_fanout_ops())
            found = dict.fromkeys(owner[user] for user in users if user in owner)
            return [other for other in found if other is not child]

        return toposort(self._children, successors)

    def find_child_subgraph_by_op(self, op: Op) -> Optional["Subgraph"]:
        """Return the child that holds ``op``, or nothing."""
        expect(op, Op, "op")
        return next((child for child in self._children if child.has_op(op)), None)

    def find_child_subgraph_by_op_name(self, name: str) -> Optional["Subgraph"]:
        """Return the child that holds the op called ``name``, or nothing."""
        expect(name, str, "name")
        return next((child for child in self._children if child.has_op(name)), None)

    def create_child_subgraph(self) -> list["Subgraph"]:
        """Split a leaf into one child an op, called ``subgraph_<op>``."""
        if not self.is_leaf:
            raise GraphError(
                f"{self._owner()} already has children",
                code="XIR_SUBGRAPH_CREATE_CHILDREN_FOR_NONLEAF",
            )
        ops, self._ops = list(self._ops), {}
        for op in ops:
            self.add_child(f"subgraph_{op.get_name()}")._ops[op] = None
        return self.get_children()

    def add_child(self, name: str) -> "Subgraph":
        """Append an empty child, to be filled with :meth:`move_op`."""
        if self._ops:
            raise GraphError(f"{self._owner()} holds ops, so it cannot have children")
        child = Subgraph(self._graph, expect_name(name, "name of a subgraph"), self)
        self._children.append(child)
        return child

    def split(self, groups: Iterable[tuple[str, Iterable[Op]]]) -> list["Subgraph"]:
        """Split a leaf into named children; every op must be in exactly one group.

        Raises
        ------
        GraphError
            This is not a leaf, or the groups do not cover its ops exactly once.
        """
        if not self.is_leaf:
            raise GraphError(
                f"{self._owner()} already has children",
                code="XIR_SUBGRAPH_CREATE_CHILDREN_FOR_NONLEAF",
            )
        named = [(name, list(ops)) for name, ops in groups]
        listed = collections.Counter(op for _, ops in named for op in ops)
        wrong = listed.keys() ^ self._ops.keys() or {op for op, n in listed.items() if n > 1}
        if wrong:
            names = ", ".join(sorted(op.get_name() for op in wrong))
            raise GraphError(f"{self._owner()}: ops must be in exactly one group: {names}")
        self._ops = {}
        for name, ops in named:
            self.add_child(name)._ops = dict.fromkeys(ops)
        return self.get_children()

    def merge_children(self, child_subgraph_list: Iterable["Subgraph"]) -> "Subgraph":
        """Merge some children into a new one and return it.

        Leaves become one leaf. If one is an inner node, the new child holds the leaves and the
        children of the inner nodes. Its name is ``subgraph_`` and the first op by name.
        """
        chosen = [expect(child, Subgraph, "a child to merge") for child in child_subgraph_list]
        chosen = list(dict.fromkeys(chosen))
        foreign = [child.get_name() for child in chosen if child not in self._children]
        if foreign or not chosen:
            raise GraphError(
                f"{self._owner()}: no children to merge: {', '.join(foreign)}",
                code="XIR_SUBGRAPH_INVALID_MERGE_REQUEST_NONCHILD",
            )
        ops = [op for child in self._children if child in chosen for op in child.get_ops()]
        first = min((op.get_name() for op in ops), default="")
        merged = Subgraph(self._graph, f"subgraph_{first}", self)
        if all(child.is_leaf for child in chosen):
            merged._ops = dict.fromkeys(ops)
        else:
            for child in chosen:
                merged._children += [child] if child.is_leaf else child.get_children()
            for grandchild in merged._children:
                grandchild._parent = merged
        place = min(self._children.index(child) for child in chosen)
        self._children = [child for child in self._children if child not in chosen]
        self._children.insert(place, merged)
        return merged

    def _put(self, op: Op) -> None:
        """Add a new op: to this leaf, or to a child of its own."""
        leaf = self if self.is_leaf else self.add_child(f"subgraph_{op.get_name()}")
        leaf._ops[op] = None

    def _drop(self, op: Op) -> None:
        """Forget an op; children left empty disappear."""
        self._ops.pop(op, None)
        for child in self.get_children():
            if child.has_op(op):
                child._drop(op)
                if not child.get_op_num():
                    self._children.remove(child)

    def isomorphism(self, graph_template: GraphTemplate) -> list[dict[OpTemplate, Op]]:
        """Return the places where a template matches, see :meth:`GraphTemplate.find`."""
        return expect(graph_template, GraphTemplate, "graph_template").find(self.get_ops())

    def save_as_dot(self, fname: str | os.PathLike[str]) -> None:
        """Write the subgraph as a Graphviz file."""
        dot.save(self.picture(), fname)

    def picture(self) -> dot.Cluster:
        """Return what :mod:`xir.dot` draws of the subgraph."""
        device = str(self.get_attr("device")) if self.has_attr("device") else ""
        ops = toposort(list(self._ops), Op.get_fanout_ops)
        return dot.Cluster(self._name, device, ops, [child.picture() for child in self._children])
