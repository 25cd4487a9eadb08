# SPDX-License-Identifier: Apache-2.0
"""An inspection as text, in the sections of AMD's inspector: target, summary, every operator."""

from collections.abc import Iterable, Sequence

from opendpu.inspect.result import CPU, DPU, USER, InspectedNode, Inspection
from opendpu_arch.target import ISA_VERSION, TYPE, Target

RULE = "=" * 160
WIDE = 72
"""Characters of a name in the table; longer ones lose their middle."""
NONE = "-"
ASSUMED = (
    "Scales are assumed: no data was given. Operators marked with * may be on the other device "
    "with calibrated ones."
)
REQUANTIZED = (
    "The model is quantized with scales that the target does not compute with: so it goes if they "
    "are changed (compile --requantize). A target with the extension scaled takes them as they are."
)


def report(inspection: Inspection, *, file: str = "") -> str:
    """Return the whole report; ``file`` is the name of the file that it goes to."""
    return "\n".join(
        [
            *_titled("Target Information"), *target_lines(inspection.target),
            *_titled("Inspection Summary"), *summary_lines(inspection, file=file),
            *_titled("Operators"), *_details(inspection.nodes), "",
        ]
    )  # fmt: skip


def _titled(title: str) -> list[str]:
    return [RULE, title, RULE]


def target_lines(target: Target) -> list[str]:
    """Return what a target is."""
    pixels, channels = target.pixel_parallel, target.channel_parallel
    return _aligned(
        {
            "target": target.name,
            "type": TYPE,
            "ISA version": ISA_VERSION,
            "fingerprint": f"{target.fingerprint:#x}",
            "operations per cycle": target.peak,
            "pixel, input channel, output channel parallel": f"{pixels}, {channels}, {channels}",
            "image bank groups": target.bank_groups,
            "words in a bank": target.bank_depth,
        }
    )


def summary_lines(inspection: Inspection, *, file: str = "", every: bool = False) -> list[str]:
    """Return a sentence and the table of operators on the CPU; with ``every``, of all."""
    on_cpu = inspection.on(CPU)
    more = f"(see more details in {file})" if file else ""
    if not on_cpu:
        lines = [f"All the operators are assigned to the DPU{more}."]
    else:
        count = len(inspection.nodes) - len(inspection.on(USER))
        lines = [
            f"{len(inspection.on(DPU))} of {count} operators are assigned to the DPU, "
            f"{len(on_cpu)} to the CPU{more}:"
        ]
    listed = inspection.nodes if every else on_cpu
    if any(node.of_scales for node in listed):
        lines.append(ASSUMED)
    if inspection.requantized:
        lines.append(REQUANTIZED)
    if listed:
        lines += ["", *_table(listed, every=every)]
    return lines


def _table(nodes: Sequence[InspectedNode], *, every: bool) -> list[str]:
    device = ["device"] if every else []
    rows = [["node name", "op Type", *device, "hardware constraints"]]
    for node in nodes:
        mark = "*" if node.of_scales else ""
        where = [node.device] if every else []
        rows.append([_short(node.name) + mark, node.op_type, *where, said(node) or NONE])
    wide = [max(len(row[n]) for row in rows) for n in range(len(rows[0]) - 1)]
    return [
        "  ".join([*(cell.ljust(size) for cell, size in zip(row, wide, strict=False)), row[-1]])
        for row in rows
    ]


def said(node: InspectedNode) -> str:
    """Return why an operator is on the CPU, what would lift it, and the code."""
    lift = f"; {node.lift} would lift it" if node.lift else ""
    code = f" ({node.code})" if node.code else ""
    return f"{node.message}{lift}{code}" if node.message else ""


def _details(nodes: Iterable[InspectedNode]) -> list[str]:
    lines: list[str] = []
    for node in nodes:
        host = f"part of {node.runs_in}" if node.runs_in else ""
        mark = "with calibrated scales, it may be on the other device" if node.of_scales else ""
        messages = [text for text in (said(node), host, mark) if text]
        lines += _aligned(
            {
                "node name": node.name,
                "input nodes": ", ".join(node.inputs) or NONE,
                "output nodes": ", ".join(node.outputs) or NONE,
                "op type": node.op_type,
                "outputs shape": list(node.shape),
                "op attributes": _attributes(node),
                "assigned device": node.device,
                "hardware constraints": node.constraint or NONE,
                "node messages": "; ".join(messages) or NONE,
                "source range": node.source or NONE,
            }
        )
        lines.append(RULE)
    return lines


def _attributes(node: InspectedNode) -> str:
    return ", ".join(f"{key}: {value}" for key, value in node.attributes.items()) or NONE


def _aligned(entries: dict[str, object]) -> list[str]:
    wide = max(map(len, entries)) + 1
    return [f"{key + ':':<{wide}} {value}" for key, value in entries.items()]


def _short(name: str) -> str:
    if len(name) <= WIDE:
        return name
    half = (WIDE - 3) // 2
    return f"{name[:half]}...{name[-half:]}"
