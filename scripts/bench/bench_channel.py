# SPDX-License-Identifier: Apache-2.0
"""What the extension ``channel`` does to quantized networks, against a plain target, as JSON.

    MODELS=../shared/models python scripts/bench/bench_channel.py kws mobilenetv2

Every network is quantized for both targets with the same samples, and computed in the DPU's
integers on others. Against the float network: signal to quantization noise of the weights and of
the outputs, how often the largest output is the same, and accuracy where there are labels. Cycles
are those that the cycle model predicts for the compiled programs.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import networks  # noqa: E402
from network_survey.samples import samples  # noqa: E402
from networks.normalized import normalized  # noqa: E402
from networks.packaged import PACKAGED  # noqa: E402

from opendpu import api  # noqa: E402
from opendpu.frontend import load_onnx  # noqa: E402
from opendpu.integer import IntegerNetwork  # noqa: E402
from opendpu.ir import FloatGraph, Graph  # noqa: E402
from opendpu.quantize import QuantizeConfig, Quantized, quantize_with_report  # noqa: E402
from opendpu.quantize.executor import evaluate  # noqa: E402
from opendpu.quantize.samples import calibration_samples  # noqa: E402
from opendpu_arch.target import Target  # noqa: E402

Array = npt.NDArray[Any]

MODELS = pathlib.Path(os.environ.get("MODELS", HERE.parents[2] / "shared" / "models"))
CALIBRATION, TEST = 64, 64
"""Samples, where a subject does not say others."""
BATCH = 8
"""Samples that are computed at a time."""


@dataclasses.dataclass(frozen=True)
class Subject:
    """A float network, samples to calibrate with and to test with, and labels of the latter.

    Samples have the batch in front and the shape of the graph's input.
    """

    graph: FloatGraph
    calibration: Array
    test: Array
    labels: Array | None = None
    extensions: str = ""
    """What both targets have besides."""
    classifies: bool = True
    """Whether the largest result is the answer."""


def keywords(seed: int) -> Subject:
    """Return keyword spotting with its labelled clips."""
    data = np.load(MODELS / "mlperf_tiny" / "kws01.npz")
    clips = ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(clips))
    graph = load_onnx(MODELS / "mlperf_tiny" / "kws_dscnn.onnx")
    return Subject(graph, clips[order[:100]], clips[order[100:]], data["y"][order[100:]])


def anomaly(seed: int) -> Subject:
    """Return anomaly detection, on spectra that are drawn."""
    random = np.random.default_rng(seed)
    graph = load_onnx(MODELS / "mlperf_tiny" / "ad01.onnx")
    drawn = (random.standard_normal((CALIBRATION + TEST, 640)) * 3 - 5).astype(np.float32)
    return Subject(graph, drawn[:CALIBRATION], drawn[CALIBRATION:], classifies=False)


def photographs(graph: FloatGraph, seed: int, largest: float, count: int, **more: Any) -> Subject:
    """Return a network of images with crops of photographs, RGB from 0 to ``largest``."""
    (head,) = (node for node in graph if node.kind == "data")
    shape = (1, 3, *head.shape[1:3])
    calibration, test = (
        samples("photographs, 0 to 1", shape, np.dtype(np.float32), count, number, whole=whole)
        * largest
        for number, whole in ((seed, True), (seed + 1000, False))
    )
    first, second = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (calibration, test))
    return Subject(graph, first, second, **more)


def tiny(file: str, largest: float) -> Callable[[int], Subject]:
    """Return a network of MLPerf Tiny with photographs."""
    return lambda seed: photographs(
        load_onnx(MODELS / "mlperf_tiny" / file), seed, largest, CALIBRATION
    )


def mobilenet(seed: int) -> Subject:
    """Return MobileNetV2 with weights that are drawn and normalized."""
    drawn = networks.NETWORKS["mobilenetv2"]()
    shape = (1, 3, 224, 224)
    images = samples("photographs, 0 to 1", shape, np.dtype(np.float32), 8, seed + 2000, whole=True)
    return photographs(load_onnx(normalized(drawn, images, seed)), seed, 1.0, 32)


def detector(seed: int) -> Subject:
    """Return YOLOv8n with the weights of nudenet; its SiLU needs tables."""
    found = PACKAGED["nudenet"]
    graph = load_onnx(found.path(), input_shapes=found.sizes)
    return photographs(graph, seed, 1.0, 16, extensions="+table", classifies=False)


SUBJECTS: dict[str, Callable[[int], Subject]] = {
    "kws": keywords,
    "ic": tiny("ic_resnet8.onnx", 255.0),
    "vww": tiny("vww_mobilenetv1_025.onnx", 1.0),
    "ad": anomaly,
    "mobilenetv2": mobilenet,
    "nudenet": detector,
}


def ratio(wanted: Array, found: Array) -> float | None:
    """Return signal to noise in dB; none without noise."""
    noise = float(np.square(found - wanted, dtype=np.float64).sum())
    signal = float(np.square(wanted, dtype=np.float64).sum())
    return round(10 * math.log10(signal / noise), 2) if noise else None


def results(graph: Graph) -> list[str]:
    """Return what is compared: the outputs, or what softmax makes them of."""
    found = []
    for name in graph.outputs:
        node = graph[name]
        while node.kind in ("fix", "softmax", "reshape"):
            inside = node.kind == "softmax"
            node = graph[node.inputs["input"][0]]
            if inside:
                name = node.name
                break
        found.append(name)
    return found


def floating(subject: Subject) -> list[Array]:
    """Return the results of the float network."""
    (head,) = (node.name for node in subject.graph if node.kind == "data")
    names = results(subject.graph)
    given = calibration_samples(subject.graph, {head: subject.test})
    parts = [found for _, found in evaluate(subject.graph, names, given, batch=BATCH)]
    return [np.concatenate([part[name] for part in parts]) for name in names]


def computed(made: Quantized, test: Array) -> list[Array]:
    """Return the results of a quantized graph in the DPU's integers, as real numbers."""
    names = results(made.graph)
    network = IntegerNetwork(made.graph, keep=names)
    (head,) = (node.name for node in made.graph if node.kind == "data")
    batches = ({head: test[start : start + BATCH]} for start in range(0, len(test), BATCH))
    parts = list(network.evaluate(batches))
    return [
        real(np.concatenate([part[name] for part in parts]), network.fix_point(name))
        for name in names
    ]


def real(array: Array, point: int | None) -> Array:
    """Return the real numbers of a tensor, whose integers have so many fractional bits."""
    return array if point is None else array.astype(np.float32) * np.float32(2.0**-point)


def measured(subject: Subject, target: Target, *, cycles: bool) -> dict[str, Any]:
    """Return figures of a network that is quantized for a target."""
    (head,) = (node.name for node in subject.graph if node.kind == "data")
    start = time.process_time()
    made = quantize_with_report(
        subject.graph, {head: subject.calibration}, QuantizeConfig(target=target)
    )
    seconds = time.process_time() - start
    assert made.report is not None
    wanted, found = floating(subject), computed(made, subject.test)
    weights = [t.sqnr for t in made.report.tensors if t.role == "weights" and t.sqnr is not None]
    figures: dict[str, Any] = {
        "target": target.name, "quantize_cpu_seconds": round(seconds, 1),
        "weights_sqnr": round(float(np.mean(weights)), 2),
        "weights_sqnr_least": round(min(weights), 2),
        "sqnr": [ratio(a, b) for a, b in zip(wanted, found, strict=True)],
    }  # fmt: skip
    if subject.classifies:
        best, float_best = (some[0].argmax(-1) for some in (found, wanted))
        figures["agreement"] = round(float((best == float_best).mean()), 4)
        if subject.labels is not None:
            figures["accuracy"] = round(float((best == subject.labels).mean()), 4)
            figures["accuracy_of_float"] = round(float((float_best == subject.labels).mean()), 4)
    if cycles:
        report = api.compile_graph(made.graph, target=target, count=True).report
        figures["cycles"] = sum(part.counted_cycles for part in report.subgraphs)
        figures["on_cpu"] = len(report.on_cpu)
    return figures


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", choices=[*SUBJECTS, []], default=list(SUBJECTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="draws of samples")
    parser.add_argument("--base", default="B4096", help="the plain target")
    parser.add_argument("--cycles", action="store_true", help="compile and count, too")
    given = parser.parse_args()
    rows = []
    for network in given.networks:
        for seed in given.seeds:
            subject = SUBJECTS[network](seed)
            for name in ("", "+channel"):
                target = Target.from_name(f"{given.base}{subject.extensions}{name}")
                figures = measured(subject, target, cycles=given.cycles)
                rows.append({"network": network, "seed": seed, **figures})
                print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
