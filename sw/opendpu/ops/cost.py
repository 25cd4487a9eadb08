# SPDX-License-Identifier: Apache-2.0
"""What work costs on the CPU beside the DPU, on the DPU, and between them, for decisions.

The CPU is one Cortex-A53 core of a Zynq UltraScale+ at 1.3 GHz with float32 NEON kernels; the DPU
runs at 300 MHz. The figures are round on purpose: they decide where work goes, and promise no time.
"""

import math

from opendpu.ir import Graph, Node
from opendpu.ops.operator import operator_of
from opendpu_arch.target import Target

CPU_MACS_PER_SECOND = 2e9
CPU_ELEMENTS_PER_SECOND = 2e8
"""Elements of a result that is a function of single elements."""
BORDER_ELEMENTS_PER_SECOND = 4e8
"""Elements that are converted between float and int8 and copied."""
HANDOVER_SECONDS = 100e-6
"""A job for the DPU: registers, caches, interrupt."""
CLOCK_HZ = 300e6
DPU_SHARE = 0.5
"""Part of the array's peak that small parts reach."""
BYTES_PER_CYCLE = 32
PRODUCTS = ("matmul", "matmul-fix")
"""Kinds that multiply two matrices."""


def elements(node: Node) -> int:
    """Return the elements of a node's result."""
    return math.prod(node.shape)


def macs(node: Node, graph: Graph) -> int:
    """Return the multiply-accumulates of an op; none for what does not multiply by weights."""
    parameters = operator_of(node).parameters
    if node.kind in PRODUCTS:
        one = graph[node.inputs["input"][0]].shape
        return math.prod(node.shape) * one[-2 if node.attrs.get("transpose_a") else -1]
    if parameters is None:
        return 0
    weights = graph[node.inputs[parameters.weights][0]].shape
    taps = math.prod(weights) // weights[parameters.outputs]
    pixels = math.prod(node.shape[:-1])
    if node.kind.startswith("transposed-"):  # every input pixel meets every tap
        pixels = math.prod(graph[node.inputs["input"][0]].shape[:-1])
    return pixels * node.shape[-1] * taps


def cpu_seconds(macs: float, computed: float) -> float:
    """Return the time of some multiply-accumulates and of computing ``computed`` elements."""
    return macs / CPU_MACS_PER_SECOND + computed / CPU_ELEMENTS_PER_SECOND


def dpu_seconds(macs: float, moved: float, target: Target) -> float:
    """Return the time of a part on the DPU, whose border has ``moved`` bytes."""
    cycles = max(macs / (DPU_SHARE * target.macs_per_cycle), moved / BYTES_PER_CYCLE)
    return cycles / CLOCK_HZ


def handover_seconds(moved: float) -> float:
    """Return the time of handing ``moved`` elements to the DPU and back."""
    return HANDOVER_SECONDS + moved / BORDER_ELEMENTS_PER_SECOND
