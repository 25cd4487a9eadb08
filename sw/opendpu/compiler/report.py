# SPDX-License-Identifier: Apache-2.0
"""What a compilation decided, for people and for JSON."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgraphReport:
    """One part of the compiled graph."""

    name: str
    device: str
    ops: tuple[str, ...]
    instructions: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Instructions by mnemonic."""
    cycles: int = 0
    """Cycles that the compiler's cost model expects."""
    macs: int = 0
    code_bytes: int = 0
    weight_bytes: int = 0
    on_chip: tuple[str, ...] = ()
    """Feature maps that never go to DDR."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """What a compilation decided."""

    target: str
    subgraphs: tuple[SubgraphReport, ...]
    on_cpu: Mapping[str, str]
    """Ops assigned to the CPU, with the reason."""

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready values."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [f"target {self.target}"]
        for part in self.subgraphs:
            if part.device == "USER":
                continue
            line = f"{part.device} {part.name}: {len(part.ops)} ops"
            if part.device == "DPU":
                count = sum(part.instructions.values())
                line += (
                    f", {count} instructions ({part.code_bytes} bytes), "
                    f"{part.weight_bytes} bytes of weights, {part.macs} MACs, "
                    f"about {part.cycles} cycles, {len(part.on_chip)} feature maps on chip"
                )
            lines.append(line)
        lines += [
            f"op {name} has been assigned to CPU: [{why}]." for name, why in self.on_cpu.items()
        ]
        return "\n".join(lines)
