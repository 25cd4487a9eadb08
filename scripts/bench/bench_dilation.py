# SPDX-License-Identifier: Apache-2.0
"""What a dilation costs: cycles of one layer with each dilation, and the ratio to dilation 1.

Layers are those of segmentation networks (atrous spatial pyramids), with the padding that keeps the
size; inputs, weights and biases are seeded. Each is a network of its own, from DDR to DDR.

    python scripts/bench/bench_dilation.py --target B4096 --dilation 1 12 --layer conv:960:256:3:20
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from typing import Any

import numpy as np

from opendpu.compiler.pipeline import compile_with_report
from opendpu.ir import Quantization, QuantizedGraph
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from oracle import evaluate_quantized

KINDS = {"conv": "conv2d", "depthwise": "depthwise-conv2d"}
LAYERS = (
    "conv:960:256:3:20", "conv:960:256:3:40", "conv:320:256:3:65", "conv:64:64:3:65",
    "conv:256:256:5:20", "conv:64:64:5:40",
    "depthwise:960:960:3:20", "depthwise:960:960:5:20", "depthwise:320:320:3:65",
)  # fmt: skip
"""Kind, input channels, output channels, kernel, height and width."""
DILATIONS = (1, 2, 4, 6, 12, 18, 24, 36)


@dataclasses.dataclass(frozen=True)
class Layer:
    """A convolution as on the command line."""

    kind: str
    inputs: int
    outputs: int
    kernel: int
    size: int

    @classmethod
    def parse(cls, text: str) -> "Layer":
        """Read ``kind:inputs:outputs:kernel:size``."""
        kind, *numbers = text.split(":")
        if kind not in KINDS or len(numbers) != 4:
            raise SystemExit(f"{text!r} is no layer: kind:inputs:outputs:kernel:size")
        return cls(kind, *(int(n) for n in numbers))

    def graph(self, dilation: int) -> QuantizedGraph:
        """Return a quantized graph of this layer alone."""
        noise = np.random.default_rng(7)
        graph = QuantizedGraph("dilation")
        shape = (1, self.size, self.size)
        dense = self.kind == "conv"

        def const(name: str, *sizes: int, point: int) -> str:
            values = noise.integers(-128, 128, sizes) * 2.0**-point
            graph.add(name, "const", sizes, value=values.astype(np.float32))
            return _fix(graph, name, point)

        graph.add("data", "data", (*shape, self.inputs))
        weights = (self.outputs if dense else 1, self.kernel, self.kernel, self.inputs)
        given = {
            "input": [_fix(graph, "data", 5)],
            "weights": [const("weights", *weights, point=8)],
            "bias": [const("bias", self.outputs, point=6)],
        }
        attrs = {
            "kernel": [self.kernel] * 2, "stride": [1, 1], "dilation": [dilation] * 2,
            "pad": [self.kernel // 2 * dilation] * 4, "pad_mode": "FLOOR",
        }  # fmt: skip
        graph.add("layer", KINDS[self.kind], (*shape, self.outputs), given, attrs)
        graph.outputs = [_fix(graph, "layer", 3)]
        return graph


def _fix(graph: QuantizedGraph, name: str, point: int) -> str:
    return graph.add_fix(f"{name}_fix", name, Quantization.power_of_two(point)).name


def measure(layer: Layer, dilation: int, target: Target, options: argparse.Namespace) -> int:
    """Return the cycles of a layer; leave with a message if its results are wrong."""
    graph = layer.graph(dilation)
    compiled = compile_with_report(graph, target)
    if compiled.report.on_cpu:
        raise SystemExit(f"{layer}, dilation {dilation}: {compiled.report.on_cpu}")
    with GraphRunner(
        compiled.graph, device=options.device, target=target, memory=options.memory
    ) as runner:
        tensors = runner.get_input_tensors()
        noise = np.random.default_rng(2)
        given = {t.name: noise.integers(-128, 128, t.dims, np.int8) for t in tensors}
        found = runner.run(given)
        last = runner.last_statistics
    if options.check:
        wanted = evaluate_quantized(graph, given)
        for name, values in wanted.items():
            if not np.array_equal(values, found[name]):
                raise SystemExit(f"{layer}, dilation {dilation}: {name} is wrong")
    assert last is not None
    return last.cycles


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layer", nargs="+", default=LAYERS)
    parser.add_argument("--target", nargs="+", default=("B512", "B4096"))
    parser.add_argument("--dilation", nargs="+", type=int, default=DILATIONS)
    parser.add_argument("--device", default="cycle", choices=("cycle", "rtl"))
    parser.add_argument("--memory", default="kv260", help="model of the DDR")
    parser.add_argument("--check", action="store_true", help="compare with the integer reference")
    options = parser.parse_args()
    for name in options.target:
        target = Target.from_name(name)
        for text in options.layer:
            base = measure(Layer.parse(text), 1, target, options)
            for dilation in options.dilation:
                cycles = base
                if dilation > 1:
                    cycles = measure(Layer.parse(text), dilation, target, options)
                row: dict[str, Any] = {
                    "layer": text, "target": name, "dilation": dilation, "cycles": cycles,
                    "ratio": round(cycles / base, 3),
                }  # fmt: skip
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
