# SPDX-License-Identifier: Apache-2.0
"""Measure device ``ref`` and integer networks, and compare with the functional simulator; JSON.

    python scripts/bench/bench_ref.py resnet50 mobilenetv2 some.xmodel --threads 2 --batch 8

A network is one of :mod:`networks`, or a file: quantized, which is compiled first, or compiled.
``frame_seconds`` is one job at a time, ``batch_frame_seconds`` the quantized graph with several
samples a run, ``cpu_seconds`` the processor time of a frame on one thread, which other programs on
the machine change less.
"""

import argparse
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from quantized import NAMES, quantized

import xir
from opendpu.compiler.pipeline import compile
from opendpu.integer import IntegerNetwork
from opendpu.ir import QuantizedGraph, from_xir
from opendpu.runtime import Device, GraphRunner
from opendpu.runtime.program import dpu_subgraphs
from opendpu.runtime.reference import ReferenceDevice
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice


def timed(run: Callable[[], object], repeat: int, clock: Callable[[], float]) -> float:
    """Return the median seconds of some runs after a first one."""
    run()
    seconds = []
    for _ in range(repeat):
        start = clock()
        run()
        seconds.append(clock() - start)
    return round(statistics.median(seconds), 5)


def inputs(runner: GraphRunner) -> dict[str, Any]:
    """Return seeded bytes for every input, noise for real numbers."""
    noise = np.random.default_rng(2)
    return {
        t.name: noise.integers(-128, 128, t.dims).astype(t.data_type.numpy())
        if t.data_type.numpy().kind in "iu"
        else noise.normal(size=t.dims).astype(t.data_type.numpy())
        for t in runner.get_input_tensors()
    }


def compared(compiled: xir.Graph, target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a compiled graph on both devices, and whether they agree."""
    found: dict[str, dict[str, Any]] = {}
    figures: dict[str, Any] = {}
    devices: dict[str, Device] = {
        "ref": ReferenceDevice(target, threads=options.threads),
        "one": ReferenceDevice(target, threads=1),
        "iss": IssDevice(target),
    }
    for name, device in devices.items():
        start = time.perf_counter()
        with GraphRunner(compiled, device=device, target=target, workers=1) as runner:
            given = inputs(runner)
            found[name] = runner.run(given)
            figures[f"{name}_first_seconds"] = round(time.perf_counter() - start, 5)
            run = lambda: runner.run(given)  # noqa: B023, E731
            repeat = options.repeat if name != "iss" else 1
            figures[f"{name}_frame_seconds"] = timed(run, repeat, time.perf_counter)
            if name == "one":
                figures["cpu_seconds"] = timed(run, options.repeat, time.process_time)
    figures["equal"] = all(
        np.array_equal(array, found["iss"][key]) for key, array in found["ref"].items()
    )
    return figures


def batched(graph: xir.Graph, options: argparse.Namespace) -> float:
    """Return the seconds a sample of a quantized graph, several a run."""
    network = IntegerNetwork(from_xir(graph).moved(QuantizedGraph), threads=options.threads)
    noise = np.random.default_rng(2)
    shapes = {op.get_name(): op.get_output_tensor().dims for op in graph.get_ops()
              if op.get_type() == "data"}  # fmt: skip
    samples = {
        name: noise.integers(-128, 128, (options.batch * dims[0], *dims[1:]), np.int8)
        for name, dims in shapes.items()
    }
    seconds = timed(lambda: network.run(samples), options.repeat, time.perf_counter)
    return round(seconds / int(options.batch), 5)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of a network."""
    figures: dict[str, Any] = {"network": name, "threads": options.threads}
    known = name in NAMES
    graph = quantized(name, options.models).graph if known else xir.Graph.deserialize(name)
    parts, target = dpu_subgraphs(graph), Target.from_name(options.target)
    if parts:
        target = Target.from_fingerprint(parts[0].get_attr("dpu_fingerprint"))
        return {**figures, "target": target.name, **compared(graph, target, options)}
    compiled = xir.Graph.from_bytes(compile(graph, target).to_bytes())
    figures |= {"target": target.name, **compared(compiled, target, options)}
    if options.batch:
        figures |= {"batch": options.batch, "batch_frame_seconds": batched(graph, options)}
    return figures


def main() -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="NAME|FILE")
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--models", type=pathlib.Path,
        default=pathlib.Path(__file__).resolve().parents[3] / "shared" / "models",
    )  # fmt: skip
    options = parser.parse_args()
    for name in options.networks:
        print(json.dumps(measure(name, options)), flush=True)


if __name__ == "__main__":
    main()
