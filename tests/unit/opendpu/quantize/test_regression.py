# SPDX-License-Identifier: Apache-2.0
"""Equations of the regression: what is computed group by group is what their products are."""

import numpy as np
import pytest

from opendpu.quantize.finetune.regression import _against_rest, _squared
from opendpu.quantize.threads import one_blas_thread


@pytest.mark.parametrize(("groups", "outputs"), [(1, 5), (3, 1), (70, 1), (4, 2)])
@one_blas_thread()
def test_equations_are_products_of_each_group(groups: int, outputs: int) -> None:
    """The energy of inputs, and their product with the rest, are those of each group's matrix."""
    noise = np.random.default_rng(groups)
    inputs = noise.standard_normal((131, 9, groups), np.float32)
    wanted = noise.standard_normal((131, groups, outputs), np.float32)
    weights = noise.standard_normal((9, groups, outputs), np.float32)
    energy, against = _squared(inputs), _against_rest(inputs, wanted, weights)
    for group in range(groups):
        some, aim = inputs[:, :, group].astype(np.float64), wanted[:, group].astype(np.float64)
        rest = aim - some @ weights[:, group]
        np.testing.assert_allclose(energy[group], some.T @ some, rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(against[group], some.T @ rest, rtol=1e-4, atol=1e-3)
