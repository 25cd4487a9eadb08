# SPDX-License-Identifier: Apache-2.0
"""What a pixel order that runs on over the ends of rows would give: bounds, layer by layer.

An instruction makes PP rows, column by column, so a map of 28 rows on eight leaves an eighth of the
array idle. With an order that puts the first pixels of the next row beside the last ones of a row,
``ceil(rows * columns / PP)`` places of the array were enough. For every network this compiles it as
it is, lets the cycle model count, and takes from each layer the cycles that the array would save:

``ideal``
    every layer, nothing else waits;
``array``
    layers of the CONV engine alone: windows of the misc engine slide along rows;
``stride_1``
    of these, layers that read neighbouring pixels for neighbouring results, whose words are in PP
    different banks; with a stride, two results ask the same bank;
``transfers``
    of these, what remains when each layer takes at least as long as LOAD, SAVE and the misc engine
    work for it, where a LOAD or SAVE of a row becomes one for each bank.

Networks are quantized by assumption: neither weights nor scales change cycles.

    python scripts/bench/bench_pixel_order.py resnet50 mobilenetv2 --target B4096
"""

import argparse
import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import networks

from opendpu.compiler.layers import ArrayLayer, ComputeLayer, Features
from opendpu.compiler.layers.cost import transfer_cycles
from opendpu.compiler.pipeline import compile_with_report
from opendpu.compiler.plan import LayerPlan, Plan
from opendpu.frontend import load_onnx
from opendpu.inspect.assume import with_scales
from opendpu.profile import profile
from opendpu.profile.measure import Run
from opendpu_arch.isa import Engine, Load, Save
from opendpu_arch.target import Target

BOUNDS = ("ideal", "array", "stride_1", "transfers")


@dataclasses.dataclass
class Spent:
    """What a layer of a program takes now, and in the other order."""

    cycles: Fraction = Fraction(0)
    array: int = 0
    """Steps of the array."""
    array_then: int = 0
    strided: bool = False
    misc_saved: int = 0
    misc: int = 0
    """Cycles in which an instruction of an engine runs for the layer."""
    moved_then: int = 0
    """Cycles of LOAD and SAVE in the other order, by the compiler's cost model."""

    def after(self, bound: str) -> Fraction:
        """Return the cycles that are left."""
        saved = max(0, self.array - self.array_then)
        if bound == "ideal":
            return max(Fraction(0), self.cycles - saved - self.misc_saved)
        if bound != "array" and self.strided:
            return self.cycles
        left = max(Fraction(0), self.cycles - saved)
        if bound == "transfers":
            left = max(left, min(self.cycles, Fraction(max(self.misc, self.moved_then))))
        return left


def measure(name: str, target: Target, memory: str) -> dict[str, Any]:
    """Return the cycles of a network, and by bound what would be left of them."""
    plans: list[Plan] = []

    def passed(step: str, made: object) -> None:
        if isinstance(made, Plan):
            plans.append(made)

    graph = load_onnx(networks.NETWORKS[name]())
    quantized = with_scales(graph, activation_substitution="hard", target=target)
    compiled = compile_with_report(quantized, target, passed=passed)
    counted = profile(compiled.graph, device="cycle", memory=memory, target=target)
    total, left = Fraction(0), dict.fromkeys(BOUNDS, Fraction(0))
    work = 0
    for run in counted.runs:
        outside = sum(run.account.outside.values(), Fraction(0))
        total += run.account.cycles
        work += sum(one.macs for one in run.view.work)
        spent = _spent(run, plans, target)
        for bound in BOUNDS:
            left[bound] += outside + sum((one.after(bound) for one in spent.values()), Fraction(0))
    peak = target.macs_per_cycle
    return {
        "network": name,
        "target": target.name,
        "cycles": int(total),
        "utilization": round(work / (int(total) * peak), 4),
        **{
            bound: {
                "cycles": int(left[bound]),
                "saved": round(float(1 - left[bound] / total), 4),
                "utilization": round(work / (float(left[bound]) * peak), 4),
            }
            for bound in BOUNDS
        },
    }


def _spent(run: Run, plans: list[Plan], target: Target) -> dict[str, Spent]:
    """Return what the layers of one program take, by their name there."""
    view = run.view
    found = {name: Spent() for name in view.layers}
    for name, reasons in zip(view.layers, run.account.by_layer, strict=True):
        found[name].cycles = sum(reasons.values(), Fraction(0))
    timeline = run.statistics.timeline
    assert timeline is not None
    for number, instruction in enumerate(view.instructions):
        if view.layer_of[number] < 0:
            continue
        one = found[view.layers[view.layer_of[number]]]
        one.array += view.steps[number]
        if instruction.ENGINE is Engine.MISC:
            one.misc += int(timeline.end[number] - timeline.start[number]) + 1
        if isinstance(instruction, Load | Save):
            one.moved_then += _moved(instruction, view.constant_registers, target)
    wanted = set(found)
    for plan in plans:
        for placed in plan.layers:
            row = _row_of(placed, wanted)
            if row is not None:
                _add_order(found[row], placed, plan.network.features, target)
    lost = [name for name, one in found.items() if one.array and not one.array_then]
    if lost:
        raise SystemExit(f"no plan has the layers {', '.join(lost)}")
    return found


def _row_of(placed: LayerPlan, rows: set[str]) -> str | None:
    """Return the row of the profile that a layer of a plan is in."""
    layer = placed.layer
    return next((n for n in (layer.op, layer.name, f"{layer.op}_fix") if n in rows), None)


def _add_order(spent: Spent, placed: LayerPlan, features: Features, target: Target) -> None:
    """Add what a layer takes where places of the array do not end with a row."""
    layer = placed.layer
    if not isinstance(layer, ComputeLayer):
        return
    out = features[layer.output]
    places = math.ceil(out.height * out.width / layer.row_parallel(target))
    if isinstance(layer, ArrayLayer):
        steps = layer.taps(features, target) * layer.blocks(features, target)
        spent.array_then += places * steps
        spent.strided |= (layer.window.stride_h, layer.window.stride_w) != (1, 1)
        return
    rows = math.ceil(out.height / layer.row_parallel(target))
    cycles = layer.row_cycles(features, target)
    spent.misc_saved += rows * cycles - math.ceil(places / out.width * cycles)


def _moved(instruction: Load | Save, constants: frozenset[int], target: Target) -> int:
    """Return the cycles of a transfer as one for each bank."""
    loads = isinstance(instruction, Load)
    jump = instruction.jump_read if loads else instruction.jump_write
    length, channel, parallel = instruction.length, instruction.channel, target.channel_parallel
    weights = loads and instruction.reg_id in constants
    if weights or length == 1 or jump < channel:
        return transfer_cycles(length, channel, jump, parallel)
    parts = min(length, target.pixel_parallel)
    return parts * transfer_cycles(math.ceil(length / parts), channel, parts * jump, parallel)


def main() -> None:
    """Print the bounds of the networks named, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", choices=tuple(networks.NETWORKS))
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--memory", default="kv260")
    options = parser.parse_args()
    target = Target.from_name(options.target)
    for name in options.networks:
        print(json.dumps(measure(name, target, options.memory)), flush=True)


if __name__ == "__main__":
    main()
