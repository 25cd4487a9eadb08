# SPDX-License-Identifier: Apache-2.0
"""Iterative pruning, with what it finds out in files below ``.vai``."""

import hashlib
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from opendpu.cli.progress import progress
from opendpu.pruning.arguments import (
    arguments,
    check_ratio,
    check_threshold,
    function,
    path_of,
    whole,
)
from opendpu_arch.errors import ModelFormatError
from pytorch_nndct.pruning.runner import DIVISIBLE, FOLDER, Excludes, PruningRunner

if TYPE_CHECKING:
    from opendpu.optimize import Analysis, Plan, Pruner

LATEST_SPEC = "latest_spec"
"""File that names the newest specification."""


class IterativePruningRunner(PruningRunner):
    """Prunes by an analysis of single groups, a little more each time, with training between.

    Parameters
    ----------
    model, inputs, objective, target
        As for :func:`pytorch_nndct.pruning.get_pruning_runner`.
    """

    def ana(
        self,
        eval_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        gpus: Sequence[Any] | None = None,
        excludes: Excludes = None,
        forced: bool = False,
        with_group_conv: bool = False,
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
        with_group_conv
            Taken as AMD's; grouped convolutions are pruned in any case.
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

        function("eval_fn", eval_fn)
        arguments("args", args)
        whole("workers", workers)
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

        wanted = removal_ratio if removal_ratio is not None else ratio
        if wanted is not None:
            check_ratio(wanted)
        elif threshold is not None:
            check_threshold(threshold)
        for name, file in (("spec_path", spec_path), ("pruning_info_path", pruning_info_path)):
            if file is not None:
                path_of(name, file)
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
