# SPDX-License-Identifier: Apache-2.0
"""``opendpu info``."""

import json
from typing import Any

import typer

from opendpu import api
from opendpu.cli.app import File, JsonFlag, app, errors_in_one_line
from opendpu.runtime.description import describe

_SHOWN_KINDS = 8


@app.command("info")
@errors_in_one_line
def info(context: typer.Context, file: File, as_json: JsonFlag = False) -> None:
    """Say what is in a model: inputs, outputs, scales, and of a compiled one what runs where."""
    found = describe(api.load_any(file))
    typer.echo(json.dumps(found) if as_json else _text(found))


def _text(found: dict[str, Any]) -> str:
    counts = found["ops"]
    kinds = [f"{count} {kind}" for kind, count in list(counts.items())[:_SHOWN_KINDS]]
    if len(counts) > _SHOWN_KINDS:
        kinds.append(f"{sum(list(counts.values())[_SHOWN_KINDS:])} others")
    lines = [f"{found['name']}: {found['stage']}, {sum(counts.values())} ops ({', '.join(kinds)})"]
    for role in ("inputs", "outputs"):
        lines += [f"{role[:-1]} {_tensor(tensor)}" for tensor in found[role]]
    for part in found["subgraphs"]:
        head = f"subgraph {part['index']} {part['name']}: {part['device'] or 'no device'}"
        if part["device"] == "DPU":
            head += f", {part['DPU Arch'] or part['fingerprint']}, {part['workload'] / 1e9:g} GOP"
        lines.append(head)
        for role in ("input_tensor", "output_tensor"):
            lines += [f"  {role.split('_')[0]} {_tensor(t)}" for t in part.get(role, ())]
    return "\n".join(lines)


def _tensor(tensor: dict[str, Any]) -> str:
    scale = "" if tensor["fixpos"] is None else f", fix_point {tensor['fixpos']}"
    if "quantized" in tensor:
        found = tensor["quantized"]
        scale += (
            f", quantized to {'' if found['if_signed'] else 'u'}int{found['bit_width']}: "
            f"scale {found['scale']:g}, zero point {found['zero_point']}"
        )
    return f"{tensor['name']} {tensor['shape']} {tensor['type']}{scale}"
