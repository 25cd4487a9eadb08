# SPDX-License-Identifier: Apache-2.0
"""Functions of one value: chains of ops whose elements each depend on one element of one tensor.

``x * sigmoid(x)`` is one, ``(x + 1) / 2`` another. A DPU with the extension ``table`` computes any
of them at once.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.operator import operator_of
from opendpu.ops.session import Session


@dataclasses.dataclass(frozen=True)
class Function:
    """Ops that compute a function of one value.

    Parameters
    ----------
    root
        The op whose result is the argument; it is not part of the chain.
    nodes
        The ops in topological order; the last one makes the value.
    """

    root: str
    nodes: tuple[str, ...]

    @property
    def end(self) -> str:
        """The op that makes the value."""
        return self.nodes[-1]


def function_of(
    graph: Graph, end: str, users: Mapping[str, Sequence[Node]], order: Mapping[str, int]
) -> Function | None:
    """Return the longest chain that ends in an op; none if that is no function of one value.

    No op of the chain but the last has readers outside it, and none but the last is an activation
    that the engine before it applies for nothing. ``order`` is :func:`order_of` the graph.
    """
    if not _is_link(graph, graph[end]):
        return None
    inside, found = {end}, None
    while True:
        roots = {
            source
            for name in inside
            for source in graph[name].sources()
            if source not in inside and graph[source].value is None
        }
        last = max(roots, key=order.__getitem__, default=None)
        if last is None:
            return found
        if len(roots) == 1 and graph[last].shape == graph[end].shape:
            found = Function(last, tuple(sorted(inside, key=order.__getitem__)))
        only_read_inside = all(user.name in inside for user in users[last])
        if last in graph.outputs or not only_read_inside or not _is_link(graph, graph[last]):
            return found
        if _is_fused(graph, graph[last], users):
            return found
        inside.add(last)


def order_of(graph: Graph) -> dict[str, int]:
    """Return the place of every op in the order of computation."""
    return {name: number for number, name in enumerate(graph.nodes)}


def functions(graph: Graph) -> list[Function]:
    """Return chains of a graph that share no op, the longest ones from the outputs on."""
    users, order = graph.consumer_map(), order_of(graph)
    taken, found = set[str](), []
    for node in reversed(list(graph)):
        if node.name in taken:
            continue
        function = function_of(graph, node.name, users, order)
        if function is not None:
            found.append(function)
            taken.update(function.nodes)
    return found[::-1]


def evaluate(graph: Graph, function: Function, values: Array) -> Array:
    """Return what a function makes of some numbers, in float32, as onnxruntime computes it."""
    part = Graph(graph.name)
    shape = (1, 1, values.size, 1)
    for name in (function.root, *function.nodes):
        node = graph[name]
        for source in node.sources() if name != function.root else ():
            if graph[source].value is not None and source not in part.nodes:
                constant = graph[source]
                one = _single(constant)
                part.add(source, constant.kind, constant.type.with_shape(one.shape), value=one)
        made = dataclasses.replace(node.type.with_shape(shape), quantization=None)
        if name == function.root:
            part.add(name, "data", made)
        else:
            part.add(name, node.kind, made, node.inputs, node.attrs)
    part.outputs = [function.end]
    session = Session(part, threads=1)
    given = values.astype(np.float32).reshape(shape)
    return session.run({function.root: given})[function.end].reshape(-1)


def _is_fused(graph: Graph, node: Node, users: Mapping[str, Sequence[Node]]) -> bool:
    """Return whether the engine before an activation applies it, before it rounds."""
    operands = [graph[name] for name in node.sources() if graph[name].value is None]
    return len(operands) == 1 and (
        node.kind in operator_of(operands[0]).fuses and len(users[operands[0].name]) == 1
    )


def _is_link(graph: Graph, node: Node) -> bool:
    """Return whether an op can be part of a chain: its operands have its shape, or one value."""
    if not operator_of(node).is_elementwise(node):
        return False
    operands = [graph[name] for name in node.sources()]
    return all(
        operand.shape == node.shape if operand.value is None else _is_uniform(operand)
        for operand in operands
    ) and any(operand.value is None for operand in operands)


def _is_uniform(constant: Node) -> bool:
    """Return whether all elements of a constant are equal, as a divisor spread over channels is."""
    assert constant.value is not None
    return constant.value.size > 0 and bool((constant.value == constant.value.flat[0]).all())


def _single(constant: Node) -> Array:
    """Return the value of a uniform constant as one element, of one axis where it had some."""
    assert constant.value is not None
    return constant.value if constant.value.size == 1 else constant.value.ravel()[:1]
