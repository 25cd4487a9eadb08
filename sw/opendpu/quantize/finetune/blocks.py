# SPDX-License-Identifier: Apache-2.0
"""What is finetuned at a time: a layer, and what is computed behind it element by element."""

import dataclasses
from collections.abc import Mapping

from opendpu.ir import FloatGraph, Node, QuantizedGraph
from opendpu.ops import operator_of
from opendpu.ops.cut import cut_terms
from opendpu.quantize.layers import is_layer, parameters_of

LAYERS = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
    "inner-product",
)  # fmt: skip
"""Kinds of layers that can be trained."""

GATE = "hard-sigmoid"
"""What a result is multiplied with after it, in a hard-swish."""


@dataclasses.dataclass(frozen=True)
class Block:
    """A layer of a quantized graph, and what is compared with the float network.

    Parameters
    ----------
    layer
        The layer.
    weights, bias
        The ``fix`` ops of its constants, in a float graph these themselves; ``bias`` is none where
        it has none.
    tail
        Ops behind it, in order, ``fix`` ops included: its activation, a hard-swish, a residual sum;
        the last one is a ``fix``. Nothing in a float graph, where the layer is fitted by itself.
    others
        The ``fix`` ops that the tail reads besides, which are computed before the layer.
    """

    layer: Node
    weights: Node
    bias: Node | None
    tail: tuple[Node, ...]
    others: tuple[str, ...]
    cuts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Fix points that the DPU cuts terms of the tail's sums to, by ``fix``."""

    @property
    def compared(self) -> str:
        """The op whose result in the float network is the aim."""
        return self.tail[-1].inputs["input"][0] if self.tail else self.layer.name

    @property
    def is_linear(self) -> bool:
        """Whether the aim is the layer's own result, or its sum with others."""
        return all(node.kind in ("fix", "add") for node in self.tail)

    @property
    def fix(self) -> Node:
        """The ``fix`` of the layer's own result."""
        return next(node for node in self.tail if node.kind == "fix")


def find_blocks(graph: QuantizedGraph, reference: FloatGraph) -> tuple[list[Block], dict[str, str]]:
    """Return the blocks of a quantized graph in order, and why other layers have none, by name."""
    finder = _Finder(graph, reference)
    blocks: list[Block] = []
    left: dict[str, str] = {}
    for node in graph:
        if is_layer(node):
            made = finder.block(node)
            if isinstance(made, Block):
                blocks.append(made)
            else:
                left[node.name] = made
    return blocks, left


class _Finder:
    """Finds what belongs to a layer."""

    def __init__(self, graph: QuantizedGraph, reference: FloatGraph) -> None:
        self.graph = graph
        self.reference = reference
        self.users = graph.consumer_map()
        self.order = {name: number for number, name in enumerate(graph.nodes)}

    def block(self, layer: Node) -> Block | str:
        """Return the block of a layer, or why it has none."""
        graph, users = self.graph, self.users
        if layer.kind not in LAYERS:
            return f"kind {layer.kind} is not trained"
        arguments = parameters_of(layer)
        constants = [graph[name] for argument in (arguments.weights, arguments.bias)
                     for name in layer.inputs.get(argument, ())]  # fmt: skip
        for fix in constants:
            if fix.kind != "fix" or graph[fix.inputs["input"][0]].value is None:
                return f"{fix.name!r} is no quantized constant"
            if len(users[fix.name]) > 1 or len(users[fix.inputs["input"][0]]) > 1:
                return f"{fix.name!r} is shared with another layer"
        if graph[layer.inputs["input"][0]].kind != "fix":
            return "its input is not quantized"
        tail = self._rounded(layer)
        if not tail:
            return "its result is not quantized"
        if not self._is_known(tail[-1]):
            return f"the float network has no {tail[-1].inputs['input'][0]!r}"
        others: list[str] = []
        while found := self._gate(tail[-1]) or self._sum(tail[-1], layer):
            more, read = found
            if not self._is_known(more[-1]):
                break
            tail, others = tail + more, others + read
        weights, *bias = constants
        cuts: dict[str, int] = {}
        for node in tail:
            cuts |= cut_terms(graph, node, lambda: users)
        return Block(layer, weights, bias[0] if bias else None, tuple(tail), tuple(others), cuts)

    def _is_known(self, fix: Node) -> bool:
        """Return whether the float network has what a ``fix`` rounds."""
        name = fix.inputs["input"][0]
        return name in self.reference.nodes and self.reference[name].shape == fix.shape

    def _rounded(self, node: Node) -> list[Node]:
        """Return the activation applied together with an op, and the ``fix``; or nothing."""
        made: list[Node] = []
        read = self.users[node.name]
        if len(read) == 1 and read[0].kind in operator_of(node).fuses:
            made, read = [read[0]], self.users[read[0].name]
        if len(read) != 1 or read[0].kind != "fix":
            return []
        return [*made, read[0]]

    def _gate(self, fix: Node) -> tuple[list[Node], list[str]] | None:
        """Return a hard-swish that alone reads a result."""
        read = sorted(self.users[fix.name], key=lambda node: self.order[node.name])
        if [node.kind for node in read] != [GATE, "mul"] or fix.name in self.graph.outputs:
            return None
        gate, product = read
        rounded = self._rounded(gate)
        if len(rounded) != 1 or self.users[rounded[0].name] != [product]:
            return None
        if sorted(product.inputs["input"]) != sorted([fix.name, rounded[0].name]):
            return None
        end = self._rounded(product)
        return ([gate, *rounded, product, *end], []) if end else None

    def _sum(self, fix: Node, layer: Node) -> tuple[list[Node], list[str]] | None:
        """Return a sum that alone reads a result, with terms that are computed before the layer.

        The layers that these need are tuned by then. Constants are no such terms.
        """
        read = self.users[fix.name]
        if len(read) != 1 or read[0].kind != "add" or fix.name in self.graph.outputs:
            return None
        terms = read[0].inputs["input"]
        others = [name for name in terms if name != fix.name]
        end = self._rounded(read[0])
        usable = all(
            self.graph[name].kind == "fix" and self.graph[name].shape == fix.shape
            and self.graph[self.graph[name].inputs["input"][0]].value is None
            and self.order[name] < self.order[layer.name] for name in others
        )  # fmt: skip
        if not end or not usable or len(others) + 1 != len(terms) or read[0].shape != fix.shape:
            return None
        return [read[0], *end], others
