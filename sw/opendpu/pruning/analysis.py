# SPDX-License-Identifier: Apache-2.0
"""What pruning single groups costs: scores of a network by group and number of units removed."""

import dataclasses
import itertools
import os
import pathlib
from typing import Any

from opendpu.pruning import document
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import ModelFormatError, UnsupportedError

FORMAT = "opendpu sensitivity 1"
STEPS = 10
"""A group is tried with 1/10 to 9/10 of it removed."""

Task = tuple[str, int]
"""Group, and how many of its units are removed."""


@dataclasses.dataclass
class Analysis:
    """Scores of a network by group and number of units that are removed.

    ``fingerprint`` says of which network: names and shapes of parameters, not their values, as an
    analysis holds for a network that was trained further.
    """

    fingerprint: str
    baseline: float | None = None
    scores: dict[str, dict[int, float]] = dataclasses.field(default_factory=dict)

    def loss(self, name: str, removed: float) -> float:
        """Return by how much the score falls with some units of a group removed, at least zero.

        Between what was tried it is interpolated, and it never falls with more units removed.
        """
        known = sorted(self.scores.get(name, {}).items())
        worst, points = 0.0, [(0.0, 0.0)]
        for count, score in known:
            worst = max(worst, (self.baseline or 0.0) - score)
            points.append((float(count), worst))
        for (left, low), (right, high) in itertools.pairwise(points):
            if removed <= right:
                return low + (high - low) * (removed - left) / (right - left)
        (left, low), (right, high) = points[-2:] if len(points) > 1 else (points[0], points[0])
        slope = (high - low) / (right - left) if right > left else 0.0
        return high + slope * (removed - right)

    def unknown(self, dependencies: Dependencies, steps: int = STEPS) -> list[Task]:
        """Return what is still to be evaluated, in order."""
        tasks = tasks_of(dependencies, steps)
        return [(name, count) for name, count in tasks if count not in self.scores.get(name, {})]

    def check(self, dependencies: Dependencies) -> None:
        """Refuse an analysis that says nothing of some groups.

        Raises
        ------
        UnsupportedError
            It was interrupted, or made with more of the network excluded.
        """
        missing = [name for name in dependencies.groups if not self.scores.get(name)]
        if self.baseline is None or missing:
            raise UnsupportedError(
                f"the analysis says nothing of {missing[0] if missing else 'the whole network'}; "
                "analyze (ana) to the end, and with no other excludes",
                code="OPTIMIZER_INVALID_ANA_RESULT_ERROR",
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the analysis, complete or not at all."""
        document.save(path, FORMAT, self, indent=1)

    @classmethod
    def load(cls, path: str | os.PathLike[str], fingerprint: str) -> "Analysis":
        """Read an analysis of the network with this fingerprint.

        Raises
        ------
        ModelFormatError
            There is none, it is damaged, or it is of another network.
        """
        file = pathlib.Path(path)
        if not file.is_file():
            raise ModelFormatError(
                f"{file}: no such file; analyze the network first (ana)",
                code="OPTIMIZER_NO_ANA_RESULT_ERROR",
            )
        found = document.load(
            file, FORMAT, cls._parsed, "is no analysis", "OPTIMIZER_INVALID_ANA_RESULT_ERROR"
        )
        if found.fingerprint != fingerprint:
            raise ModelFormatError(
                f"{file} is the analysis of another network: its layers or their groups differ; "
                "analyze again (ana with forced=True)",
                code="OPTIMIZER_INVALID_ANA_RESULT_ERROR",
            )
        return found

    @classmethod
    def _parsed(cls, content: dict[str, Any]) -> "Analysis":
        baseline = content["baseline"]
        return cls(
            str(content["fingerprint"]),
            None if baseline is None else float(baseline),
            {
                str(name): {int(count): float(score) for count, score in known.items()}
                for name, known in content["scores"].items()
            },
        )


def tasks_of(dependencies: Dependencies, steps: int = STEPS) -> list[Task]:
    """Return what is evaluated, in order."""
    found: dict[Task, None] = {}
    for name, group in dependencies.groups.items():
        for step in range(1, steps):
            count = min(max(round(group.units * step / steps), 1), group.units - 1)
            found[name, count] = None
    return list(found)
