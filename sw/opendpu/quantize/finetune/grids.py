# SPDX-License-Identifier: Apache-2.0
"""What constants can hold, and fix points of weights chosen by what they do to a block's result."""

import dataclasses

import numpy as np

from opendpu.ir import Array, Node, QuantizedGraph
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.finetune.rows import Form
from opendpu.quantize.scales.shifts import SHIFT_BIAS, SHIFT_CUT

STEPS = (-1, 1)
"""What is added to the fix point of weights in trials."""

GAIN = 0.8
"""Another fix point is taken if it brings the error below this part of what it was."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """The numbers that a constant can hold: integers from ``low`` to ``high`` times ``step``.

    ``step`` is one number, or float32 numbers for each output channel.
    """

    step: float | Array
    low: int
    high: int


def grid_of(fix: Node, moved: int = 0, form: Form | None = None) -> Grid:
    """Return the grid of a ``fix``, or the same with ``moved`` fractional bits more.

    Steps of channels are ``[channels]``, or those of weights in ``form``: ``[groups, outputs]``.
    """
    points = np.array(fix.fix_points) + moved
    limits = fix.quantization.limits
    if points.size == 1:
        return Grid(2.0 ** -int(points[0]), *limits)
    step: Array = np.asarray(2.0**-points, np.float32)
    return Grid(step if form is None else step.reshape(form.groups, form.outputs), *limits)


def nearest(array: Array, grid: Grid) -> Array:
    """Return float32 numbers rounded to a grid, halves up."""
    steps = np.floor(array / grid.step + 0.5).clip(grid.low, grid.high)
    return np.asarray(steps * grid.step, np.float32)


def best_move(
    model: BlockModel, examples: Examples, block: Block, form: Form, graph: QuantizedGraph,
    weights: Array, bias: Array | None,
) -> int:  # fmt: skip
    """Return what is best added to the fix points of weights ``[terms, groups, outputs]``.

    Candidates are the present ones and their neighbours, as far as the shifts of the DPU reach;
    weights are rounded to nearest.
    """

    def error(moved: int) -> float:
        grid = grid_of(block.weights, moved, form)
        return error_of(model, examples, nearest(weights, grid), bias)

    best, least = 0, error(0)
    for moved in STEPS:
        if _is_legal(graph, block, moved):
            found = error(moved)
            if found < GAIN * least:
                best, least = moved, found
    return best


def _is_legal(graph: QuantizedGraph, block: Block, moved: int) -> bool:
    """Return whether the shifts of the DPU can hold such fix points of the weights."""
    accumulator = np.array(block.weights.fix_points) + moved
    accumulator = accumulator + graph[block.layer.inputs["input"][0]].fix_point
    shifts = [(accumulator - block.fix.fix_point, SHIFT_CUT)]
    if block.bias is not None:
        shifts.append((accumulator + 1 - np.array(block.bias.fix_points), SHIFT_BIAS))
    return all(found.min() in held and found.max() in held for found, held in shifts)
