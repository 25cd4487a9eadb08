# SPDX-License-Identifier: Apache-2.0
"""Iterative and one-step pruning, with what they find out in files below ``.vai``."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from opendpu.cli.progress import progress
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError

if TYPE_CHECKING:
    from opendpu.optimize import Analysis, Plan, Pruner
    from opendpu_arch.target import Target

FOLDER = ".vai"
"""Where analyses, searches and specifications are, below the current folder."""
LATEST_SPEC, LATEST_SEARCH = "latest_spec", "latest_search"
"""Files that name the newest specification and search."""
DIVISIBLE = 2
"""What numbers of channels are divisible by."""
METHODS = ("iterative", "one_step")

Excludes = Iterable[str | nn.Module] | None


def get_pruning_runner(
    model: nn.Module,
    inputs: Any,
    method: str,
    *,
    objective: str = "macs",
    target: "Target | str | None" = None,
) -> "IterativePruningRunner | OneStepPruningRunner":
    """Return what prunes a network by a method.

    Parameters
    ----------
    model
        The network; for a second round of iterative pruning what the first one returned, trained.
    inputs
        A tensor or several, of the shape and type of real data; values do not matter.
    method
        ``iterative`` or ``one_step``.
    objective, target
        What ratios are of, ``macs``, ``params`` or ``cycles``, and of which DPU; AMD's has MACs.

    Raises
    ------
    UnsupportedError
        The method is neither, or the network cannot be pruned by it.
    """
    if method not in METHODS:
        raise UnsupportedError(
            f"method is {method!r}, but must be 'iterative' or 'one_step'",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    runner = IterativePruningRunner if method == "iterative" else OneStepPruningRunner
    return runner(model, inputs, objective=objective, target=target)


class _Runner:
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
        if excludes:
            paths = tuple(sorted(excluded_paths(self._model, excludes)))
        if paths not in self._made:
            self._made[paths] = Pruner(
                self._model, self._inputs, objective=self._objective, target=self._target,
                excludes=paths,
            )  # fmt: skip
        found = self._made[paths]
        if not isinstance(divisible, int) or divisible < 1:
            raise UnsupportedError(
                f"channel_divisible is {divisible!r}, but must be at least 1",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        found.divisible = divisible
        return found

    def _path(self, suffix: str, ratio: float | None = None) -> pathlib.Path:
        name = type(self._model).__name__
        middle = "" if ratio is None else f"_ratio_{ratio:g}"
        return pathlib.Path(FOLDER) / f"{name}{middle}.{suffix}"

    def _remember(self, name: str, path: pathlib.Path) -> None:
        outputs.write(pathlib.Path(FOLDER) / name, path.as_posix() + "\n")


class IterativePruningRunner(_Runner):
    """Prunes by an analysis of single groups, a little more each time, with training between.

    Parameters
    ----------
    model, inputs, objective, target
        As for :func:`get_pruning_runner`.
    """

    def ana(
        self,
        eval_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        gpus: Sequence[Any] | None = None,
        excludes: Excludes = None,
        forced: bool = False,
        *,
        workers: int = 1,
        ray: str | None = None,
        seed: int = 0,
    ) -> None:
        """Find out what pruning single groups costs, and write it to ``.vai/<Network>.sens``.

        What the file has already is not evaluated again, so an analysis that was interrupted goes
        on.

        Parameters
        ----------
        eval_fn, args
            ``eval_fn(network, *args)`` returns the score; the more the better.
        gpus
            Taken as AMD's; the network is evaluated where it is.
        excludes
            Modules, or their names, whose channels stay.
        forced
            Evaluate everything again.
        workers
            Processes that share the evaluations.
        ray
            Address of a Ray cluster that evaluates instead, ``local`` for one of its own.
        seed
            Each evaluation starts from it.

        Raises
        ------
        UnsupportedError
            The function fails or returns no number, or nothing can be pruned.
        ModelFormatError
            The file is of another network.
        ToolError
            Ray is missing, or there is no such cluster.
        """
        from opendpu.optimize import Analysis

        pruner = self._pruner(excludes)
        path = self._path("sens")
        known = None
        if path.is_file() and not forced:
            known = Analysis.load(path, pruner.fingerprint)
        with progress("analyzing") as show:
            pruner.analyze(
                eval_fn, args, analysis=known, workers=workers, ray=ray, seed=seed,
                save=lambda found: found.save(path), show=show,
            )  # fmt: skip

    def prune(
        self,
        removal_ratio: float | None = None,
        threshold: float | None = None,
        spec_path: str | pathlib.Path | None = None,
        excludes: Excludes = None,
        mode: str = "sparse",
        pruning_info_path: str | pathlib.Path | None = None,
        channel_divisible: int = DIVISIBLE,
        ratio: float | None = None,
    ) -> nn.Module:
        """Return the network pruned; what was cut is written to ``.vai/<Network>_ratio_<r>.spec``.

        Parameters
        ----------
        removal_ratio
            The part of the MACs (or of the objective) that goes, of the unpruned network. Wins.
            What one-step pruning chose for it is taken where nothing was analyzed.
        threshold
            The part of the score that pruning a group alone may cost.
        spec_path
            A specification to follow.
        excludes
            Modules, or their names, whose channels stay; at least those of the analysis.
        mode
            ``sparse`` keeps shapes and has zeros, which stay zero in training; such a network has a
            method ``slim_state_dict``. ``slim`` is without them.
        pruning_info_path
            Where the specification is written, too.
        channel_divisible
            What numbers of channels are divisible by.
        ratio
            Another name of ``removal_ratio``, which AMD's examples have.

        Raises
        ------
        UnsupportedError
            An argument is out of range, or none says how much.
        ModelFormatError
            There is no analysis, or it or the specification is of another network.
        """
        from opendpu.optimize import Analysis, Plan
        from opendpu.pruning.allocate import check_ratio

        wanted = removal_ratio if removal_ratio is not None else ratio
        if wanted is not None:
            check_ratio(wanted)
        pruner = self._pruner(excludes, channel_divisible)
        path = self._path("spec", wanted if wanted is not None else threshold)
        given = wanted is None and threshold is None and spec_path is not None
        if given:
            path = pathlib.Path(str(spec_path))
        if given or (path.is_file() and not self._path("sens").is_file()):
            plan = Plan.load(path)
            plan.check(pruner.fingerprint, pruner.dependencies, str(path))
        else:
            analysis = Analysis.load(self._path("sens"), pruner.fingerprint)
            plan = self._chosen(pruner, analysis, path, wanted, threshold)
            plan.save(path)
        made = pruner.apply(plan, mode)
        pathlib.Path(FOLDER).mkdir(exist_ok=True)
        self._remember(LATEST_SPEC, path)
        if pruning_info_path is not None:
            plan.save(pruning_info_path)
        return made

    def _chosen(
        self,
        pruner: "Pruner",
        analysis: "Analysis",
        path: pathlib.Path,
        ratio: float | None,
        threshold: float | None,
    ) -> "Plan":
        """Return what to cut: widths as the last time for the same question, channels as of now."""
        from dataclasses import asdict, replace

        from opendpu.optimize import Plan

        question = (
            asdict(analysis), ratio, threshold, pruner.divisible, self._objective,
            str(pruner.target), sorted(pruner.dependencies.groups),
        )  # fmt: skip
        source = hashlib.sha256(json.dumps(question, default=str).encode()).hexdigest()[:16]
        if path.is_file():
            try:
                known = Plan.load(path)
            except ModelFormatError:
                known = None
            if known is not None and known.source == source:
                plan = pruner.plan_of(pruner.widths(known), ratio)
                return replace(plan, source=source)
        with progress("choosing widths") as show:
            plan = pruner.plan(analysis, ratio, threshold=threshold, show=show)
        return replace(plan, source=source)


class OneStepPruningRunner(_Runner):
    """Prunes by trying many networks of the wanted size, with renewed batch normalizations.

    Parameters
    ----------
    model, inputs, objective, target
        As for :func:`get_pruning_runner`.

    Raises
    ------
    UnsupportedError
        The network has no batch normalization, or cannot be traced.
    """

    def __init__(self, model: nn.Module, inputs: Any, **options: Any) -> None:
        super().__init__(model, inputs, **options)
        from opendpu.optimize.adaptive import need_normalizations

        need_normalizations(model)

    def search(
        self,
        gpus: Sequence[Any] = ("0",),
        calibration_fn: Callable[..., Any] | None = None,
        calib_args: Sequence[Any] = (),
        num_subnet: int = 10,
        removal_ratio: float = 0.5,
        excludes: Excludes = (),
        eval_fn: Callable[..., Any] | None = None,
        eval_args: Sequence[Any] = (),
        channel_divisible: int = DIVISIBLE,
        *,
        seed: int = 0,
    ) -> int:
        """Try networks; return the index of the best.

        They are written to ``.vai/<Network>_ratio_<r>.search``.

        Parameters
        ----------
        gpus
            Taken as AMD's; networks are evaluated where the given one is.
        calibration_fn, calib_args
            ``calibration_fn(network, *args)`` runs the network in training mode.
        num_subnet
            How many networks are tried.
        removal_ratio
            The part of the MACs (or of the objective) that goes.
        excludes
            Modules, or their names, whose channels stay.
        eval_fn, eval_args
            ``eval_fn(network, *args)`` returns the score; the more the better.
        channel_divisible
            What numbers of channels are divisible by.
        seed
            Of what is drawn.

        Raises
        ------
        UnsupportedError
            A function is missing or fails, or an argument is out of range.
        """
        for name, function in (("calibration_fn", calibration_fn), ("eval_fn", eval_fn)):
            if not callable(function):
                raise UnsupportedError(
                    f"{name} is {function!r}, but must be a function that takes the network first",
                    code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
                )
        from opendpu.pruning.allocate import check_ratio

        check_ratio(removal_ratio)
        pruner = self._pruner(excludes, channel_divisible)
        path = self._path("search", removal_ratio)
        with progress("searching") as show:
            found = pruner.search(
                removal_ratio, calibrate=calibration_fn, calibration_args=calib_args,
                evaluate=eval_fn, evaluation_args=eval_args, subnets=num_subnet, seed=seed,
                save=lambda subnets: subnets.save(path), show=show,
            )  # fmt: skip
        self._remember(LATEST_SEARCH, path)
        return found.best

    def prune(
        self,
        mode: str = "slim",
        index: int | None = None,
        removal_ratio: float | None = None,
        pruning_info_path: str | pathlib.Path | None = None,
        channel_divisible: int = DIVISIBLE,
    ) -> nn.Module:
        """Return one of the networks that were found; it is written to ``.vai/…_ratio_<r>.spec``.

        Parameters
        ----------
        mode
            ``slim``, or ``sparse`` with zeros where channels were.
        index
            Which network; by default the one with the highest score.
        removal_ratio
            Of which search; by default the newest.
        pruning_info_path
            Where the choice is written as a specification; if nothing was searched for, it is read
            there.
        channel_divisible
            Taken as AMD's; widths were chosen by the search.

        Raises
        ------
        UnsupportedError
            There is no such index.
        ModelFormatError
            Nothing was searched for with this ratio, or it is of another network.
        """
        from opendpu.optimize import Plan, Subnets

        pruner = self._pruner()
        path = self._searched(removal_ratio)
        info = None if pruning_info_path is None else pathlib.Path(pruning_info_path)
        if info is not None and info.is_file() and not path.is_file():
            plan = Plan.load(info)
        else:
            found = Subnets.load(path, pruner.fingerprint)
            plan = found.plan(index)
            plan.save(self._path("spec", found.ratio))
            if info is not None:
                plan.save(info)
        return pruner.apply(plan, mode)

    def _searched(self, ratio: float | None) -> pathlib.Path:
        if ratio is not None:
            return self._path("search", ratio)
        latest = pathlib.Path(FOLDER) / LATEST_SEARCH
        if latest.is_file():
            return pathlib.Path(latest.read_text(encoding="utf-8").strip())
        return self._path("search")
