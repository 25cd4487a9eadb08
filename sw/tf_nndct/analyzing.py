# SPDX-License-Identifier: Apache-2.0
"""Analyses of single groups, and widths by them: the same for Keras models and for graphs."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.cli.progress import progress
from opendpu.pruning import Analysis, allocate, tolerated
from tf_nndct.groups import Structure
from tf_nndct.objective import Macs

FOLDER = pathlib.Path(".vai")
"""Where runners keep what they found out."""


def analyze_groups(
    known: Analysis, structure: Structure, score: Callable[[Mapping[str, int]], float],
    path: pathlib.Path, save_every: int,
) -> None:  # fmt: skip
    """Evaluate what an analysis does not know yet, and write it to a file, however this ends.

    ``score`` evaluates the network with some groups narrowed to the widths it is given.
    """
    dependencies = structure.dependencies
    tasks = known.unknown(dependencies)
    with progress("analyzing") as show:
        try:
            if known.baseline is None:
                known.baseline = score({})
            for done, (name, count) in enumerate(tasks):
                show(f"analyzing: {done} of {len(tasks)} evaluations")
                widths = {name: dependencies.groups[name].units - count}
                known.scores.setdefault(name, {})[count] = score(widths)
                if done % save_every == save_every - 1:
                    known.save(path)
        finally:
            known.save(path)


def chosen_widths(
    structure: Structure, analysis: Analysis, ratio: float | None, threshold: float | None
) -> Mapping[str, int]:
    """Return the widths of groups for a part of the multiply-accumulates, else of the score."""
    analysis.check(structure.dependencies)
    if ratio is None:
        assert threshold is not None
        return tolerated(structure.dependencies, analysis, threshold)
    with progress("choosing widths") as show:
        return allocate(structure.dependencies, analysis, Macs(structure), ratio, show=show)


def fingerprint_of(parts: list[Any]) -> str:
    """Return what tells a network from others: a digest of its operators and their shapes."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
