# SPDX-License-Identifier: Apache-2.0
"""What products of two feature maps on the DPU are worth: transformers with and without them.

``cpu`` keeps matmul of two computed tensors in float, beside softmax and LayerNorm; ``dpu`` only
these two; ``all`` is what the compiler makes. Cycles are the cycle model's, time on the CPU the
compiler's expectation of one Cortex-A53 core, with the DPU at 300 MHz; networks are quantized with
one made-up sample.

    python scripts/bench/bench_attention.py vitbase --depth 1 --target B4096+table
"""

import argparse
import dataclasses
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from networks.mobilevit import mobilevit
from networks.transformer import vit

from opendpu.compiler.partition import Partitioned
from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.integer import IntegerNetwork
from opendpu.ir import FloatGraph, QuantizedGraph
from opendpu.ops import cost
from opendpu.ops.session import Session
from opendpu.profile import profile
from opendpu.quantize import QuantizeConfig, quantize
from opendpu.quantize.tensor_spec import Override, TensorSpec
from opendpu_arch.target import Target

NETWORKS: dict[str, Callable[..., onnx.ModelProto]] = {
    "vittiny": lambda depth: vit("vittiny", width=192, heads=3, depth=depth or 12),
    "vitbase": lambda depth: vit("vitbase", width=768, heads=12, depth=depth or 12),
    "mobilevit": lambda depth: mobilevit(),
}
"""What builds each network, with as many blocks as asked for if that is not 0."""
CLOCK_HZ = 300e6
NORMALIZATIONS = ("softmax", "LayerNormalization")
KEPT = {"cpu": ("matmul", *NORMALIZATIONS), "dpu": NORMALIZATIONS}
"""Kinds that stay in float."""
CHOICES = (*KEPT, "all")


@dataclasses.dataclass(frozen=True)
class Measured:
    """What came of one network."""

    network: str
    depth: int
    target: str
    products: str
    """What the DPU computes of attention."""
    dpu_parts: int
    cpu_parts: int
    macs: int
    """Of the whole network, those of products of feature maps too."""
    share: float
    """Part of them on the DPU."""
    cycles: int
    utilization: float
    dpu_ms: float
    cpu_ms: float
    sqnr_db: float


def quantized(graph: FloatGraph, products: str, target: Target) -> QuantizedGraph:
    """Return a graph quantized with one sample; ``KEPT`` says what stays in float."""
    config = QuantizeConfig(
        cross_layer=False, bias_correction=False, weight_correction=False, refinement=False,
        target=target,
    )  # fmt: skip
    if products in KEPT:
        real = TensorSpec(number_format="float32")
        kept = Override(kinds=KEPT[products], weights=real, activation=real)
        config = dataclasses.replace(config, overrides=(kept,))
    return quantize(graph, _sample(graph, 0), config)


def measure(network: str, depth: int, products: str, target: Target, memory: str) -> Measured:
    """Quantize and compile a network, and count."""
    graph = load_onnx(NETWORKS[network](depth))
    made = quantized(graph, products, target)
    partitions: list[Partitioned] = []

    def passed(name: str, value: object) -> None:
        if isinstance(value, Partitioned):
            partitions.append(value)

    compiled = compile_with_report(made, target, passed=passed)
    counted = profile(compiled.graph, device="cycle", memory=memory, target=target).total()
    parts = compiled.report.subgraphs
    every = sum(cost.macs(node, graph) for node in graph)
    on_dpu = every - _on_cpu(partitions[-1])
    cycles = int(counted.cycles)
    return Measured(
        network=network, depth=depth, target=target.name, products=products,
        dpu_parts=sum(part.device == "DPU" for part in parts),
        cpu_parts=sum(part.device == "CPU" for part in parts), macs=every,
        share=round(on_dpu / every, 4), cycles=cycles,
        utilization=round(on_dpu / (cycles * target.macs_per_cycle), 4),
        dpu_ms=round(cycles / CLOCK_HZ * 1e3, 3),
        cpu_ms=round(sum(part.cpu_seconds for part in parts) * 1e3, 1),
        sqnr_db=round(_sqnr(graph, made, target), 2),
    )  # fmt: skip


def _on_cpu(value: Partitioned) -> int:
    """Return the multiply-accumulates of the CPU's parts."""
    return sum(
        cost.macs(value.graph[name], value.graph)
        for part in value.partition.parts
        if part.device == "CPU"
        for name in part.nodes
    )


def _sample(graph: FloatGraph, seed: int) -> dict[str, Any]:
    (head,) = (node for node in graph if node.kind == "data")
    return {head.name: np.random.default_rng(seed).standard_normal(head.shape, np.float32)}


def _sqnr(graph: FloatGraph, made: QuantizedGraph, target: Target) -> float:
    """Return the signal to noise ratio of the result on another sample, in the DPU's integers."""
    given = _sample(graph, 1)
    (wanted,) = Session(graph, keep=list(graph.outputs)).run(given).values()
    network = IntegerNetwork(made)
    ((name, found),) = network.run(given).items()
    real = found * 2.0 ** -(network.fix_point(name) or 0)
    return float(10 * np.log10((wanted**2).sum() / ((wanted - real) ** 2).sum()))


def main() -> None:
    """Print a row of JSON for every network, and who computes its products."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("networks", nargs="+", choices=tuple(NETWORKS))
    parser.add_argument("--depth", type=int, default=0, help="blocks of a ViT; 0: as published")
    parser.add_argument("--products", nargs="+", choices=CHOICES, default=CHOICES)
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--memory", default="kv260")
    given = parser.parse_args()
    target = Target.from_name(given.target)
    for name in given.networks:
        for products in given.products:
            found = measure(name, given.depth, products, target, given.memory)
            print(json.dumps(dataclasses.asdict(found)), flush=True)


if __name__ == "__main__":
    main()
