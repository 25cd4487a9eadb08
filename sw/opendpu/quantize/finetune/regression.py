# SPDX-License-Identifier: Apache-2.0
"""The weights that suit quantized inputs best, before rounding: ridge regression, in closed form.

What quantization changed in a layer's inputs - noise, but also values that saturate, and gains and
means that moved - changes the best weights. ``W`` and ``b`` minimize
``|X W + b - T|^2 + r |W - W0|^2`` with the quantized inputs ``X``, the float network's results
``T`` and its weights ``W0``.
"""

from collections.abc import Callable, Iterator

import numpy as np

from opendpu.ir import Array
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.finetune.rows import Form

RIDGES = (0.3, 0.03, 0.003)
"""How strongly weights are held to those of the float network: ``r`` in units of the inputs' mean
energy. Few examples need more. Weaker ones are tried as long as the error falls."""

GROUPS_TOGETHER, ROWS_TOGETHER = 64, 64
"""Groups and rows that are put in the order of matrices at a time: they stay in the cache."""


def work_of(form: Form, rows: int) -> float:
    """Return the multiply-accumulates of setting up the equations and solving them."""
    return form.groups * form.terms**2 * (rows + len(RIDGES) * form.terms / 3)


Rounded = Callable[[Array, Array | None], tuple[Array, Array | None]]
"""What becomes of weights and bias: those nearest to them on their grids, or themselves."""


def best_start(
    model: BlockModel, examples: Examples, judged: Examples, form: Form, weights: Array,
    bias: Array | None, rounded: Rounded,
) -> tuple[Array, Array | None, float]:  # fmt: skip
    """Return weights ``[terms, groups, outputs]`` and bias, not rounded, and their error rounded.

    Those that make the least error on held-out examples when they are rounded: of the float
    network, or a solution of the equations.

    Parameters
    ----------
    model, form
        The block.
    examples, judged
        Examples for the equations, and held-out ones.
    weights, bias
        Those of the float network; no bias where the layer has none.
    rounded
        What they are rounded to.
    """

    def error(some: Array, other: Array | None) -> float:
        return error_of(model, judged, *rounded(some, other))

    best = (weights, bias, error(weights, bias))
    for found in _solutions(examples, form, weights, biased=bias is not None):
        made = error(*found)
        if made >= best[2]:
            break
        best = (*found, made)
    return best


def _solutions(
    examples: Examples, form: Form, weights: Array, *, biased: bool
) -> Iterator[tuple[Array, Array | None]]:
    """Yield weights and bias, one for each ridge."""
    inputs = examples.inputs
    wanted = examples.linear.reshape(-1, form.groups, form.outputs)
    start, rows = weights.transpose(1, 0, 2), len(inputs)
    x_mean, t_mean = np.float32(0), np.float32(0)
    if biased:
        x_mean, t_mean = inputs.mean(0, keepdims=True), wanted.mean(0, keepdims=True)
        inputs, wanted = inputs - x_mean, wanted - t_mean
        x_mean, t_mean = np.moveaxis(x_mean, 2, 0), np.moveaxis(t_mean, 1, 0)
    energy = _squared(inputs).astype(np.float64) / rows
    rest = _against_rest(inputs, wanted, weights).astype(np.float64) / rows
    unit = np.trace(energy, axis1=1, axis2=2)[:, None, None] / form.terms
    unit = np.maximum(unit, np.finfo(np.float32).tiny)
    for ridge in RIDGES:
        found = start + np.linalg.solve(energy + ridge * unit * np.eye(form.terms), rest)
        bias = (t_mean - x_mean @ found)[:, 0].reshape(-1).astype(np.float32) if biased else None
        yield np.ascontiguousarray(found.transpose(1, 0, 2), np.float32), bias


def _squared(inputs: Array) -> Array:
    """Return the products of columns, ``[groups, terms, terms]``, for ``[rows, terms, groups]``."""
    rows, terms, groups = inputs.shape
    if groups == 1:  # a product with its own transpose takes half of the work
        matrix = np.ascontiguousarray(inputs[:, :, 0])
        return np.asarray(matrix.T @ matrix)[None]
    made = np.empty((groups, terms, terms), inputs.dtype)
    for first in range(0, groups, GROUPS_TOGETHER):
        some = inputs[:, :, first : first + GROUPS_TOGETHER]
        turned = np.empty((some.shape[2], rows, terms), inputs.dtype)
        for row in range(0, rows, ROWS_TOGETHER):
            turned[:, row : row + ROWS_TOGETHER] = np.moveaxis(
                some[row : row + ROWS_TOGETHER], 2, 0
            )
        np.matmul(turned.swapaxes(1, 2), turned, out=made[first : first + GROUPS_TOGETHER])
    return made


def _against_rest(inputs: Array, wanted: Array, weights: Array) -> Array:
    """Return the products of columns with what the float network's weights leave of ``wanted``.

    ``[groups, terms, outputs]``, for ``[rows, terms, groups]`` and ``[rows, groups, outputs]``.
    """
    if weights.shape[2] == 1:  # in the order of memory; products of matrices would copy it all
        rest = wanted[:, :, 0] - np.einsum("rkg,kg->rg", inputs, weights[:, :, 0])
        return np.asarray(np.einsum("rkg,rg->gk", inputs, rest))[:, :, None]
    turned = np.moveaxis(inputs, 2, 0)
    rest = np.moveaxis(wanted, 1, 0) - turned @ weights.transpose(1, 0, 2)
    return np.asarray(turned.swapaxes(1, 2) @ rest)
