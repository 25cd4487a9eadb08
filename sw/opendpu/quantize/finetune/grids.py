# SPDX-License-Identifier: Apache-2.0
"""What constants can hold, and fix points of weights chosen by what they do to a block's result."""

import dataclasses

import numpy as np

from opendpu.ir import Array, Node, QuantizedGraph
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.scales.shifts import SHIFT_BIAS, SHIFT_CUT

STEPS = (-1, 1)
"""What is added to the fix point of weights in trials."""

GAIN = 0.8
"""Another fix point is taken if it brings the error below this part of what it was."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """The numbers that a constant can hold: integers from ``low`` to ``high`` times ``step``."""

    step: float
    low: int
    high: int


def grid_of(fix: Node, fix_point: int | None = None) -> Grid:
    """Return the grid of a ``fix``, or the same with another fix point."""
    point = fix.fix_point if fix_point is None else fix_point
    return Grid(2.0**-point, *fix.quantization.limits)


def nearest(array: Array, grid: Grid) -> Array:
    """Return float32 numbers rounded to a grid, halves up."""
    steps = np.floor(array / grid.step + 0.5).clip(grid.low, grid.high)
    return np.asarray(steps * grid.step, np.float32)


def best_weight_fix_point(
    model: BlockModel, examples: Examples, block: Block, graph: QuantizedGraph, weights: Array,
    bias: Array | None,
) -> int:  # fmt: skip
    """Return the best fix point for weights ``[terms, groups, outputs]``, rounded to nearest.

    Candidates are the present one and its neighbours, as far as the shifts of the DPU reach.
    """
    best = start = block.weights.fix_point
    least = error_of(model, examples, nearest(weights, grid_of(block.weights)), bias)
    for point in (start + step for step in STEPS):
        if _is_legal(graph, block, point):
            found = error_of(model, examples, nearest(weights, grid_of(block.weights, point)), bias)
            if found < GAIN * least:
                best, least = point, found
    return best


def _is_legal(graph: QuantizedGraph, block: Block, point: int) -> bool:
    """Return whether the shifts of the DPU can hold a fix point of the weights."""
    accumulator = point + graph[block.layer.inputs["input"][0]].fix_point
    if accumulator - block.fix.fix_point not in SHIFT_CUT:
        return False
    return block.bias is None or accumulator + 1 - block.bias.fix_point in SHIFT_BIAS
