# SPDX-License-Identifier: Apache-2.0
"""The cycle model against the RTL: how far off it is, and how much faster; JSON.

For every network, compiled by us, and for ``random`` programs: cycles on both devices, the largest
difference of an instruction's start and end, and cycles a second of processor time, each the best
of ``--runs``. ``--no-rtl`` leaves the RTL out.

    python scripts/bench/bench_cycle.py resnet50 mobilenetv2 random --memory kv260
"""

import argparse
import json
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from quantized import NAMES, quantized

from opendpu.compiler.pipeline import compile_with_report
from opendpu.runtime.device import Device, Job, JobStatistics
from opendpu.runtime.program import Program
from opendpu_arch.target import Target
from opendpu_sim.cycle.device import CycleDevice
from opendpu_sim.progen import ENGINES, random_program
from opendpu_sim.rtl.device import RtlDevice
from xir import Subgraph

PROGRAMS = 5
"""Random programs for each engine."""


def leaves(subgraph: Subgraph) -> Iterator[Subgraph]:
    """Yield the DPU subgraphs of a compiled graph."""
    for child in subgraph.get_children():
        if child.has_attr("device") and child.get_attr("device") == "DPU":
            yield child
        else:
            yield from leaves(child)


def jobs(name: str, target: Target, models: pathlib.Path, seed: int) -> Iterator[Job]:
    """Yield the jobs of a network, or random programs."""
    if name == "random":
        for engine in ENGINES:
            for number in range(PROGRAMS):
                yield Job(*random_program(engine, target, seed + number))
        return
    compiled = compile_with_report(quantized(name, models, extended=target).graph, target)
    for subgraph in leaves(compiled.graph.get_root_subgraph()):
        program = Program.from_subgraph(subgraph)
        segments = {r: np.frombuffer(value, np.uint8) for r, value in program.constants.items()}
        segments |= {r: np.zeros(size, np.uint8) for r, size in program.sizes.items()}
        yield Job(program.code, segments)


def timed(device: Device, job: Job, runs: int) -> tuple[JobStatistics, float]:
    """Run a job; return its statistics and the least processor time."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        statistics = device.run(job)
        seconds.append(time.process_time() - start)
    return statistics, min(seconds)


def error(predicted: JobStatistics, measured: JobStatistics) -> int:
    """Return the largest difference of an instruction's start or end, in cycles."""
    mine, theirs = predicted.timeline, measured.timeline
    assert mine is not None
    assert theirs is not None
    return max(
        int(abs(mine.start - theirs.start).max()),
        int(abs(mine.end - theirs.end).max()),
    )


def measure(name: str, target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Run one network, or the random programs, on both devices."""
    cycle = CycleDevice(target, memory=options.memory, results=False)
    rtl = None if options.no_rtl else RtlDevice(target, memory=options.memory, trace=True)
    figures: dict[str, Any] = {"name": name, "target": target.name, "memory": options.memory}
    instructions = cycles = rtl_cycles = worst = 0
    cycle_seconds = rtl_seconds = 0.0
    for job in jobs(name, target, options.models, options.seed):
        predicted, seconds = timed(cycle, job, options.runs)
        cycle_seconds += seconds
        instructions += predicted.instructions
        cycles += predicted.cycles
        if rtl is not None:
            measured, seconds = timed(rtl, job, 1)
            rtl_seconds += seconds
            rtl_cycles += measured.cycles
            worst = max(worst, error(predicted, measured))
    figures |= {
        "instructions": instructions, "cycles": cycles,
        "cycles_a_second": round(cycles / cycle_seconds),
    }  # fmt: skip
    if rtl is not None:
        figures |= {
            "rtl_cycles": rtl_cycles, "rtl_cycles_a_second": round(rtl_cycles / rtl_seconds),
            "relative_error": abs(cycles / rtl_cycles - 1), "largest_error_cycles": worst,
            "speedup": round(rtl_seconds / cycle_seconds, 1),
        }  # fmt: skip
        rtl.close()
    return figures


def main() -> None:
    """Measure what is named and print the figures."""
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", choices=["random", *NAMES])
    parser.add_argument("--target", default="DPUCZDX8G_ISA1_B4096")
    parser.add_argument("--memory", default="kv260")
    parser.add_argument("--runs", type=int, default=3, help="of the cycle model")
    parser.add_argument("--seed", type=int, default=0, help="of the random programs")
    parser.add_argument("--no-rtl", action="store_true")
    parser.add_argument(
        "--models", type=pathlib.Path, default=repository.parent / "shared" / "models"
    )
    options = parser.parse_args()
    target = Target.from_name(options.target)
    print(json.dumps([measure(name, target, options) for name in options.networks], indent=1))


if __name__ == "__main__":
    main()
