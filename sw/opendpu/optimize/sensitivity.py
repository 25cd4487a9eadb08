# SPDX-License-Identifier: Apache-2.0
"""What pruning single groups costs: the score of the network with parts of one group at zero.

Evaluations are independent of each other, so several processes can share them, and what has been
evaluated is kept in a file, so that an analysis goes on where it was interrupted.

Channels that every layer reads, those of a residual stream above all, look dear where nothing is
trained behind the cut, and often are not: a few steps of training give back most of it. Short-term
fine-tuning of every candidate (Yang et al., *NetAdapt*, 2018, arXiv:1804.03230) tells them apart.
"""

import copy
import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from opendpu.optimize.evaluations import evaluated, seeded_score
from opendpu.optimize.importance import least_important
from opendpu.optimize.sparse import slim_network
from opendpu.optimize.surgery import zero
from opendpu.pruning.analysis import STEPS, Analysis, Task
from opendpu.pruning.arguments import whole
from opendpu.pruning.score import Evaluate, silent
from opendpu.pruning.structure import Dependencies


def fingerprint(model: nn.Module) -> str:
    """Return what tells a network from others: names and shapes of its parameters."""
    digest = hashlib.sha256()
    for name, value in model.named_parameters():
        digest.update(f"{name} {tuple(value.shape)}\n".encode())
    return digest.hexdigest()[:16]


def sensitivity(
    model: nn.Module,
    dependencies: Dependencies,
    evaluate: Evaluate,
    args: Sequence[Any] = (),
    *,
    tune: Callable[..., Any] | None = None,
    tune_args: Sequence[Any] = (),
    analysis: Analysis | None = None,
    steps: int = STEPS,
    workers: int = 1,
    ray: str | None = None,
    seed: int = 0,
    save: Callable[[Analysis], None] = lambda analysis: None,
    save_every: int = 10,
    show: Callable[[str], None] = lambda text: None,
) -> Analysis:
    """Return the scores of a network with parts of each group at zero.

    Parameters
    ----------
    evaluate, args
        ``evaluate(network, *args)`` returns the score; the more the better. It gets a copy.
    tune, tune_args
        ``tune(network, *tune_args)`` trains each candidate a little, in place, before it is
        evaluated. Candidates are without their channels then, and the whole network is trained
        alike, so that losses are those of the channels.
    analysis
        What is known already; of the same network.
    steps
        A group is tried with ``1 / steps`` to ``1 - 1 / steps`` of it removed.
    workers
        Processes; they have the same result as one, as each evaluation starts from ``seed``.
    ray
        Address of a Ray cluster that evaluates instead; the result is the same.
    save
        Called with what is known every ``save_every`` evaluations, at the end, and when something
        goes wrong.

    Raises
    ------
    UnsupportedError
        ``evaluate`` fails or returns no number, or ``tune`` fails.
    ToolError
        Ray is missing, or there is no such cluster.
    """
    whole("seed", seed, 0)
    known = analysis or Analysis(fingerprint(model))
    wanted: list[Task | None] = [] if known.baseline is not None else [None]
    wanted += known.unknown(dependencies, steps)
    total, done = len(wanted), 0
    try:
        work = _Work(
            model, dependencies, evaluate, tuple(args), seed, tune, tuple(tune_args)
        )  # fmt: skip
        for task, score in evaluated(work, wanted, workers, ray):
            if task is None:
                known.baseline = score
            else:
                known.scores.setdefault(task[0], {})[task[1]] = score
            done += 1
            show(f"analyzing: {done} of {total} evaluations")
            if done % save_every == 0:
                save(known)
    finally:
        save(known)
    return known


@dataclasses.dataclass(frozen=True)
class _Work:
    """What every evaluation needs."""

    model: nn.Module
    dependencies: Dependencies
    evaluate: Evaluate
    args: tuple[Any, ...]
    seed: int
    tune: Callable[..., Any] | None = None
    tune_args: tuple[Any, ...] = ()

    def score(self, task: Task | None) -> float:
        """Return the score of the network with what a task says at zero, or cut and tuned."""
        widths = {}
        if task is not None:
            name, count = task
            widths = {name: self.dependencies.groups[name].units - count}
        removed = least_important(self.model, self.dependencies, widths)
        if self.tune is None:
            network = copy.deepcopy(self.model)
            zero(network, self.dependencies, removed)
        else:
            network = slim_network(self.model, self.dependencies, removed)
            seeded_score(network, silent(self.tune), self.tune_args, self.seed)
        return seeded_score(network, self.evaluate, self.args, self.seed)
