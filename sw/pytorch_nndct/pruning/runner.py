# SPDX-License-Identifier: Apache-2.0
"""What iterative and one-step pruning share: the engine, and files below ``.vai``."""

import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from torch import nn

from opendpu.pruning.arguments import whole
from opendpu_arch import outputs

if TYPE_CHECKING:
    from opendpu.optimize import Pruner
    from opendpu_arch.target import Target

FOLDER = ".vai"
"""Where analyses, searches and specifications are, below the current folder."""
DIVISIBLE = 2
"""What numbers of channels are divisible by."""

Excludes = Iterable[str | nn.Module] | None


class PruningRunner:
    """What both methods share."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        *,
        objective: str = "macs",
        target: "Target | str | None" = None,
    ) -> None:
        from opendpu.optimize import Pruner

        self._model, self._inputs = model, inputs
        self._objective, self._target = objective, target
        self._made: dict[tuple[str, ...], Pruner] = {}
        self._pruner()

    def _pruner(self, excludes: Excludes = None, divisible: int = 1) -> "Pruner":
        """Return the engine for some excludes; tracing is done once for each."""
        from opendpu.optimize import Pruner
        from opendpu.optimize.groups import excluded_paths

        paths: tuple[str, ...] = ()
        if excludes is not None:
            paths = tuple(sorted(excluded_paths(self._model, excludes)))
        if paths not in self._made:
            self._made[paths] = Pruner(
                self._model, self._inputs, objective=self._objective, target=self._target,
                excludes=paths,
            )  # fmt: skip
        found = self._made[paths]
        found.divisible = whole("channel_divisible", divisible)
        return found

    def _path(self, suffix: str, ratio: float | None = None) -> pathlib.Path:
        name = type(self._model).__name__
        middle = "" if ratio is None else f"_ratio_{ratio:g}"
        return pathlib.Path(FOLDER) / f"{name}{middle}.{suffix}"

    def _remember(self, name: str, path: pathlib.Path) -> None:
        outputs.write(pathlib.Path(FOLDER) / name, path.as_posix() + "\n")
