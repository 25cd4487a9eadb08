# SPDX-License-Identifier: Apache-2.0
"""Measure the functional simulator; prints JSON.

``resnet50``: a program of ResNet-50's size (4.1 GMAC), on random data. A file: the DPU subgraphs
of an ``.xmodel``. ``kernels``: ways to multiply int8 matrices of the sizes that CONV has.
"""

import argparse
import json
import math
import os
import pathlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import resnet50

import xir
from opendpu.runtime.device import Job
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.model.conv import matrix_product


def run(code: bytes, target: Target, segments: dict[int, Any], repeat: int) -> dict[str, Any]:
    """Run a program a few times on the device; return the figures."""
    device = IssDevice(target)
    first = device.run(Job(code, segments))
    times = [device.run(Job(code, segments)).wall_seconds for _ in range(repeat)]
    return {
        "instructions": first.instructions,
        "bytes_read": first.bytes_read,
        "bytes_written": first.bytes_written,
        "first_seconds": round(first.wall_seconds, 6),
        "warm_seconds": round(min(times), 6),
        "warm_seconds_mean": round(sum(times) / len(times), 6),
    }


def bench_resnet50(target: Target, repeat: int) -> dict[str, Any]:
    """Measure the program of ResNet-50's size."""
    code, macs = resnet50.program(target)
    noise = np.random.default_rng(0)
    segments = {
        i: noise.integers(0, 256, 24 << 20, np.uint8) for i in (resnet50.WEIGHTS, resnet50.WORK)
    }
    result = run(code, target, segments, repeat)
    result["gmac"] = round(macs / 1e9, 3)
    result["gmac_per_second"] = round(macs / 1e9 / result["warm_seconds"], 2)
    return result


def bench_file(path: pathlib.Path, repeat: int) -> list[dict[str, Any]]:
    """Measure every DPU subgraph of a compiled model, on zero inputs."""
    results = []
    root = xir.Graph.deserialize(path).get_root_subgraph()
    for child in root.toposort_child_subgraph():
        if child.get_attr("device") != "DPU":
            continue
        sizes = child.get_attr("reg_id_to_size")
        segments = {int(k[4:]): np.zeros(size, np.uint8) for k, size in sizes.items()}
        for name, blob in child.get_attr("reg_id_to_parameter_value").items():
            segments[int(name[4:])][: len(blob)] = np.frombuffer(blob, np.uint8)
        target = Target.from_fingerprint(child.get_attr("dpu_fingerprint"))
        results.append(
            {
                "file": path.name,
                "subgraph": child.get_name(),
                **run(bytes(child.get_attr("mc_code")), target, segments, repeat),
            }
        )
    return results


def bench_kernels() -> list[dict[str, Any]]:
    """Time ways to do a CONV's matrix product, in GMAC/s, conversions from int8 included."""
    techniques: dict[str, Callable[[Any, Any], Any]] = {
        "float32 BLAS in exact pieces": lambda x, w: matrix_product(
            x.astype(np.float32), w.astype(np.float32)
        ),
        "float64 BLAS": lambda x, w: x.astype(np.float64) @ w.astype(np.float64).T,
        "int32 numpy": lambda x, w: x.astype(np.int32) @ w.astype(np.int32).T,
    }
    try:
        import numba  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        pass
    else:

        @numba.njit(fastmath=True)  # type: ignore[misc, untyped-decorator, unused-ignore]
        def loops(x: Any, w: Any) -> Any:
            out = np.zeros((x.shape[0], w.shape[0]), np.int32)
            for m in range(x.shape[0]):
                for n in range(w.shape[0]):
                    total = np.int32(0)
                    for k in range(x.shape[1]):
                        total += np.int32(x[m, k]) * np.int32(w[n, k])
                    out[m, n] = total
            return out

        techniques["numba loops on int8"] = loops
    noise = np.random.default_rng(0)
    results = []
    for m, k, n in ((448, 576, 16), (224, 1152, 16), (448, 64, 16), (49, 4608, 16)):
        x = noise.integers(-128, 128, (m, k), np.int8)
        w = noise.integers(-128, 128, (n, k), np.int8)
        row: dict[str, Any] = {"m": m, "k": k, "n": n}
        for name, technique in techniques.items():
            technique(x, w)
            best = math.inf
            for _ in range(20):
                start = time.perf_counter()
                technique(x, w)
                best = min(best, time.perf_counter() - start)
            row[name] = round(m * k * n / best / 1e9, 2)
        results.append(row)
    return results


def main() -> None:
    """Print the figures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["resnet50", "kernels"],
                        help="resnet50, kernels, or .xmodel files")  # fmt: skip
    parser.add_argument("--target", default="B4096", help="for resnet50 (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="warm runs (default: %(default)s)")
    args = parser.parse_args()
    report: dict[str, Any] = {"cpus": os.cpu_count(), "numpy": np.__version__}
    try:
        for what in args.what:
            if what == "resnet50":
                report[what] = bench_resnet50(Target.from_name(args.target), args.repeat)
            elif what == "kernels":
                report[what] = bench_kernels()
            else:
                report.setdefault("files", []).extend(bench_file(pathlib.Path(what), args.repeat))
    except DPUError as error:
        parser.error(str(error))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
