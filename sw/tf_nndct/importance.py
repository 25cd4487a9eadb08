# SPDX-License-Identifier: Apache-2.0
"""Which channels of a group matter least, by the weights that are cut with them."""

from collections.abc import Callable, Mapping

import numpy as np

from opendpu.ir import Array
from tf_nndct.groups import Slice, Structure

Values = Callable[[Slice], Array | None]
"""The weights that a slice is of; nothing for those that say nothing of what channels are worth."""


def scores(values: Values, structure: Structure, name: str) -> Array:
    """Return how much each unit of a group weighs: squares of weights, each slice's mean 1."""
    total = np.zeros(structure.dependencies.groups[name].units)
    for item in structure.slices:
        mine = [(i, c[1]) for i, c in enumerate(item.channels) if c is not None and c[0] == name]
        weights = values(item) if mine else None
        if weights is None:
            continue
        axes = tuple(axis for axis in range(weights.ndim) if axis != item.axis)
        each = np.square(weights.astype(np.float64)).sum(axes)
        found = np.zeros_like(total)
        np.add.at(found, [unit for _, unit in mine], each[[index for index, _ in mine]])
        if found.mean() > 0:
            total += found / found.mean()
    return total


def least_important(
    values: Values, structure: Structure, widths: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the units to remove, so that widths are met; the first of equals stay."""
    removed = {}
    for name, kept in widths.items():
        if kept < structure.dependencies.groups[name].units:
            order = np.argsort(-scores(values, structure, name), kind="stable")
            removed[name] = sorted(int(unit) for unit in order[kept:])
    return removed
