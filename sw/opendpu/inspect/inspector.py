# SPDX-License-Identifier: Apache-2.0
"""Inspects a graph that is not compiled: the compiler's partition, told in the model's terms."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from opendpu.compiler.fixed import is_fixed
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.pipeline import partition_settled
from opendpu.inspect.assume import with_scales
from opendpu.inspect.near import depends_on_scales
from opendpu.inspect.result import CPU, DPU, USER, InspectedNode, Inspection
from opendpu.inspect.trace import CONVERSIONS, Trace, operator_name, operators
from opendpu.inspect.verdict import Verdict, verdict
from opendpu.ir import FloatGraph, Graph, Node, QuantizedGraph
from opendpu.ops import CONSTANTS, SOURCES, operator_of
from opendpu.quantize.transforms.substitute import substitutable
from opendpu_arch.target import Target

SUBSTITUTION = "activation substitution 'hard'"


def inspect_graph(
    graph: FloatGraph | QuantizedGraph, target: Target, *, activation_substitution: str = "none"
) -> Inspection:
    """Return which operator of a network goes where on a target, and why.

    ``graph`` is of a front end, or quantized; ``activation_substitution`` as when quantizing.

    Raises
    ------
    TensorError, GraphError
        A float network gives no finite results for made-up inputs.
    UnsupportedError
        The substitution is unknown, or a quantized graph has scales that nobody can compile.
    """
    assumed = isinstance(graph, FloatGraph) and not any(node.kind == "fix" for node in graph)
    quantized = (
        with_scales(graph, activation_substitution=activation_substitution, target=target)
        if isinstance(graph, FloatGraph)
        else graph
    )
    value = partition_settled(quantized, target)
    devices = {name: part.device for part in value.partition.parts for name in part.nodes}
    swaps = substitutable(graph) if assumed else []
    trace = Trace(graph, quantized, value)
    work = _Inspector(graph, value, trace, devices, target, swaps, assumed=assumed)
    return Inspection(
        model=graph.name, target=target, nodes=work.nodes(), assumed_scales=assumed,
        devices=devices,
    )  # fmt: skip


class _Inspector:
    """One inspection."""

    def __init__(
        self,
        graph: Graph,
        value: Partitioned,
        trace: Trace,
        devices: Mapping[str, str],
        target: Target,
        swaps: Collection[str],
        *,
        assumed: bool,
    ) -> None:
        self.graph, self.value, self.trace = graph, value, trace
        self.devices, self.target, self.swaps = devices, target, swaps
        self.assumed = assumed
        self.users = graph.consumer_map()

    def nodes(self) -> tuple[InspectedNode, ...]:
        """Return the operators in order."""
        return tuple(self._node(name, ops) for name, ops in operators(self.graph).items())

    def _node(self, name: str, ops: Sequence[Node]) -> InspectedNode:
        main = next((op for op in ops if not _only_moves(op)), ops[-1])
        made = [op for node in ops for op in self.trace.own(node)]
        if not made:
            host = self.trace.host(ops[0])
            made = self.trace.own(host) if host is not None else []
        hosts = dict.fromkeys(map(operator_name, made))
        computing = [op for op in made if not _only_moves(op)] or made  # moves around it are extra
        on_cpu = [op for op in computing if op.name in self.value.partition.reasons]
        why = verdict(on_cpu[0], self.value, self.target) if on_cpu else None
        device = self._device(ops, [self.devices[op.name] for op in made], why)
        return InspectedNode(
            name=name, op_type=main.origin.op_type or main.kind,
            inputs=self._around(ops, before=True), outputs=self._around(ops, before=False),
            kinds=tuple(dict.fromkeys(op.kind for op in ops)), shape=ops[-1].shape,
            attributes=shown(main.attrs), device=device, source=main.origin.line,
            runs_in=next(iter(hosts)) if hosts and name not in hosts else "",
            constraint=why.constraint if why else "", message=why.message if why else "",
            lift=self._lift(ops, why) if why else "", code=why.code if why else "",
            of_scales=self.assumed and (why.of_scales if why else self._may_move(ops, made)),
        )  # fmt: skip

    def _may_move(self, ops: Sequence[Node], made: Sequence[Node]) -> bool:
        """Return whether other scales could send ops of the DPU to the CPU."""
        readers = [user for op in ops for user in self.users[op.name]]
        shared = any(operator_of(user).shares_scale(user) for user in readers)
        return any(
            depends_on_scales(op, self.value.graph, self.target, shared=shared)
            for op in made
            if self.devices[op.name] == DPU and is_fixed(op)
        )

    def _lift(self, ops: Sequence[Node], why: Verdict) -> str:
        """Return what would lift a reason: the substitution, where the quantizer proposes it."""
        if any(op.name in self.swaps for op in ops):
            return SUBSTITUTION
        return why.lift

    def _device(self, ops: Sequence[Node], devices: Sequence[str], why: Verdict | None) -> str:
        if all(op.kind in SOURCES for op in ops):
            return USER
        return DPU if why is None and DPU in devices else CPU

    def _around(self, ops: Sequence[Node], *, before: bool) -> tuple[str, ...]:
        """Return the operators before or behind, without conversions and constants."""
        own = {op.name for op in ops}
        found: dict[str, None] = {}
        waiting = list(ops)
        while waiting:
            node = waiting.pop(0)
            near = [self.graph[n] for n in node.sources()] if before else self.users[node.name]
            for other in near:
                if other.kind in CONVERSIONS:
                    waiting.append(other)
                elif other.kind not in CONSTANTS and other.name not in own:
                    found[operator_name(other)] = None
        return tuple(found)


def _only_moves(node: Node) -> bool:
    return node.kind not in SOURCES and operator_of(node).moves(node)


def shown(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that a person can read: no bytes, such as a model inside."""
    return {
        key: value
        for key, value in attrs.items()
        if isinstance(value, bool | int | float | str | list | tuple)
    }
