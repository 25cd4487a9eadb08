# SPDX-License-Identifier: Apache-2.0
"""One-step pruning: many networks of the same cost, the best of them by its score untrained.

How much of each group a candidate keeps is drawn at random for the first half of them; then
Optuna's tree-structured Parzen estimator looks near those that did well.
"""

import contextlib
import dataclasses
import logging
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from opendpu.optimize.adaptive import need_normalizations, renewed_statistics
from opendpu.optimize.evaluations import seeded_score
from opendpu.optimize.importance import least_important
from opendpu.optimize.sensitivity import fingerprint
from opendpu.optimize.sparse import slim_network
from opendpu.pruning import document
from opendpu.pruning.arguments import check_ratio, whole
from opendpu.pruning.objective import Objective, levels
from opendpu.pruning.plan import Plan
from opendpu.pruning.score import Evaluate, silent
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from opendpu_arch.target import Target

FORMAT = "opendpu subnets 1"
WIDEST, NARROWEST = 1.0, 0.05
"""Parts of a group that candidates keep."""
HALVINGS = 24
"""Steps of the search for what scales drawn parts so that the cost is met."""
REFINEMENTS = 4
"""How often an estimated cost is compared with the exact one."""
CLOSE = 0.01
"""How far from the wanted part a cost may be, where widths allow it."""


@dataclasses.dataclass(frozen=True)
class Subnets:
    """What a search found: networks of one cost, with their scores."""

    fingerprint: str
    objective: str
    ratio: float
    removed: list[dict[str, list[int]]]
    scores: list[float]
    costs: list[int]

    @property
    def best(self) -> int:
        """Index of the network with the highest score."""
        return max(range(len(self.scores)), key=lambda index: self.scores[index])

    def plan(self, index: int | None = None) -> Plan:
        """Return a network as a specification, by default the best.

        Raises
        ------
        UnsupportedError
            There is none with this index.
        """
        chosen = self.best if index is None else index
        if not isinstance(chosen, int) or not 0 <= chosen < len(self.scores):
            raise UnsupportedError(
                f"index is {index!r}, but subnets 0 to {len(self.scores) - 1} were found",
                code="OPTIMIZER_SUBNET_ERROR",
            )
        return Plan(
            self.fingerprint, self.removed[chosen], self.objective, self.ratio, self.scores[chosen]
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the networks, complete or not at all."""
        document.save(path, FORMAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], fingerprint: str) -> "Subnets":
        """Read what a search of the network with this fingerprint found.

        Raises
        ------
        ModelFormatError
            There is none, it is damaged, or it is of another network.
        """
        file = pathlib.Path(path)
        if not file.is_file():
            raise ModelFormatError(
                f"{file}: no such file; search for subnets of this ratio first (search)",
                code="OPTIMIZER_SUBNET_ERROR",
            )
        found = document.load(
            file, FORMAT, cls._parsed, "holds no subnets", "OPTIMIZER_SUBNET_ERROR"
        )
        if found.fingerprint != fingerprint:
            raise ModelFormatError(
                f"{file} holds subnets of another network: its layers or their groups differ; "
                "search again",
                code="OPTIMIZER_SUBNET_ERROR",
            )
        return found

    @classmethod
    def _parsed(cls, content: dict[str, Any]) -> "Subnets":
        found = cls(**content)
        if not len(found.removed) == len(found.scores) == len(found.costs) > 0:
            raise ValueError("it has no subnets, or some without a score")
        return found


def search(
    model: nn.Module,
    dependencies: Dependencies,
    objective: Objective,
    ratio: float,
    *,
    calibrate: Callable[..., Any],
    calibration_args: Sequence[Any] = (),
    evaluate: Evaluate,
    evaluation_args: Sequence[Any] = (),
    subnets: int = 10,
    divisible: int = 1,
    target: Target | None = None,
    seed: int = 0,
    save: Callable[[Subnets], None] = lambda found: None,
    show: Callable[[str], None] = lambda text: None,
) -> Subnets:
    """Return networks that cost ``1 - ratio`` of the whole one, with their scores.

    Parameters
    ----------
    calibrate, calibration_args
        ``calibrate(network, *args)`` runs the network in training mode, so that its batch
        normalizations find their statistics.
    evaluate, evaluation_args
        ``evaluate(network, *args)`` returns the score; the more the better.
    subnets
        How many networks are tried.
    divisible, target
        As for :func:`opendpu.pruning.allocate`.
    save
        Called with what is known after every tenth network, at the end, and when something goes
        wrong.

    Raises
    ------
    UnsupportedError
        The network has no batch normalization, an argument is out of range, or a function fails.
    """
    check_ratio(ratio)
    need_normalizations(model)
    whole("num_subnet", subnets)
    whole("seed", seed, 0)
    budget = _Budget(dependencies, objective, ratio, divisible, target)
    found = Subnets(fingerprint(model), objective.name, ratio, [], [], [])
    try:
        with _sampler(dependencies, subnets, seed) as study:
            for number in range(subnets):
                trial, parts = study.ask()
                widths = budget.fit(parts)
                removed = least_important(model, dependencies, widths)
                network = slim_network(model, dependencies, removed)
                with renewed_statistics(network):
                    seeded_score(network, silent(calibrate), calibration_args, seed)
                score = seeded_score(network, evaluate, evaluation_args, seed)
                study.tell(trial, score)
                found.removed.append(removed)
                found.scores.append(score)
                found.costs.append(objective.exact(widths))
                show(f"searching: {number + 1} of {subnets} subnets, best {max(found.scores):.4g}")
                if number % 10 == 9:
                    save(found)
    finally:
        if found.scores:
            save(found)
    return found


class _Budget:
    """Widths of one cost."""

    def __init__(
        self,
        dependencies: Dependencies,
        objective: Objective,
        ratio: float,
        divisible: int,
        target: Target | None,
    ) -> None:
        self.groups = dependencies.groups
        self.objective, self.divisible, self.target = objective, divisible, target
        whole = {name: group.units for name, group in self.groups.items()}
        self.limit = objective.exact(whole) * (1 - ratio)
        least = objective.exact(self.widths(dict.fromkeys(self.groups, 0.0), 0.0))
        if least > self.limit:
            raise UnsupportedError(
                f"{ratio:g} of the {objective.name} cannot go: with every group as narrow as it "
                f"can be {1 - least / objective.exact(whole):.3f} of them do",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )

    def widths(self, parts: Mapping[str, float], scale: float) -> dict[str, int]:
        """Return widths for parts that are kept, all of them wider or narrower by a scale."""
        return {
            name: levels(group, [min(parts[name] * scale, 1.0)], self.divisible, self.target)[0]
            for name, group in self.groups.items()
        }

    def fit(self, parts: Mapping[str, float]) -> dict[str, int]:
        """Return the widest widths in these proportions that cost no more than allowed."""
        limit = self.limit
        widths = self._largest(parts, limit)
        for _ in range(REFINEMENTS):
            exact = self.objective.exact(widths)
            if exact <= self.limit * (1 + CLOSE):
                return widths
            limit *= self.limit / exact
            widths = self._largest(parts, limit)
        return widths

    def _largest(self, parts: Mapping[str, float], limit: float) -> dict[str, int]:
        low, high = 0.0, WIDEST / NARROWEST
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self.objective.cost(self.widths(parts, middle)) <= limit:
                low = middle
            else:
                high = middle
        return self.widths(parts, low)


class _Study:
    """Parts of groups, asked of Optuna."""

    def __init__(self, study: Any, names: Sequence[str]) -> None:
        self.study, self.names = study, names

    def ask(self) -> tuple[Any, dict[str, float]]:
        """Return a trial and the part of each group that it keeps, before scaling."""
        trial = self.study.ask()
        return trial, {name: trial.suggest_float(name, NARROWEST, WIDEST) for name in self.names}

    def tell(self, trial: Any, score: float) -> None:
        """Say how good a trial was."""
        self.study.tell(trial, score)


@contextlib.contextmanager
def _sampler(dependencies: Dependencies, subnets: int, seed: int) -> Iterator[_Study]:
    """Yield the searcher; it prints nothing."""
    import optuna

    logger = logging.getLogger("optuna")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(subnets // 2, 1))
            study = optuna.create_study(direction="maximize", sampler=sampler)
            yield _Study(study, list(dependencies.groups))
    finally:
        logger.setLevel(before)
