# SPDX-License-Identifier: Apache-2.0
"""Values between passes as text: one line an op, layer or instruction."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

import xir
from opendpu.compiler.accesses import MemoryAccess
from opendpu.compiler.banks import BankAccess, Region
from opendpu.compiler.fixed import CONSTANT
from opendpu.compiler.layers import Layer
from opendpu.compiler.network import Network
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.plan import Plan
from opendpu.compiler.planner.proposal import Proposal, Residency, Tiled
from opendpu.compiler.program import CommandStream, Program
from opendpu.ir import Graph, Node
from opendpu_arch import asm


def text(value: object) -> str:
    """Return a value as text that ends with a line break."""
    match value:
        case Graph():
            lines = _graph(value)
        case Partitioned():
            lines = _partition(value)
        case Network():
            lines = _network(value)
        case Proposal():
            lines = _proposal(value)
        case Residency():
            lines = _residency(value)
        case Tiled():
            lines = _tiled(value)
        case Plan():
            lines = _plan(value)
        case Program():
            lines = _program(value)
        case CommandStream():
            lines = _commands(value)
        case xir.Graph():
            lines = _compiled(value)
        case _:
            raise TypeError(f"a {type(value).__name__} has no text")
    return "\n".join([*lines, ""])


def _graph(graph: Graph) -> Iterator[str]:
    yield f"graph {graph.name}"
    for node in graph:
        yield _node(node)
    yield f"outputs {', '.join(graph.outputs)}"


def _node(node: Node) -> str:
    given = ", ".join(f"{arg}=[{', '.join(names)}]" for arg, names in node.inputs.items() if names)
    attrs = "".join(f" {key}={_short(value)}" for key, value in node.attrs.items())
    if node.type.quantization is not None and node.type.quantization.is_power_of_two:
        attrs += f" fix_point={node.fix_point}"
    if node.tensor:
        attrs += f" tensor={node.tensor}"
    return f"  {node.name} = {node.kind}({given}) {list(node.shape)}{attrs}"


def _partition(value: Partitioned) -> Iterator[str]:
    for number, part in enumerate(value.partition.parts):
        yield f"part {number} {part.device}"
        for name in part.nodes:
            yield f"  {_node(value.graph[name]).lstrip()}"
            if name in value.partition.reasons:
                yield f"    on the CPU: {value.partition.reasons[name]}"
    for node in value.graph:
        if node.kind in CONSTANT:
            yield f"constant {node.name} {list(node.shape)}"


def _network(network: Network) -> Iterator[str]:
    for feature in network.features.values():
        alias = network.aliases.get(feature.name)
        place = f" is bytes of {alias.holder}: {_fields(alias)}" if alias else ""
        port = " input" * (feature.name in network.inputs)
        port += " output" * (feature.name in network.outputs)
        size = f"{feature.height}x{feature.width}x{feature.channels}"
        yield f"feature {feature.name} {size}{port}{place}"
    for layer in network.layers:
        yield f"layer {layer.name}: {_layer(layer)}"


def _layer(layer: Layer) -> str:
    return f"{type(layer).__name__} {_fields(layer, skip=('name',))}"


def _proposal(proposal: Proposal) -> Iterator[str]:
    restrictions = proposal.revision.restrictions
    yield f"cascades: {len(proposal.cascades)}"
    for name in sorted(restrictions.spilled):
        yield f"feature {name} goes through DDR: it was in the way"
    for layers in sorted(restrictions.apart, key=lambda r: (r.first, r.last)):
        yield f"layers {layers.first}..{layers.last} are no cascade: they did not fit"
    for cascade in proposal.cascades:
        names = ", ".join(proposal.network.layers[n].name for n in cascade.layers.numbers)
        yield f"cascade of {names}: {cascade.tiles} tiles of columns"


def _residency(residency: Residency) -> Iterator[str]:
    yield f"feature maps on chip whole: {len(residency.regions)}"
    for name, region in residency.regions.items():
        alive = residency.live_ranges[name]
        yield f"feature {name} layers {alive.first}..{alive.last}: bank {_fields(region)}"
    for number, name in sorted(residency.streamed):
        yield f"layer {residency.network.layers[number].name} loads {name} from DDR"


def _tiled(tiled: Tiled) -> Iterator[str]:
    for placed in tiled.layers:
        layer = placed.layer
        yield f"layer {layer.name}: {', '.join(layer.operands)} -> {layer.output}"
        for field in dataclasses.fields(placed):
            value = getattr(placed, field.name)
            if field.name == "layer" or value is None:
                continue
            several = value if isinstance(value, tuple) else (value,)
            for one in several:
                kind = "bank" if isinstance(one, Region) else "loops"
                yield f"  {field.name}: {kind} {_fields(one)}"
    for cascade in tiled.cascades:
        names = ", ".join(tiled.layers[n].layer.name for n in cascade.layers.numbers)
        yield f"cascade of {names}: {len(cascade.tiles)} tiles of columns"
        for number, first, rows in cascade.issue_order:
            yield f"  {tiled.layers[number].layer.name} rows {first}..{first + rows - 1}"


def _plan(plan: Plan) -> Iterator[str]:
    for name, memory in plan.memory.items():
        yield f"memory {name}: {_fields(memory)}"
    for name, address in plan.constants.items():
        yield f"constant {name}: byte {address}"
    for register, size in sorted(plan.segment_bytes.items()):
        yield f"segment REG_{register}: {size} bytes"


def _commands(stream: CommandStream) -> Iterator[str]:
    for number, command in enumerate(stream.commands):
        touched = " ".join(_access(access) for access in command.accesses)
        code = asm.format_instruction(command.instruction)
        yield f"{number:>6} {command.layer} {command.cycles} cycles [{touched}] {code}"


def _access(access: BankAccess | MemoryAccess) -> str:
    way = "w" if access.write else "r"
    if isinstance(access, MemoryAccess):
        return f"{way} REG_{access.reg_id}+{access.low}..{access.high}"
    banks = f"{access.bank}..{access.bank + access.banks - 1}"
    step = f" every {access.step}" if access.step > 1 else ""
    return f"{way} banks {banks} words {access.low}+{access.words}{step}"


def _program(program: Program) -> Iterator[str]:
    made = program.schedule
    yield f"# about {made.cycles} cycles; busy: {made.busy_cycles}"
    rows = zip(made.start, made.end, made.layers, made.instructions, strict=True)
    for number, (start, end, layer, instruction) in enumerate(rows):
        code = asm.format_instruction(instruction)
        yield f"{number:>6} {start:>9}..{end:<9} {layer or '-'} {code}"


def _compiled(graph: xir.Graph) -> Iterator[str]:
    yield f"graph {graph.get_name()} {_attrs(graph.get_attrs())}"
    for subgraph in graph.get_root_subgraph().get_children():
        yield f"subgraph {subgraph.get_name()}{_attrs(subgraph.get_attrs())}"
        for op in subgraph.toposort():
            tensor = op.get_output_tensor()
            given = ", ".join(
                f"{arg}=[{', '.join(o.get_name() for o in ops)}]"
                for arg, ops in op.get_input_ops().items() if ops
            )  # fmt: skip
            call = f"{op.get_type()}({given}) {tensor.dims}"
            yield f"  {op.get_name()} = {call}{_attrs(op.get_attrs())}"
            yield f"    {tensor.name} {tensor.dtype}{_attrs(tensor.get_attrs())}"


def _attrs(attrs: dict[str, Any]) -> str:
    return "".join(f" {key}={_short(value)}" for key, value in attrs.items())


def _fields(value: Any, skip: tuple[str, ...] = ()) -> str:
    return " ".join(
        f"{field.name}={_short(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if field.name not in skip
    )


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, dict) and any(isinstance(v, bytes) for v in value.values()):
        return "{" + ", ".join(f"{k}: {_short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list) and len(value) > 64:
        return f"[{', '.join(map(str, value[:4]))}, … {len(value)} in all]"
    if dataclasses.is_dataclass(value):
        return f"({_fields(value)})"
    return str(value)
