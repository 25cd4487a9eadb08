# SPDX-License-Identifier: Apache-2.0
"""Whole networks, quantized and compiled by us: cycles, utilization, time and memory of the tools.

ResNet-50, MobileNetV1 and V2, SqueezeNet 1.1, VGG-16, Inception v3 and YOLOv3 are built by
``networks`` with seeded weights; the MLPerf Tiny networks come from the folder of models. The
device's outputs are compared with those of the functional simulator and of the integer reference.

    python scripts/bench/bench_networks.py resnet50 kws --device rtl --memory kv260 --json
"""

import argparse
import json
import pathlib
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from quantized import NAMES, Quantized, quantized

import xir
from opendpu.compiler.pipeline import Compiled, compile_with_report
from opendpu.ir import Graph, from_xir
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from oracle import evaluate_quantized

Arrays = dict[str, npt.NDArray[Any]]
LAYERS = ("conv2d", "depthwise-conv2d", "transposed-conv2d", "inner-product")


def macs_of(graph: Graph) -> int:
    """Return the multiply-accumulates of a float or quantized graph."""
    total = 0
    for node in graph:
        if node.kind not in LAYERS:
            continue
        outputs, *kernel = graph[node.inputs["weights"][0]].shape
        if node.kind == "depthwise-conv2d":
            kernel = kernel[:2]
        if node.kind == "transposed-conv2d":  # every input meets every weight
            kernel = [outputs, *kernel[:2]]
            node = graph[node.inputs["input"][0]]
        total += int(np.prod(node.shape)) * int(np.prod(kernel))
    return total


def random_inputs(runner: GraphRunner) -> Arrays:
    """Return seeded bytes for every input."""
    noise = np.random.default_rng(2)
    tensors = runner.get_input_tensors()
    return {t.name: noise.integers(-128, 128, t.dims, np.int8) for t in tensors}


RELATIVE, ABSOLUTE = 1e-5, 1e-7
"""Differences of float outputs: those of CPU ops behind the DPU, such as softmax, whose sums of
float32 two libraries add up in different orders. Another byte of the DPU changes them by far more.
"""


def check(name: str, found: Mapping[str, Any], wanted: Mapping[str, Any], whose: str) -> None:
    """Leave with a message if two sets of outputs differ: integers at all, floats by a rounding."""
    for key, values in wanted.items():
        same = np.array_equal(values, found[key])
        if not same and np.issubdtype(values.dtype, np.floating):
            same = values.shape == found[key].shape and np.allclose(
                found[key], values, RELATIVE, ABSOLUTE, equal_nan=True
            )
        if not same:
            raise SystemExit(f"{name}: output {key} differs from {whose}'s")


def run(
    name: str, graph: xir.Graph, compiled: Compiled, target: Target, options: argparse.Namespace
) -> dict[str, Any]:
    """Run a compiled network on the device and compare its outputs; return what it took."""
    outputs: dict[str, Arrays] = {}
    figures: dict[str, Any] = {}
    given: Arrays = {}
    for device in dict.fromkeys(("iss", options.device)):
        memory = options.memory
        with GraphRunner(compiled.graph, device=device, target=target, memory=memory) as runner:
            given = random_inputs(runner)
            outputs[device] = runner.run(given)
            last = runner.last_statistics
        assert last is not None
        busy = [dict(part.busy_cycles) for part in last.subgraphs.values()]
        wall = sum(part.wall_seconds for part in last.subgraphs.values())
        figures = {"cycles": last.cycles, "busy_cycles": busy, "wall_seconds": wall}
    check(name, outputs[options.device], outputs["iss"], "the functional simulator")
    if not options.no_reference:
        wanted = evaluate_quantized(graph, given)
        check(name, outputs["iss"], wanted, "the integer reference")
    return figures


def measure(
    name: str, made: Quantized, target: Target, options: argparse.Namespace
) -> dict[str, Any]:
    """Compile a network and run it; return all figures."""
    start = time.perf_counter()
    compiled = compile_with_report(made.graph, target)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    figures = run(name, made.graph, compiled, target, options)
    macs = macs_of(from_xir(made.graph))
    dpu = [s for s in compiled.report.subgraphs if s.device == "DPU"]
    cycles = figures["cycles"]
    return {
        "name": name, "target": target.name, "device": options.device, "memory": options.memory,
        "macs": macs, "dpu_subgraphs": len(dpu), "on_cpu": dict(compiled.report.on_cpu),
        "instructions": sum(sum(s.instructions.values()) for s in dpu),
        "expected_cycles": sum(s.cycles for s in dpu),
        "utilization": macs / (target.macs_per_cycle * cycles) if cycles else None,
        "quantize_seconds": made.seconds, "compile_seconds": seconds, "peak_bytes": peak,
        "equal_to_iss": True, "equal_to_reference": None if options.no_reference else True,
        **figures,
    }  # fmt: skip


def summary(result: Mapping[str, Any]) -> str:
    """Return one line for a person."""
    use = result["utilization"]
    figures = (
        f"about {result['expected_cycles']} cycles expected"
        if use is None
        else f"{result['cycles']} cycles, utilization {use:.1%}"
    )
    return (
        f"{result['name']} on {result['target']}: {result['macs']} MACs, {figures}, quantized in "
        f"{result['quantize_seconds']:.1f} s, compiled in {result['compile_seconds']:.1f} s, "
        f"{result['peak_bytes'] / 2**30:.1f} GiB"
    )


def main() -> None:
    """Measure the networks named and print the figures."""
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", choices=NAMES)
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--device", default="iss")
    parser.add_argument("--memory", default="kv260")
    parser.add_argument(
        "--models", type=pathlib.Path, default=repository.parent / "shared" / "models"
    )
    parser.add_argument("--cache-dir", type=pathlib.Path, help="where quantized graphs are kept")
    parser.add_argument("--no-reference", action="store_true", help="compare with the ISS only")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    target = Target.from_name(options.target)
    results = []
    for name in options.networks:
        made = quantized(name, options.models, options.cache_dir, target)
        results.append(measure(name, made, target, options))
        if not options.json:
            print(summary(results[-1]), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
