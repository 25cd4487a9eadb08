# SPDX-License-Identifier: Apache-2.0
"""The compiler's graphs: ops in topological order, typed tensors, constants as numpy arrays.

The ops are those of XIR (:mod:`opendpu.ops` says what each is); a class for every stage says what
their tensors are. :mod:`opendpu.ir.xir_bridge` reads and writes XIR graphs.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from opendpu.ir.types import UNKNOWN, NumberFormat, Origin, Quantization, TensorType
from opendpu_arch.errors import GraphError

Array = npt.NDArray[Any]


G = TypeVar("G", bound="Graph")


@dataclasses.dataclass
class Node:
    """One op of a graph.

    ``inputs`` holds node names by XIR argument; ``type`` is that of the result; ``value`` is the
    array of a constant and nothing for every other kind.
    """

    name: str
    kind: str
    type: TensorType
    inputs: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    value: Array | None = None
    origin: Origin = UNKNOWN
    tensor: str = ""
    """Name of the result where it is not that of the node."""
    reason: str = ""
    """Why the DPU cannot have this op, where a pass has found out."""
    claim: int | None = None
    """Number of the plug-in's claim that this op belongs to."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result; feature maps are NHWC."""
        return self.type.shape

    @property
    def quantization(self) -> Quantization:
        """Quantization of the result; GraphError if it has none."""
        if self.type.quantization is None:
            raise GraphError(f"the result of op {self.name!r} ({self.kind}) is not quantized")
        return self.type.quantization

    @property
    def fix_point(self) -> int:
        """Fractional bits of the result; GraphError if it has none."""
        return self.quantization.fix_point

    @property
    def fix_points(self) -> tuple[int, ...]:
        """Fractional bits of the result, for each channel if these differ."""
        return self.quantization.fix_points

    @property
    def tensor_name(self) -> str:
        """Name of the result."""
        return self.tensor or self.name

    def sources(self) -> list[str]:
        """Return the names of all inputs, argument by argument."""
        return list(itertools.chain.from_iterable(self.inputs.values()))


INPUTS = ("data", "data-fix")
"""Kinds of inputs of graphs: in float, and in the DPU's integers."""
NOTES = "front_end_notes"
"""Attribute of a graph: what a front end took for something else than the file says, a sentence
each; reports print it."""
SCALARS = "onnx_scalars"
"""Attribute of a graph: inputs and outputs without axes in the user's model, which have shape [1]
here, by name."""


class Graph:
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
        type: TensorType | Iterable[int],
        inputs: Mapping[str, list[str]] | None = None,
        attrs: Mapping[str, Any] | None = None,
        value: Array | None = None,
        *,
        origin: Origin = UNKNOWN,
        tensor: str = "",
    ) -> Node:
        """Append a node; a shape as ``type`` means float32.

        Raises
        ------
        GraphError
            The name is taken, or an input is unknown.
        """
        if name in self.nodes:
            raise GraphError(f"graph {self.name!r} already has a node {name!r}")
        node = Node(
            name,
            kind,
            TensorType.of(type),
            {k: list(v) for k, v in (inputs or {}).items()},
            dict(attrs or {}),
            value,
            origin,
            tensor,
        )
        for source in node.sources():
            self[source]
        self.nodes[name] = node
        return node

    def add_const(self, name: str, value: Array, *, origin: Origin = UNKNOWN) -> Node:
        """Append a float32 constant under ``name`` or the next free name."""
        array = np.ascontiguousarray(value, dtype=np.float32)
        array = array.reshape(np.shape(value) or (1,))
        return self.add(self.unique(name), "const", array.shape, value=array, origin=origin)

    def add_fix(self, name: str, source: str, quantization: Quantization) -> Node:
        """Append a ``fix`` of ``source`` under ``name`` or the next free name."""
        before = self[source]
        made = before.type.with_quantization(quantization)
        return self.add(self.unique(name), "fix", made, {"input": [source]}, origin=before.origin)

    def consumers(self, name: str) -> list[Node]:
        """Return the nodes that use the result of ``name``.

        Looks at every node: who asks for many names takes :meth:`consumer_map`.
        """
        found = []
        for node in self.nodes.values():
            for names in node.inputs.values():
                if name in names:
                    found.append(node)
                    break
        return found

    def is_read_once(self, name: str) -> bool:
        """Return whether one node uses the result of ``name``, and it is no output."""
        return name not in self.outputs and len(self.consumers(name)) == 1

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
        self.nodes = {n.name: n for n in self if n.name in alive or n.kind in INPUTS}

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

    def copy(self) -> Self:
        """Return an independent graph; constants are shared, they are never changed in place."""
        return self.moved(type(self))

    def moved(self, stage: type[G]) -> G:
        """Return an independent graph of another stage with the same ops."""
        twin = stage(self.name)
        twin.outputs, twin.attrs = list(self.outputs), dict(self.attrs)
        twin.nodes = {
            n.name: dataclasses.replace(
                n, inputs={k: list(v) for k, v in n.inputs.items()}, attrs=dict(n.attrs)
            )
            for n in self
        }
        return twin


class FloatGraph(Graph):
    """What a front end makes: real numbers, no ``fix`` but those of a model that has some."""


class QuantizedGraph(Graph):
    """What a quantizer makes: real numbers, and a ``fix`` behind every tensor that is quantized."""


class FixedGraph(Graph):
    """What legalization makes: ``-fix`` ops on integers, float ops between conversions."""


def has_any_scale(graph: Graph) -> bool:
    """Return whether integers in a graph have other scales than powers of two around zero.

    Powers of two for each channel, as the extension ``channel`` has them, are none of these.
    """
    found = [node.type.quantization for node in graph if node.kind in ("fix", "fix2float")]
    return any(
        one is not None and one.number_format == NumberFormat.INT and not one.are_powers_of_two
        for one in found
    )
