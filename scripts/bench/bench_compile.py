# SPDX-License-Identifier: Apache-2.0
"""What it takes to compile quantized networks, each in a process of its own; JSON.

Processor and wall seconds of the compilation alone, without reading the file and without counting
cycles; those of every pass; the peak of memory; the cycles that the cycle model counts; and
hashes of the programs and of the whole compiled graph, by which two versions of the compiler can be
compared. Processor seconds hardly change while other programs use the machine.

    python scripts/bench/bench_compile.py resnet50 some_quantized.xmodel --target B512 B4096+table

A network is one of :mod:`networks` or a quantized ``.xmodel`` file.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import numpy as np
from quantized import NAMES, quantized
from quantizers.worker import peak_megabytes

import xir
from opendpu.compiler.pipeline import compile_with_report
from opendpu.profile import profile
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu_arch.target import Target

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


def peak_bytes() -> int:
    """Return the most memory that this process took."""
    return round(peak_megabytes() * (1 << 20))


def hashed(graph: xir.Graph) -> str:
    """Return a hash of all machine code and constants of a compiled graph."""
    digest = hashlib.sha256()
    for subgraph in dpu_subgraphs(graph):
        program = Program.from_subgraph(subgraph)
        digest.update(np.asarray(program.code).tobytes())
        for register, constants in sorted(program.constants.items()):
            digest.update(bytes([register]) + bytes(constants))
        digest.update(repr(sorted(program.sizes.items())).encode())
    return digest.hexdigest()[:16]


def measure(name: str, target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Compile a network ``--repeat`` times; return the figures of the fastest run."""
    if name in NAMES:
        graph = quantized(name, options.models, options.cache_dir, target).graph
    else:
        graph = xir.Graph.deserialize(name)
    start_bytes = peak_bytes()
    runs = []
    for _ in range(options.repeat):
        wall, processor = time.perf_counter(), time.process_time()
        compiled = compile_with_report(graph, target)
        runs.append((time.process_time() - processor, time.perf_counter() - wall))
    processor, wall = min(runs)
    parts = [part for part in compiled.report.subgraphs if part.device == "DPU"]
    figures = {
        "name": pathlib.Path(name).stem, "target": target.name, "processor_seconds": processor,
        "wall_seconds": wall, "peak_bytes": peak_bytes(), "start_bytes": start_bytes,
        "dpu_subgraphs": len(parts),
        "instructions": sum(sum(part.instructions.values()) for part in parts),
        "expected_cycles": sum(part.cycles for part in parts),
        "programs": hashed(compiled.graph),
        "graph": hashlib.sha256(compiled.graph.to_bytes()).hexdigest()[:16],
        "pass_seconds": dict(compiled.report.pass_seconds),
    }  # fmt: skip
    if parts and not options.no_cycles:
        found = profile(compiled.graph, device="cycle", memory=options.memory, target=target)
        figures["cycles"] = sum(run.statistics.cycles for run in found.runs)
    return figures


def main() -> None:
    """Measure the networks named and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", help=f"{', '.join(NAMES)}, or a file")
    parser.add_argument("--target", nargs="+", default=["B4096", "B512"])
    parser.add_argument("--memory", default="kv260")
    parser.add_argument("--models", type=pathlib.Path, default=REPOSITORY.parent / "shared/models")
    parser.add_argument("--cache-dir", type=pathlib.Path, help="where quantized graphs are kept")
    parser.add_argument("--repeat", type=int, default=1, help="compilations, the fastest counts")
    parser.add_argument("--no-cycles", action="store_true", help="leave the cycle model out")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        (name,), (target,) = options.networks, options.target
        print(json.dumps(measure(name, Target.from_name(target), options)))
        return
    given = sys.argv[1:]
    rest = [a for a in given if a not in (*options.networks, *options.target, "--target")]
    results = []
    for name in options.networks:
        for target in options.target:
            command = [sys.executable, __file__, name, "--target", target, "--here", *rest]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            results.append(json.loads(done.stdout.splitlines()[-1]))
            print(json.dumps(results[-1]), file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
