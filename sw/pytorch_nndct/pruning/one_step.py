# SPDX-License-Identifier: Apache-2.0
"""One-step pruning, with what it finds out in files below ``.vai``."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from opendpu.cli.progress import progress
from opendpu.pruning.arguments import calls, check_ratio, path_of
from pytorch_nndct.pruning.runner import DIVISIBLE, FOLDER, Excludes, PruningRunner

LATEST_SEARCH = "latest_search"
"""File that names the newest search."""


class OneStepPruningRunner(PruningRunner):
    """Prunes by trying many networks of the wanted size, with renewed batch normalizations.

    Parameters
    ----------
    model, inputs, objective, target
        As for :func:`pytorch_nndct.pruning.get_pruning_runner`.

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
        forced: bool = False,
        with_group_conv: bool = False,
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
        forced, with_group_conv
            Taken as AMD's; every search begins anew, and grouped convolutions are pruned, too.
        seed
            Of what is drawn.

        Raises
        ------
        UnsupportedError
            A function is missing or fails, or an argument is out of range.
        """
        calls(calibration_fn, calib_args, eval_fn, eval_args)
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

        if removal_ratio is not None:
            check_ratio(removal_ratio)
        info = None
        if pruning_info_path is not None:
            info = pathlib.Path(path_of("pruning_info_path", pruning_info_path))
        pruner = self._pruner()
        path = self._searched(removal_ratio)
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
