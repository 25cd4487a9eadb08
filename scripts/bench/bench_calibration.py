# SPDX-License-Identifier: Apache-2.0
"""What post-training quantization takes, against a float pass of onnxruntime over the same samples.

Each network is a process of its own. CPU seconds are those of all threads, user and system; on a
machine that others use they say more than wall time. Images are low-frequency noise of a seed.

    python scripts/bench/bench_calibration.py mobilenetv2 resnet50 --samples 100
    python scripts/bench/bench_calibration.py ~/models/320n.onnx --off refinement
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import networks
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

FLOATS = npt.NDArray[np.float32]
SWITCHES = ("cross_layer", "bias_correction", "refinement")
SIDE = 16
"""Points of the coarse noise on each side of an image."""


class Clock:
    """Wall and CPU seconds since it was made."""

    def __init__(self) -> None:
        self._start = (time.perf_counter(), _cpu_seconds())

    def read(self, what: str) -> dict[str, float]:
        """Return the seconds so far."""
        wall, cpu = time.perf_counter() - self._start[0], _cpu_seconds() - self._start[1]
        return {f"{what}_seconds": round(wall, 2), f"{what}_cpu_seconds": round(cpu, 2)}


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def pictures(count: int, shape: tuple[int, ...], seed: int = 0) -> FLOATS:
    """Return smooth shapes with some texture, mean zero, in the shape of an input."""
    noise = np.random.default_rng(seed)
    if len(shape) != 3:
        return noise.standard_normal((count, *shape)).astype(np.float32)
    channels, height, width = shape
    rows = np.arange(height) * SIDE // height
    columns = np.arange(width) * SIDE // width
    coarse = noise.standard_normal((count, channels, SIDE, SIDE)).astype(np.float32)
    made = coarse[:, :, rows][..., columns]
    made += 0.3 * noise.standard_normal(made.shape, np.float32)
    return made


def load(name: str, folder: pathlib.Path) -> pathlib.Path:
    """Return the file of a network: its own, or one of ours, written into a folder."""
    if name.endswith(".onnx"):
        return pathlib.Path(name)
    path = folder / f"{name}.onnx"
    onnx.save(networks.NETWORKS[name](), path)
    return path


def float_pass(path: pathlib.Path, data: dict[str, FLOATS]) -> dict[str, float]:
    """Return what onnxruntime takes for the samples, one at a time."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    clock = Clock()
    for index in range(len(next(iter(data.values())))):
        session.run(None, {name: array[index : index + 1] for name, array in data.items()})
    return clock.read("float_pass")


def measure(name: str, count: int, off: list[str]) -> dict[str, Any]:
    """Return the figures of one network."""
    from opendpu.frontend import load_onnx
    from opendpu.quantize import quantize_with_report

    with tempfile.TemporaryDirectory() as folder:
        path = load(name, pathlib.Path(folder))
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        shapes = {found.name: found.shape[1:] for found in session.get_inputs()}
        shapes = {n: tuple(s if isinstance(s, int) else 320 for s in v) for n, v in shapes.items()}
        del session
        data = {n: pictures(count, shape) for n, shape in shapes.items()}
        figures: dict[str, Any] = {"network": pathlib.Path(name).stem, "samples": count}
        figures |= float_pass(path, data)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sizes = {f"{n}:{axis}": s for n, v in shapes.items() for axis, s in enumerate(v)}
        graph = load_onnx(path, _open_sizes(path, shapes)) if sizes else load_onnx(path)
        clock = Clock()
        without: dict[str, Any] = dict.fromkeys(off, False)
        found = quantize_with_report(graph, data, **without)
        figures |= clock.read("quantize")
    figures["times_a_float_pass"] = round(
        figures["quantize_cpu_seconds"] / figures["float_pass_cpu_seconds"], 2
    )
    figures["peak_megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures["peak_megabytes_before"] = before // 1024
    assert found.report is not None
    figures["notes"] = found.report.notes
    figures["outputs_sqnr"] = dict(found.report.outputs_sqnr)
    return figures


def _open_sizes(path: pathlib.Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Return the shapes of inputs that have open dimensions."""
    found = {}
    for value in onnx.load(str(path), load_external_data=False).graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in shapes and any(not dim.HasField("dim_value") for dim in dims[1:]):
            found[value.name] = (1, *shapes[value.name])
    return found


def main() -> None:
    """Measure the networks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("networks", nargs="+", help="names of scripts/bench/networks, or files")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--off", nargs="*", choices=SWITCHES, default=[])
    parser.add_argument("--here", action="store_true", help="in this process")
    args = parser.parse_args()
    for name in args.networks:
        if args.here:
            print(json.dumps(measure(name, args.samples, args.off)))
            continue
        own = [sys.executable, __file__, name, "--samples", str(args.samples), "--here"]
        off = ["--off", *args.off] if args.off else []
        subprocess.run([*own, *off], check=True)


if __name__ == "__main__":
    main()
