# SPDX-License-Identifier: Apache-2.0
"""Which of several choices of widths is best: all trained a little, the better half further.

Successive halving (Jamieson and Talwalkar, *Non-stochastic Best Arm Identification and
Hyperparameter Optimization*, 2016, arXiv:1502.07943). Training goes from the pruned weights each
time, with twice the effort of the round before, so that a learning rate's schedule is whole, an
evaluation depends on nothing but its choice, and what is known is a few numbers in a file.
"""

import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from opendpu.optimize.evaluations import evaluated, seeded_score
from opendpu.optimize.importance import least_important
from opendpu.optimize.sparse import slim_network
from opendpu.pruning import document
from opendpu.pruning.arguments import whole
from opendpu.pruning.score import Evaluate, silent
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import ModelFormatError

FORMAT = "opendpu candidates 1"

Task = tuple[int, int]
"""Index of a candidate, and the effort that it is trained with."""


@dataclasses.dataclass
class Candidates:
    """Choices of widths with the scores that they had after training.

    Parameters
    ----------
    source
        Digest of the network's state and of what the choices were made for.
    widths
        Units that stay, by group.
    scores
        By candidate, then by effort: one, two, four and so on times a short training.
    """

    source: str
    widths: list[dict[str, int]]
    scores: list[dict[int, float]]

    @property
    def best(self) -> int:
        """Index of the candidate that won: the best of those that were trained longest."""
        longest = max((effort for known in self.scores for effort in known), default=0)
        scored = {i: known[longest] for i, known in enumerate(self.scores) if longest in known}
        return max(scored, key=lambda index: (scored[index], -index), default=0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them, complete or not at all."""
        document.save(path, FORMAT, self, indent=1)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Candidates":
        """Read what an earlier search knew.

        Raises
        ------
        ModelFormatError
            There is none, or it is damaged.
        """
        file = pathlib.Path(path)
        fault, code = "holds no candidates", "OPTIMIZER_SUBNET_ERROR"
        try:
            return document.load(file, FORMAT, cls._parsed, fault, code)
        except OSError as error:
            raise ModelFormatError(
                f"{file} cannot be read: {error.strerror}", code="OPTIMIZER_IO_ERROR"
            ) from None

    @classmethod
    def _parsed(cls, content: dict[str, Any]) -> "Candidates":
        widths = [{str(n): int(w) for n, w in one.items()} for one in content["widths"]]
        scores = [{int(e): float(s) for e, s in one.items()} for one in content["scores"]]
        if len(widths) != len(scores) or not widths:
            raise ValueError("it has no candidates, or some without scores")
        return cls(str(content["source"]), widths, scores)


def source_of(model: nn.Module, *others: object) -> str:
    """Return a digest of a network's state and of what else candidates depend on."""
    digest = hashlib.sha256(repr(others).encode())
    for name, value in model.state_dict().items():
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        digest.update(value.detach().cpu().contiguous().flatten().double().numpy().tobytes())
    return digest.hexdigest()[:16]


def halved(
    model: nn.Module,
    dependencies: Dependencies,
    known: Candidates,
    evaluate: Evaluate,
    args: Sequence[Any] = (),
    *,
    tune: Callable[..., Any],
    tune_args: Sequence[Any] = (),
    workers: int = 1,
    ray: str | None = None,
    seed: int = 0,
    save: Callable[[Candidates], None] = lambda found: None,
    show: Callable[[str], None] = lambda text: None,
) -> Candidates:
    """Score candidates in rounds, of which each keeps the better half, until one is left.

    Parameters
    ----------
    model
        The network before the cut; it stays as it is.
    known
        The candidates, with scores that need not be found again; it is completed in place.
    evaluate, args
        ``evaluate(network, *args)`` returns the score; the more the better.
    tune, tune_args
        ``tune(network, effort, *tune_args)`` trains a network in place: ``effort`` times what is
        a short training, 1 in the first round, twice as much in each that follows.
    workers, ray
        Processes, or the address of a Ray cluster, that share the evaluations; the result does not
        depend on them.
    save
        Called with what is known after each evaluation.

    Raises
    ------
    UnsupportedError
        A function fails, or ``evaluate`` returns no number.
    ToolError
        Ray is missing, or there is no such cluster.
    """
    whole("seed", seed, 0)
    work = _Work(
        model,
        dependencies,
        tuple(known.widths),
        evaluate,
        tuple(args),
        tune,
        tuple(tune_args),
        seed,
    )
    left, effort = list(range(len(known.widths))), 1
    while len(left) > 1:
        wanted = [(index, effort) for index in left if effort not in known.scores[index]]
        done = len(left) - len(wanted)
        for (index, _), score in evaluated(work, wanted, workers, ray):
            known.scores[index][effort] = score
            done += 1
            save(known)
            show(f"trying candidates: {done} of {len(left)}, trained {effort} times as long")
        ranked = sorted(left, key=lambda index: (-known.scores[index][effort], index))
        left, effort = ranked[: len(left) // 2], effort * 2
    return known


@dataclasses.dataclass(frozen=True)
class _Work:
    """What every evaluation needs."""

    model: nn.Module
    dependencies: Dependencies
    widths: tuple[dict[str, int], ...]
    evaluate: Evaluate
    args: tuple[Any, ...]
    tune: Callable[..., Any]
    tune_args: tuple[Any, ...]
    seed: int

    def score(self, task: Task) -> float:
        """Return the score of a candidate after its training."""
        index, effort = task
        removed = least_important(self.model, self.dependencies, self.widths[index])
        network = slim_network(self.model, self.dependencies, removed)
        seeded_score(network, silent(self.tune), (effort, *self.tune_args), self.seed)
        return seeded_score(network, self.evaluate, self.args, self.seed)
