# SPDX-License-Identifier: Apache-2.0
"""The way of ``opendpu optimize``: train, analyze, then cut and train in rounds."""

import dataclasses
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from opendpu.ops.inference import reason_of
from opendpu.optimize.cycles import Cycles
from opendpu.optimize.halving import Candidates, source_of
from opendpu.optimize.kept import Kept
from opendpu.optimize.labelled import Labelled, Part
from opendpu.optimize.objective import objective_of
from opendpu.optimize.pruner import Pruner
from opendpu.optimize.sparse import slim_network
from opendpu.optimize.training import likelihood, score, train
from opendpu.pruning.analysis import Analysis
from opendpu.pruning.arguments import check_ratio, whole
from opendpu.pruning.plan import Plan
from opendpu_arch.errors import TensorError
from opendpu_arch.target import Target

SHORT = 0.2
"""Part of the learning rate with which candidates of an analysis are trained."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """How a network is optimized; ``ratio`` is the part of the objective that goes."""

    ratio: float
    objective: str = "cycles"
    target: Target
    rounds: int = 2
    epochs: int = 10
    """Of training before anything is cut; 0 for a network that is trained."""
    tune_epochs: int = 4
    """Of training after each round."""
    analysis_epochs: int = 0
    """Of short training of each candidate of the analysis."""
    candidates: int = 1
    """Choices of widths that are tried with training in each round; 1 for that of the analysis."""
    candidate_epochs: int = 1
    """Of training of each candidate at first; the better half is trained twice as long."""
    folder: pathlib.Path | None = None
    """Where the analysis and what is known of candidates are kept, to go on from there."""
    rate: float = 5e-3
    workers: int = 1
    ray: str | None = None
    seed: int = 0
    excludes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """A network on the way: before the first cut, or after a round."""

    name: str
    score: float
    macs: int
    params: int
    cycles: int
    utilization: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rounding:
    """What it costs to have numbers of channels that the target fills, at the same ratio."""

    cycles: int
    macs: int
    exact_cycles: int
    exact_macs: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimized:
    """The network without the channels, and how it came to be.

    ``widths`` are channels before and after by group; ``layers`` cycles before and after by layer
    of the DPU's program.
    """

    network: nn.Module
    settings: Settings
    steps: tuple[Step, ...]
    analysis: Analysis
    widths: dict[str, tuple[int, int]]
    kept: dict[str, str]
    layers: dict[str, tuple[float, float]]
    rounding: Rounding
    depthwise: tuple[str, ...]
    by_classes: bool
    tried: dict[str, Candidates] = dataclasses.field(default_factory=dict)
    """Candidates by the name of the round, where there were several."""


def optimize(
    model: nn.Module,
    data: Labelled,
    settings: Settings,
    show: Callable[[str], None] = lambda text: None,
) -> Optimized:
    """Train a network, cut channels in rounds with training behind each, and measure all of it.

    Scores are those of the test part, which neither training nor choosing sees.

    Raises
    ------
    UnsupportedError
        A setting is out of range, or the network cannot be traced or pruned.
    TensorError
        The network cannot be called with the samples.
    """
    check_ratio(settings.ratio, "ratio")
    whole("rounds", settings.rounds)
    whole("candidates", settings.candidates)
    whole("candidate_epochs", settings.candidate_epochs)
    inputs = data.train[0][:1]
    _try(model, inputs)
    train(
        model, data.train, epochs=settings.epochs, rate=settings.rate, seed=settings.seed, show=show
    )
    options: dict[str, Any] = {
        "objective": settings.objective, "target": settings.target, "excludes": settings.excludes,
    }  # fmt: skip
    first = Pruner(model, inputs, **options)
    kept = Kept(settings.folder, source_of(model, _asked(settings)))
    analysis = first.analyze(
        score, (data.choice,), tune=_tune if settings.analysis_epochs else None,
        tune_args=(data.train, settings), analysis=kept.analysis(first.fingerprint),
        workers=settings.workers, ray=settings.ray, seed=settings.seed, save=kept.save_analysis,
        show=show,
    )  # fmt: skip
    counted = _Counted(first)
    steps = [counted.step("unpruned", model, {}, data)]
    network, plan = model, Plan(first.fingerprint, {})
    tried: dict[str, Candidates] = {}
    for turn in range(1, settings.rounds + 1):
        ratio = settings.ratio * turn / settings.rounds
        pruner = Pruner(network, inputs, **options)
        pruner.share(first)
        name = f"{ratio:.0%} of {settings.objective}"
        if settings.candidates == 1:
            plan = pruner.plan(analysis, ratio, show=show)
        else:
            tried[name] = found = _tried(pruner, analysis, ratio, data, settings, kept, show)
            plan = pruner.plan_of(found.widths[found.best], ratio)
        network = train(
            pruner.apply(plan), data.train, epochs=settings.tune_epochs, rate=settings.rate / 2,
            seed=settings.seed, show=show,
        )  # fmt: skip
        widths = first.widths(plan)
        steps.append(counted.step(name, network, widths, data))
    slim = slim_network(model, first.dependencies, plan.removed)
    sparse: Any = network
    slim.load_state_dict(sparse.slim_state_dict())
    groups = first.dependencies.groups
    return Optimized(
        network=slim.eval(), settings=settings, steps=tuple(steps), analysis=analysis,
        widths={
            n: (g.channels, first.widths(plan)[n] * g.size) for n, g in groups.items()
        },
        kept=first.dependencies.kept,
        layers=counted.layers({}, first.widths(plan)),
        rounding=counted.rounding(analysis, first.widths(plan)),
        depthwise=tuple(n for n, g in groups.items() if g.depthwise),
        by_classes=data.is_classes, tried=tried,
    )  # fmt: skip


def _asked(settings: Settings) -> object:
    """Return what scores depend on: not how many processes find them, or where they are kept."""
    return dataclasses.replace(settings, workers=1, ray=None, folder=None, ratio=0.5, rounds=1)


def _tune(model: nn.Module, part: Part, settings: Settings) -> None:
    """Train a candidate of the analysis a little."""
    rate = settings.rate * SHORT
    train(model, part, epochs=settings.analysis_epochs, rate=rate, seed=settings.seed)


def _tune_longer(model: nn.Module, effort: int, part: Part, settings: Settings) -> None:
    """Train a candidate of a round: the fewer are left, the longer."""
    epochs = effort * settings.candidate_epochs
    train(model, part, epochs=epochs, rate=settings.rate / 2, seed=settings.seed)


def _tried(
    pruner: Pruner,
    analysis: Analysis,
    ratio: float,
    data: Labelled,
    settings: Settings,
    kept: Kept,
    show: Callable[[str], None],
) -> Candidates:
    """Return the candidates of a round, of which training has shown the best."""
    name = f"candidates_{ratio:g}"
    return pruner.choose(
        analysis, ratio, likelihood, (data.choice,), tune=_tune_longer,
        tune_args=(data.train, settings), count=settings.candidates, seed=settings.seed,
        known=kept.candidates(name), workers=settings.workers, ray=settings.ray,
        save=lambda known: kept.save_candidates(known, name), show=show,
    )  # fmt: skip


def _try(model: nn.Module, inputs: torch.Tensor) -> None:
    try:
        with torch.no_grad():
            model.eval()(inputs)
    except Exception as error:  # whatever the user's code raises
        reason = reason_of(error)
        raise TensorError(
            f"{type(model).__name__} cannot be called with a sample of shape "
            f"{tuple(inputs.shape)}: {reason}"
        ) from error


class _Counted:
    """Costs of a network at any widths, by all objectives."""

    def __init__(self, pruner: Pruner) -> None:
        self.pruner = pruner
        target = pruner.target
        assert target is not None

        def made(name: str) -> Any:
            if name == pruner.objective.name:
                return pruner.objective
            return objective_of(name, pruner.model, pruner.inputs, pruner.dependencies, target)

        self.macs, self.params = made("macs"), made("params")
        self.cycles: Cycles = made("cycles")

    def step(self, name: str, model: nn.Module, widths: dict[str, int], data: Labelled) -> Step:
        """Return what a network is and takes."""
        taken = self.cycles.measured(widths)
        return Step(
            name=name, score=score(model, data.test), macs=self.macs.exact(widths),
            params=self.params.exact(widths), cycles=taken.cycles, utilization=taken.utilization,
        )  # fmt: skip

    def layers(
        self, before: dict[str, int], after: dict[str, int]
    ) -> dict[str, tuple[float, float]]:
        """Return the cycles of each layer at two widths."""
        one, other = (self.cycles.measured(widths).by_layer for widths in (before, after))
        return {name: (one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}

    def rounding(self, analysis: Analysis, widths: dict[str, int]) -> Rounding:
        """Return what the same choice without rounding takes."""
        from opendpu.pruning.allocate import allocate

        exact = allocate(
            self.pruner.dependencies, analysis, self.macs,
            1 - self.macs.exact(widths) / self.macs.exact({}),
        )  # fmt: skip
        return Rounding(
            cycles=self.cycles.exact(widths), macs=self.macs.exact(widths),
            exact_cycles=self.cycles.exact(exact), exact_macs=self.macs.exact(exact),
        )  # fmt: skip


def removed_parts(found: Optimized) -> Sequence[tuple[str, int, int]]:
    """Return group, channels before and after, for those that changed."""
    return [(name, *sizes) for name, sizes in found.widths.items() if sizes[0] != sizes[1]]
