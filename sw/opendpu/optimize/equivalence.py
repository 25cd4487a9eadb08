# SPDX-License-Identifier: Apache-2.0
"""Tries every group: a network without channels has to compute what one with zeros there does.

That does not hold behind what mixes channels (a mean over them, a normalization of a sample), or
where the source fixes a number of channels. Such groups are found by trying, not by a list of
operators, and stay whole.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from opendpu.ops.inference import reason_of
from opendpu.optimize.groups import called
from opendpu.optimize.surgery import slim, zero
from opendpu.pruning.structure import Dependencies

TOLERANCE = 1e-4
"""Largest difference of outputs, in parts of the largest output: rounding of sums in float32."""


def tried(model: nn.Module, inputs: Any, dependencies: Dependencies) -> Dependencies:
    """Return the dependencies without groups whose channels cannot be cut alone.

    ``inputs`` are what the network is called with; values matter little, but should not be zero.
    """
    quiet = copy.deepcopy(model).eval()

    def failing(names: Sequence[str]) -> dict[str, str]:
        reason = _difference(quiet, inputs, dependencies, names)
        if not names or not reason:
            return {}
        if len(names) == 1:
            return {names[0]: reason}
        half = len(names) // 2
        return {**failing(names[:half]), **failing(names[half:])}

    bad: dict[str, str] = {}
    while True:
        found = failing([name for name in dependencies.groups if name not in bad])
        if not found:
            return dependencies.without(bad)
        bad.update(found)


def _difference(
    model: nn.Module, inputs: Any, dependencies: Dependencies, names: Sequence[str]
) -> str:
    """Return how a slim network differs from one with zeros; nothing if it does not."""
    removed = {
        name: range(dependencies.groups[name].units // 2, dependencies.groups[name].units)
        for name in names
    }
    sparse = copy.deepcopy(model)
    try:
        zero(sparse, dependencies, removed)
    except IndexError:
        return "the trace has more of them than one of its modules"
    with torch.no_grad():
        wanted = called(sparse, inputs)
        try:
            found = called(slim(model, dependencies, removed), inputs)
        except Exception as error:  # whatever the user's code raises
            return f"the network does not run without some of them: {reason_of(error)}"
    return other_results(
        tree_leaves(found), tree_leaves(wanted),
        "without some of them the network computes something else than with zeros there",
    )  # fmt: skip


def other_results(found: Sequence[Any], wanted: Sequence[Any], otherwise: str) -> str:
    """Return how results of a network differ, ``otherwise`` by values; nothing if they do not."""
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, torch.Tensor) or not other.is_floating_point():
            continue
        if one.shape != other.shape:
            return f"an output has shape {tuple(one.shape)} instead of {tuple(other.shape)}"
        scale = float(other.abs().max()) or 1.0
        if not torch.allclose(one / scale, other / scale, rtol=0, atol=TOLERANCE, equal_nan=True):
            return otherwise
    return ""
