# SPDX-License-Identifier: Apache-2.0
"""A compiled DPU subgraph as instructions that belong to layers.

Our compiler says which instruction is for which layer; of a file without that attribute, the whole
subgraph is one layer.
"""

import dataclasses
from collections.abc import Sequence

from opendpu.compiler.provenance import LAYER_OF, LAYERS
from opendpu_arch import isa
from opendpu_arch.errors import ModelFormatError
from opendpu_arch.isa import LOAD_CONSTANT, Conv, ConvInit, Instruction, Load, Save
from xir import Op, Subgraph

ARRAY_KINDS = ("conv2d-fix", "transposed-conv2d-fix", "matmul-fix")
"""Ops that the multiplier array of the CONV engine computes."""
MAC_KINDS = (*ARRAY_KINDS, "depthwise-conv2d-fix", "transposed-depthwise-conv2d-fix")
"""Ops that multiply and accumulate."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What a layer has to do."""

    operations: int = 0
    """As the guide counts them: two a multiply-accumulate, one a bias."""
    macs: int = 0
    array_macs: int = 0
    """Those of the CONV engine."""

    def __add__(self, other: "Work") -> "Work":
        """Return both together."""
        return Work(
            operations=self.operations + other.operations, macs=self.macs + other.macs,
            array_macs=self.array_macs + other.array_macs,
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramView:
    """Instructions in the order of the program, and what belongs to each."""

    name: str
    instructions: tuple[Instruction, ...]
    layers: tuple[str, ...]
    layer_of: tuple[int, ...]
    """Number of the layer of every instruction, -1 for none."""
    work: tuple[Work, ...]
    """By layer."""
    constant_registers: frozenset[int]
    steps: tuple[int, ...]
    """Cycles in which the array works for an instruction: zero for all but CONV."""

    @classmethod
    def from_subgraph(cls, subgraph: Subgraph) -> "ProgramView":
        """Read a compiled DPU subgraph.

        Raises
        ------
        ModelFormatError
            It has no machine code, or its attributes contradict each other.
        """
        label = f"subgraph {subgraph.get_name()!r}"
        if not subgraph.has_attr("mc_code"):
            raise ModelFormatError(f"{label} has no attribute 'mc_code'; is the model compiled?")
        instructions = tuple(isa.decode(subgraph.get_attr("mc_code")))
        layers, layer_of = _layers(subgraph, len(instructions))
        registers = subgraph.get_attr("reg_id_to_context_type")
        constant = {int(r.removeprefix("REG_")) for r, kind in registers.items() if kind == "CONST"}
        return cls(
            name=subgraph.get_name(), instructions=instructions, layers=layers, layer_of=layer_of,
            work=_work(subgraph, layers, set(layer_of)), constant_registers=frozenset(constant),
            steps=array_steps(instructions),
        )  # fmt: skip

    def bytes_moved(self, number: int) -> tuple[int, int, int]:
        """Return bytes of constants loaded, of feature maps loaded, and of feature maps saved."""
        instruction = self.instructions[number]
        if isinstance(instruction, Save):
            return 0, 0, instruction.length * instruction.channel
        if not isinstance(instruction, Load) or instruction.broadcast == LOAD_CONSTANT:
            return 0, 0, 0
        size = instruction.length * instruction.channel
        return (size, 0, 0) if instruction.reg_id in self.constant_registers else (0, size, 0)


def array_steps(instructions: Sequence[Instruction]) -> tuple[int, ...]:
    """Return the steps of the array for every instruction: a tap of a channel group each."""
    found = []
    taps = 1
    for instruction in instructions:
        steps = 0
        if isinstance(instruction, ConvInit):
            taps = instruction.kernel_h * instruction.kernel_w
        elif isinstance(instruction, Conv):
            steps = instruction.length * instruction.channel_group * taps
        found.append(steps)
    return tuple(found)


def _layers(subgraph: Subgraph, count: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
    if not (subgraph.has_attr(LAYERS) and subgraph.has_attr(LAYER_OF)):
        return (subgraph.get_name(),), (0,) * count
    layers = tuple(subgraph.get_attr(LAYERS))
    layer_of = tuple(subgraph.get_attr(LAYER_OF))
    if len(layer_of) != count or not all(-1 <= n < len(layers) for n in layer_of):
        raise ModelFormatError(
            f"subgraph {subgraph.get_name()!r}: {LAYER_OF} has {len(layer_of)} numbers of "
            f"{len(layers)} layers, but there are {count} instructions"
        )
    return layers, layer_of


def _work(subgraph: Subgraph, layers: tuple[str, ...], used: set[int]) -> tuple[Work, ...]:
    """Return the work of every layer; an op without instructions works for the op before it."""
    place = {name: number for number, name in enumerate(layers) if number in used}
    found = [Work() for _ in layers]
    owner: dict[Op, int] = {}
    for op in subgraph.toposort():
        before = [owner[o] for o in op.get_input_ops_list() if o in owner]
        own = place.get(op.get_name(), max(before, default=0))
        owner[op] = own
        if found:
            found[own] = found[own] + work_of(op)
    return tuple(found)


def work_of(op: Op) -> Work:
    """Return the work of an op, from its attribute ``workload``."""
    if not op.has_attr("workload"):
        return Work()
    operations = int(op.get_attr("workload"))
    kind = op.get_type()
    results = op.get_output_tensor().get_element_num()
    macs = (operations - results) // 2 if kind in MAC_KINDS else 0
    return Work(operations=operations, macs=macs, array_macs=macs if kind in ARRAY_KINDS else 0)
