# SPDX-License-Identifier: Apache-2.0
"""A network that can be pruned: its groups, what it costs, and what choices make of it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import nn

from opendpu.optimize.equivalence import tried
from opendpu.optimize.groups import analyze, check_module, excluded_paths
from opendpu.optimize.halving import Candidates, halved, source_of
from opendpu.optimize.importance import least_important
from opendpu.optimize.layers import Widths, widths_of
from opendpu.optimize.objective import OBJECTIVES, objective_of
from opendpu.optimize.search import Subnets, search
from opendpu.optimize.sensitivity import fingerprint, sensitivity
from opendpu.optimize.sparse import slim_network, sparse_network, unmasked
from opendpu.pruning.allocate import allocate, tolerated
from opendpu.pruning.analysis import STEPS, Analysis
from opendpu.pruning.arguments import one_of
from opendpu.pruning.candidates import candidates
from opendpu.pruning.objective import Objective
from opendpu.pruning.plan import Plan
from opendpu.pruning.score import Evaluate
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

MODES = ("sparse", "slim")
"""What pruning returns: the network with zeros, or without them."""


def _nowhere(text: str) -> None:
    """Show nothing of what is going on."""


class Pruner:
    """A network whose channels can be cut; it stays as it is.

    Parameters
    ----------
    model
        The network. What is chosen depends on its parameters at the time of choosing.
    inputs
        What it is called with: a tensor, or a list, tuple or dictionary of arguments.
    objective
        What there is to be less of: ``macs``, ``params`` or ``cycles``.
    target
        The DPU whose cycles are meant, and whose blocks numbers of channels are rounded to.
    excludes
        Modules, or their paths, whose output channels stay.
    divisible
        What numbers of channels are divisible by, as far as groups have that many.

    Raises
    ------
    UnsupportedError
        The network cannot be traced or is in a ``DataParallel``, or nothing of it can be pruned.
    """

    def __init__(
        self,
        model: nn.Module,
        inputs: Any,
        *,
        objective: str = "macs",
        target: Target | str | None = None,
        excludes: Iterable[str | nn.Module] | None = None,
        divisible: int = 1,
    ) -> None:
        check_module(model)
        one_of("objective", objective, OBJECTIVES)
        self.model, self.inputs = model, inputs
        self.target = Target.from_name(target) if isinstance(target, str) else target
        self.divisible = divisible
        paths = excluded_paths(model, excludes)
        bare = unmasked(model)
        self.dependencies = tried(bare, inputs, analyze(bare, inputs, paths))
        self.fingerprint = fingerprint(model)
        self._wanted = objective
        self._objective: Objective | None = None

    @property
    def objective(self) -> Objective:
        """What there is to be less of; made when it is needed first."""
        if self._objective is None:
            self.need_groups()
            self._objective = objective_of(
                self._wanted, unmasked(self.model), self.inputs, self.dependencies, self.target
            )
        return self._objective

    def share(self, other: "Pruner") -> None:
        """Count costs with what another pruner of the same network has measured already."""
        self._objective = other.objective

    def need_groups(self) -> None:
        """Refuse to go on where there is nothing to prune.

        Raises
        ------
        UnsupportedError
            No layer has channels that can be cut.
        """
        self.dependencies.need_groups(type(self.model).__name__)

    def analyze(
        self,
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
        save: Callable[[Analysis], None] = lambda found: None,
        save_every: int = 10,
        show: Callable[[str], None] = _nowhere,
    ) -> Analysis:
        """Return what pruning single groups costs, see :func:`sensitivity`."""
        self.need_groups()
        return sensitivity(
            self.model, self.dependencies, evaluate, args, tune=tune, tune_args=tune_args,
            analysis=analysis, steps=steps, workers=workers, ray=ray, seed=seed, save=save,
            save_every=save_every, show=show,
        )  # fmt: skip

    def search(self, ratio: float, **options: Any) -> Subnets:
        """Return networks of one cost with their scores, see :func:`opendpu.optimize.search`."""
        self.need_groups()
        return search(
            self.model, self.dependencies, self.objective, ratio, divisible=self.divisible,
            target=self.target, **options,
        )  # fmt: skip

    def plan(
        self,
        analysis: Analysis,
        ratio: float | None = None,
        *,
        threshold: float | None = None,
        show: Callable[[str], None] = _nowhere,
    ) -> Plan:
        """Return what to cut for a ratio of the cost, or for a part of the score.

        The ratio wins over the threshold.

        Raises
        ------
        UnsupportedError
            Neither is given, or one is out of range.
        """
        self.need_groups()
        analysis.check(self.dependencies)
        if ratio is not None:
            widths = allocate(
                self.dependencies, analysis, self.objective, ratio, divisible=self.divisible,
                target=self.target, show=show,
            )  # fmt: skip
        elif threshold is not None:
            widths = tolerated(
                self.dependencies, analysis, threshold, divisible=self.divisible,
                target=self.target,
            )  # fmt: skip
        else:
            raise UnsupportedError(
                "say how much is to be pruned: removal_ratio, threshold or spec_path",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        return self.plan_of(widths, ratio)

    def choose(
        self,
        analysis: Analysis,
        ratio: float,
        evaluate: Evaluate,
        args: Sequence[Any] = (),
        *,
        tune: Callable[..., Any],
        tune_args: Sequence[Any] = (),
        count: int = 8,
        seed: int = 0,
        known: Candidates | None = None,
        show: Callable[[str], None] = _nowhere,
        **options: Any,
    ) -> Candidates:
        """Return candidates of one cost, of which training has shown the best.

        ``pruner.plan_of(found.widths[found.best], ratio)`` says what to cut.

        Parameters
        ----------
        ratio, count, seed
            As for :func:`opendpu.pruning.candidates.candidates`; one candidate is not trained.
        evaluate, args, tune, tune_args
            As for :func:`opendpu.optimize.halving.halved`, as are its other options.
        known
            What an earlier search knew; it goes on from there if that was for the same network,
            analysis, ratio and objective.

        Raises
        ------
        UnsupportedError
            The ratio is out of range, the analysis is of another network, or a function fails.
        """
        self.need_groups()
        analysis.check(self.dependencies)
        asked = (
            self._wanted, self.target and self.target.name, self.divisible, ratio, count, seed,
            analysis.baseline, analysis.scores,
        )  # fmt: skip
        source = source_of(unmasked(self.model), *asked)
        if known is None or known.source != source:
            widths = candidates(
                self.dependencies, analysis, self.objective, ratio, count=count,
                divisible=self.divisible, target=self.target, seed=seed, show=show,
            )  # fmt: skip
            known = Candidates(source, widths, [{} for _ in widths])
        return halved(
            self.model, self.dependencies, known, evaluate, args, tune=tune, tune_args=tune_args,
            seed=seed, show=show, **options,
        )  # fmt: skip

    def plan_of(self, widths: Widths, ratio: float | None = None) -> Plan:
        """Return what to cut, so that groups have these widths: what matters least by now."""
        removed = least_important(self.model, self.dependencies, widths)
        return Plan(self.fingerprint, removed, self.objective.name, ratio)

    def widths(self, plan: Plan) -> dict[str, int]:
        """Return how many units of each group a plan leaves."""
        return widths_of(self.dependencies, plan.removed)

    def apply(self, plan: Plan, mode: str = "sparse") -> nn.Module:
        """Return the network pruned.

        ``sparse`` keeps shapes and has zeros, which stay zero in training; it has a method
        ``slim_state_dict``. ``slim`` is without them.

        Raises
        ------
        UnsupportedError
            The mode is neither.
        ModelFormatError
            The plan is for another network.
        """
        one_of("mode", mode, MODES)
        plan.check(self.fingerprint, self.dependencies, "the pruning specification")
        make = sparse_network if mode == "sparse" else slim_network
        return make(self.model, self.dependencies, plan.removed)
