# SPDX-License-Identifier: Apache-2.0
"""The weights that suit quantized inputs best, before rounding: ridge regression, in closed form.

What quantization changed in a layer's inputs - noise, but also values that saturate, and gains and
means that moved - changes the best weights. ``W`` minimizes ``|X W + b - T|^2 + |W - W0|^2 * r``
with the quantized inputs ``X``, the float network's results ``T`` and its weights ``W0``.
"""

from collections.abc import Iterator

import numpy as np

from opendpu.ir import Array
from opendpu.quantize.finetune.model import Batch, BlockModel, numbers
from opendpu.quantize.finetune.pytorch import torch_module
from opendpu.quantize.finetune.rows import Form
from opendpu.quantize.finetune.variables import Grid, Tensor, nearest

RIDGES = (0.003, 0.03, 0.3)
"""How strongly weights are held to those of the float network: ``r`` in units of the inputs' mean
energy. Few examples need more."""

MOST_TERMS = 5000
"""Terms of a sum up to which the equations are solved; their work grows with the third power."""


def solutions(
    batch: Batch, form: Form, weights: Tensor, *, biased: bool
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield weights ``[terms, groups, outputs]`` and bias ``[channels]``, one for each ridge.

    Parameters
    ----------
    batch
        Examples.
    form
        Sizes of the layer.
    weights
        Those of the float network.
    biased
        Whether the layer has a bias; it is none otherwise.
    """
    torch = torch_module()
    if form.terms > MOST_TERMS:
        return
    inputs = batch.inputs.permute(2, 0, 1)
    wanted = batch.linear.reshape(-1, form.groups, form.outputs).permute(1, 0, 2)
    start = weights.permute(1, 0, 2).double()
    x_mean = inputs.mean(1, keepdim=True) if biased else torch.zeros(1)
    t_mean = wanted.mean(1, keepdim=True) if biased else torch.zeros(1)
    inputs, wanted = inputs - x_mean, wanted - t_mean
    energy = (inputs.transpose(1, 2) @ inputs).double() / inputs.shape[1]
    rest = (inputs.transpose(1, 2) @ (wanted - inputs @ start.float())).double() / inputs.shape[1]
    unit = energy.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-12)[:, None, None]
    eye = torch.eye(form.terms, dtype=torch.float64)
    for ridge in RIDGES:
        found = start + torch.linalg.solve(energy + ridge * unit * eye, rest)
        bias = None
        if biased:
            bias = (t_mean.double() - x_mean.double() @ found)[:, 0].reshape(-1).float()
        yield found.permute(1, 0, 2).float().contiguous(), bias


def best_start(
    model: BlockModel, examples: Batch, judged: Batch, form: Form, weights: Array,
    bias: Array | None, grid: Grid, bias_grid: Grid,
) -> tuple[Array, Array | None]:  # fmt: skip
    """Return the weights and bias, not rounded, to begin training with.

    Those of which the rounded ones make the least error on held-out examples: of the float network,
    or a solution of the equations.
    """
    torch = torch_module()
    first = torch.from_numpy(np.ascontiguousarray(weights))
    held = None if bias is None else torch.from_numpy(bias)
    best, least = (first, held), _rounded_error(model, judged, first, held, grid, bias_grid)
    for found in solutions(examples, form, first, biased=bias is not None):
        error = _rounded_error(model, judged, *found, grid, bias_grid)
        if error < least:
            best, least = found, error
    return numbers(best[0]), None if best[1] is None else numbers(best[1])


def _rounded_error(
    model: BlockModel, judged: Batch, weights: Tensor, bias: Tensor | None, grid: Grid,
    bias_grid: Grid,
) -> float:  # fmt: skip
    """Return the error that weights and bias make on their grids."""
    held = None if bias is None else nearest(bias, bias_grid)
    return model.error(judged, nearest(weights, grid), held)
