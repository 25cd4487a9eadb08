# SPDX-License-Identifier: Apache-2.0
"""Batches that a network makes of one sample itself: patches, windows or heads in the first axis.

The first axis of a tensor is its batch, and that of the DPU is 1. Such tensors get one more axis in
front, and the ops that make and read them the attributes for that; what has none for it, a
convolution for instance, stays between two reshapes.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import onnx

from opendpu.ir import Graph, Node
from opendpu.ops import CONSTANTS, SOURCES, operator_of
from opendpu.ops.foreign import is_normalization, parsed

Attributes = Mapping[str, Any]


def lift(graph: Graph) -> None:
    """Put an axis of one element in front of every tensor with another batch, in place.

    A network whose inputs have another batch stays as it is; where layers have a batch of 1 all the
    same, the first axis of the inputs is none.
    """
    wide = [node for node in graph if node.kind not in CONSTANTS and node.shape[:1] != (1,)]
    if not wide or (any(node.kind in SOURCES for node in wide) and not _has_no_batch(graph)):
        return
    made = _Lifted(graph, {node.name for node in wide})
    for node in list(graph):
        if node.kind not in (*CONSTANTS, *SOURCES):
            made.node(node)
    for name in list(graph.outputs):
        made.output(name)
    graph.sort()
    graph.prune()


def _has_no_batch(graph: Graph) -> bool:
    """Return whether inputs have no batch: all that works on feature maps has one of 1."""
    batches = {node.shape[0] for node in graph if "kernel" in node.attrs}
    return batches == {1}


@dataclasses.dataclass
class _Lifted:
    """A graph in which tensors with another batch get an axis."""

    graph: Graph
    wide: set[str]
    """Names of those tensors."""
    now: dict[str, str] = dataclasses.field(default_factory=dict)
    """The node with one more axis, by the name of a tensor."""
    before: dict[str, str] = dataclasses.field(default_factory=dict)
    """The node without, where that is no longer the one of the name."""

    def node(self, node: Node) -> None:
        """Change a node, if it makes or reads such a tensor."""
        sources = [name for name in node.sources() if self.graph[name].value is None]
        made_of_constants = not sources  # weights that are stored in another form, say
        if made_of_constants or (
            node.name not in self.wide and not self.wide.intersection(sources)
        ):
            self._read(node, self.plain)
            return
        if node.kind in ("reshape", "flatten", "squeeze"):
            node.inputs = {"input": [self.now.get(n, n) for n in node.inputs["input"]]}
            if node.name in self.wide:
                node.kind, node.attrs = "reshape", {"shape": [1, *node.shape]}
                self._widen(node)
            return
        if len(sources) > 1 and _broadcasts(node) and self._has_ranks(node, sources):
            self._align(node)
            return
        first = node.sources()[0]
        attrs = _attributes(node, len(self.graph[first].shape) - (self.now.get(first) == first))
        if attrs is None:
            self._read(node, self.plain)
            return
        self._read(node, self.lifted, constants=node.kind == "concat")
        node.attrs = dict(attrs)
        self._widen(node)

    def _has_ranks(self, node: Node, sources: list[str]) -> bool:
        """Return whether operands have fewer axes than the result."""
        return any(len(self.graph[self.plain(name)].shape) < len(node.shape) for name in sources)

    def _align(self, node: Node) -> None:
        """Give all operands of a node the axes of its result, and one more where it has a batch.

        So samples that are stacked along the first axis of all of them stay in line.
        """
        is_wide = node.name in self.wide
        rank = len(node.shape) + is_wide

        def aligned(name: str) -> str:
            shape = self.graph[name].shape
            return name if len(shape) == rank else self._reshaped(
                name, (1,) * (rank - len(shape)) + shape, "aligned"
            )  # fmt: skip

        self._read(node, aligned)
        if is_wide:
            self._widen(node)

    def output(self, name: str) -> None:
        """Let a node be an output in the shape that it had."""
        if self.now.get(name) != name:
            return
        made = self.graph.unique(f"{name}_lifted")
        self.graph.rename(name, made)
        node = self.graph[made]
        shape = node.shape[1:]
        self.graph.add(
            name, "reshape", node.type.with_shape(shape), {"input": [made]},
            {"shape": list(shape)}, origin=node.origin,
        )  # fmt: skip
        self.graph.outputs = [name if n == made else n for n in self.graph.outputs]

    def _widen(self, node: Node) -> None:
        node.type = node.type.with_shape((1, *node.shape))
        self.now[node.name] = node.name

    def _read(self, node: Node, form: Callable[[str], str], *, constants: bool = False) -> None:
        """Let a node read its operands in a form."""
        node.inputs = {
            arg: [form(n) if constants or self.graph[n].value is None else n for n in names]
            for arg, names in node.inputs.items()
        }

    def lifted(self, name: str) -> str:
        """Return a tensor with one more axis."""
        if name not in self.now:
            node = self.graph[name]
            self.now[name] = self._reshaped(name, (1, *node.shape), "lifted")
        return self.now[name]

    def plain(self, name: str) -> str:
        """Return a tensor in the shape that it had."""
        if self.now.get(name) != name:
            return name
        if name not in self.before:
            self.before[name] = self._reshaped(name, self.graph[name].shape[1:], "plain")
        return self.before[name]

    def _reshaped(self, name: str, shape: tuple[int, ...], what: str) -> str:
        node = self.graph[name]
        made = self.graph.unique(f"{name}_{what}")
        if node.value is not None:
            return self.graph.add(
                made, node.kind, node.type.with_shape(shape), value=node.value.reshape(shape)
            ).name
        return self.graph.add(
            made, "reshape", node.type.with_shape(shape), {"input": [name]},
            {"shape": list(shape)}, origin=node.origin,
        ).name  # fmt: skip


def _attributes(node: Node, rank: int) -> Attributes | None:
    """Return the attributes of a node whose operands have one axis more than ``rank``.

    None if there are none with which it computes the same.
    """
    if is_normalization(node, rank):
        return {**node.attrs, "model": _over_last_axis(node.attrs["model"])}
    rule = RULES.get(node.kind)
    if rule is not None:
        return rule(node.attrs, rank)
    return node.attrs if operator_of(node).is_elementwise(node) else None


def _broadcasts(node: Node) -> bool:
    """Return whether operands of a node may repeat along some axes."""
    return node.kind == "matmul" or operator_of(node).is_elementwise(node)


def _over_last_axis(data: bytes) -> bytes:
    """Return the model of a normalization of rows of any rank."""
    model = onnx.ModelProto()
    model.CopyFrom(parsed(data))
    for attribute in model.graph.node[0].attribute:
        if attribute.name == "axis":
            attribute.i = -1
    return model.SerializeToString(deterministic=True)


def _same(attrs: Attributes, rank: int) -> Attributes:
    return attrs


def _axis(attrs: Attributes, rank: int) -> Attributes:
    """Count an axis, or several, from one more on."""
    axis = attrs.get("axis", -1)
    if isinstance(axis, int):
        return {**attrs, "axis": axis % rank + 1}
    return {**attrs, "axis": [int(a) % rank + 1 for a in axis]}


def _order(attrs: Attributes, rank: int) -> Attributes:
    return {**attrs, "order": [0, *(int(axis) + 1 for axis in attrs["order"])]}


def _pad(attrs: Attributes, rank: int) -> Attributes:
    return {
        **attrs, "paddings": [0, 0, *attrs["paddings"]],
        "constant_values": [0.0, 0.0, *attrs["constant_values"]],
    }  # fmt: skip


def _slice(attrs: Attributes, rank: int) -> Attributes:
    return {
        **attrs, "begin": [0, *attrs["begin"]], "end": [1, *attrs["end"]],
        "strides": [1, *attrs["strides"]],
    }  # fmt: skip


RULES: dict[str, Callable[[Attributes, int], Attributes]] = {
    "matmul": _same, "softmax": _axis, "concat": _axis, "scale": _axis, "batchnorm": _axis,
    "reduction_mean": _axis, "reduction_sum": _axis, "reduction_max": _axis, "l2_normalize": _axis,
    "transpose": _order, "strided_slice": _slice, "pad": _pad,
}  # fmt: skip
"""Attributes with one more axis in front, by kind."""
