# SPDX-License-Identifier: Apache-2.0
"""Fix points of weights, chosen by what they do to a block's result."""

import numpy as np

from opendpu.ir import Array, QuantizedGraph
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.model import Batch, BlockModel
from opendpu.quantize.finetune.pytorch import torch_module
from opendpu.quantize.scales.shifts import SHIFT_BIAS, SHIFT_CUT

STEPS = (-1, 1)
"""What is added to the fix point in trials."""

GAIN = 0.8
"""Another fix point is taken if it brings the error below this part of what it was."""


def weight_grids(
    model: BlockModel, examples: Batch, block: Block, graph: QuantizedGraph, matrix: Array,
    bias: Array | None,
) -> int:  # fmt: skip
    """Return the best fix point for the weights of a block, rounded to nearest.

    Candidates are the present one and its neighbours, as far as the shifts of the DPU reach.
    """
    torch = torch_module()
    low, high = block.weights.quantization.limits
    held = None if bias is None else torch.from_numpy(bias)

    def error(point: int) -> float:
        steps = np.clip(np.floor(matrix * 2.0**point + 0.5), low, high) * 2.0**-point
        return model.error(examples, torch.from_numpy(steps.astype(np.float32)), held)

    start = block.weights.fix_point
    best, least = start, error(start)
    for step in STEPS:
        if not _is_legal(graph, block, start + step):
            continue
        found = error(start + step)
        if found < GAIN * least:
            best, least = start + step, found
    return best


def _is_legal(graph: QuantizedGraph, block: Block, point: int) -> bool:
    """Return whether the shifts of the DPU can hold a fix point of the weights."""
    accumulator = point + graph[block.layer.inputs["input"][0]].fix_point
    if accumulator - block.fix.fix_point not in SHIFT_CUT:
        return False
    return block.bias is None or accumulator + 1 - block.bias.fix_point in SHIFT_BIAS
