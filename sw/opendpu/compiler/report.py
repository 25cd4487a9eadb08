# SPDX-License-Identifier: Apache-2.0
"""What a compilation decided, for people and for JSON."""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xir
from opendpu.compiler.partition import Partitioned
from opendpu.compiler.plan import INPUT_REG, OUTPUT_REG, WEIGHTS_REG, WORKSPACE_REG
from opendpu.compiler.program import Program
from opendpu.ops import cost, operator_of
from opendpu_arch.bits import WORD_BITS
from opendpu_arch.columns import Columns
from opendpu_arch.isa import LOAD_CONSTANT, Instruction, Load, Save
from opendpu_arch.target import Target

SEGMENTS = {
    WEIGHTS_REG: "constants", WORKSPACE_REG: "workspace", INPUT_REG: "inputs",
    OUTPUT_REG: "outputs",
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphReport:
    """One part of the compiled graph; figures are those of DPU parts."""

    name: str
    device: str
    ops: tuple[str, ...]
    instructions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Instructions by mnemonic."""
    cycles: int = 0
    """Cycles that the compiler's cost model expects."""
    counted_cycles: int = 0
    """Cycles that the cycle model finds, where it was asked."""
    busy_cycles: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Those in which each engine works."""
    macs: int = 0
    utilization: float = 0.0
    """Multiply-accumulates of those possible in the cycles: counted ones, or else expected."""
    code_bytes: int = 0
    weight_bytes: int = 0
    segment_bytes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Room in DDR: constants, workspace, inputs, outputs."""
    load_bytes: int = 0
    """Bytes that LOADs move, constants and feature maps."""
    save_bytes: int = 0
    on_chip: tuple[str, ...] = ()
    """Feature maps that never go to DDR."""
    cpu_seconds: float = 0.0
    """Time that an embedded CPU is expected to need, of CPU parts; see :mod:`opendpu.ops.cost`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a compilation decided."""

    target: str
    subgraphs: tuple[SubgraphReport, ...]
    on_cpu: Mapping[str, str]
    """Ops assigned to the CPU, with the reason."""
    memory: str = ""
    """Memory model of the counted cycles."""
    origins: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Where ops on the CPU come from in the user's model, where their names do not say it."""
    pass_seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Time that each pass of the compiler took."""
    quantization: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the quantizer did, where it ran: JSON-ready values."""
    remarks: tuple[str, ...] = ()
    """What the user should know of it: lines of text."""

    def with_cycles(self, cycles: Sequence[int], memory: str, peak: int) -> "Report":
        """Return the report with counted cycles of the DPU parts, in order.

        ``peak`` are the multiply-accumulates that the target can do in a cycle.
        """
        counted = iter(cycles)
        parts = []
        for part in self.subgraphs:
            if part.device == "DPU":
                mine = next(counted)
                use = part.macs / (peak * mine) if mine else 0.0
                part = dataclasses.replace(part, counted_cycles=mine, utilization=use)
            parts.append(part)
        return dataclasses.replace(self, subgraphs=tuple(parts), memory=memory)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return the report as text."""
        count = collections.Counter(part.device for part in self.subgraphs)
        count.pop("USER", None)
        parts = ", ".join(f"{number} for {device}" for device, number in count.items())
        lines = [f"target {self.target}; subgraphs: {parts or 'none'}"]
        for part in self.subgraphs:
            if part.device != "USER":
                lines.append(f"{part.device} {part.name}: {len(part.ops)} ops")
                lines += _figures(part, self.memory)
        total = [part for part in self.subgraphs if part.device == "DPU"]
        if len(total) > 1:
            counted = sum(part.counted_cycles for part in total)
            cycles = f"{counted:,}" if counted else f"about {sum(p.cycles for p in total):,}"
            macs = sum(part.macs for part in total)
            lines.append(f"DPU in all: {cycles} cycles for {macs:,} MACs")
        lines += [
            f"op {name} has been assigned to CPU: [{why}].{self._origin(name)}"
            for name, why in self.on_cpu.items()
        ]
        return "\n".join((*lines, *self.remarks))

    def _origin(self, name: str) -> str:
        """Return where an op comes from, as far as its name does not say so."""
        return f" From {self.origins[name]}." if name in self.origins else ""


def _figures(part: SubgraphReport, memory: str) -> Iterable[str]:
    if part.device == "CPU":
        yield f"  about {part.cpu_seconds * 1e3:,.2f} ms on one core of an embedded CPU"
    if part.device != "DPU":
        return
    busy = ", ".join(
        f"{name} {cycles / max(part.cycles, 1):.0%}" for name, cycles in part.busy_cycles.items()
    )
    room = ", ".join(f"{name} {size:,}" for name, size in part.segment_bytes.items())
    cycles = f"about {part.cycles:,} cycles expected"
    if part.counted_cycles:
        cycles = f"{part.counted_cycles:,} cycles with memory {memory}"
    yield (
        f"  {cycles} for {part.macs:,} MACs: utilization {part.utilization:.1%}; "
        f"engines busy: {busy}"
    )
    yield (
        f"  {sum(part.instructions.values()):,} instructions, {part.code_bytes:,} bytes; "
        f"{len(part.on_chip)} feature maps stay on chip"
    )
    yield f"  DDR: {part.load_bytes:,} bytes loaded, {part.save_bytes:,} saved; room: {room}"


def report_of(
    graph: xir.Graph, value: Partitioned, programs: Mapping[int, Program], target: Target
) -> Report:
    """Return the report on a compiled graph; ``programs`` are those of DPU parts, by number."""
    subgraphs = []
    source, parts = value.graph, value.partition
    children = graph.get_root_subgraph().get_children()
    for number, (part, child) in enumerate(zip(parts.parts, children, strict=True)):
        found = SubgraphReport(name=child.get_name(), device=part.device, ops=part.nodes)
        if number in programs:
            found = _with_figures(found, programs[number], child, target)
        elif part.device == "CPU":
            nodes = [source[name] for name in part.nodes]
            seconds = cost.cpu_seconds(
                sum(cost.macs(n, source) for n in nodes), sum(cost.elements(n) for n in nodes)
            )
            found = dataclasses.replace(found, cpu_seconds=seconds)
        subgraphs.append(found)
    origins = {name: source[name].origin for name in parts.reasons if name in source.nodes}
    told = {name: str(o) for name, o in origins.items() if o.line or o.name not in ("", name)}
    return Report(
        target=target.name, subgraphs=tuple(subgraphs), on_cpu=parts.reasons, origins=told
    )


def _with_figures(
    found: SubgraphReport, program: Program, subgraph: xir.Subgraph, target: Target
) -> SubgraphReport:
    plan, made = program.plan, program.schedule
    macs = sum(_macs(op) for op in subgraph.get_ops())
    loaded, saved = _moved(made.fields)
    return dataclasses.replace(
        found,
        instructions=_mnemonics(made.issued),
        cycles=made.cycles,
        busy_cycles=made.busy_cycles,
        macs=macs,
        utilization=macs / (target.macs_per_cycle * made.cycles) if made.cycles else 0.0,
        code_bytes=WORD_BITS // 8 * sum(k.WORDS * n.size for k, n in made.fields.numbers.items()),
        weight_bytes=len(plan.blob),
        segment_bytes={name: plan.segment_bytes.get(r, 0) for r, name in SEGMENTS.items()},
        load_bytes=loaded,
        save_bytes=saved,
        on_chip=tuple(n for n in plan.network.features if n not in plan.memory),
    )


def _macs(op: xir.Op) -> int:
    """Return the multiply-accumulates of an op: its workload counts two each, and one a result."""
    if not operator_of(op.get_type()).multiplies or not op.has_attr("workload"):
        return 0
    return (int(op.get_attr("workload")) - op.get_output_tensor().get_element_num()) // 2


def _mnemonics(instructions: Sequence[Instruction]) -> dict[str, int]:
    """Return how many instructions there are of each kind, in the order of their first ones."""
    kinds = collections.Counter(type(instruction) for instruction in instructions)
    return {kind.mnemonic(): number for kind, number in kinds.items()}


def _moved(fields: Columns) -> tuple[int, int]:
    """Return the bytes that LOADs and SAVEs move."""
    loaded, saved = (
        fields.column(kind, "length") * fields.column(kind, "channel") for kind in (Load, Save)
    )
    real = fields.column(Load, "broadcast") != LOAD_CONSTANT
    return int(loaded[real].sum()), int(saved.sum())
