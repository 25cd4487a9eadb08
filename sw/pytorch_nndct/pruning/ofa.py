# SPDX-License-Identifier: Apache-2.0
"""Once-for-all pruning: a network with many in it, and the best of these by evolution."""

import copy
import json
import pathlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from opendpu.cli.progress import progress
from opendpu.pruning.arguments import calls, one_of, path_of, wrong
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError

if TYPE_CHECKING:
    from opendpu.optimize.supernet import Setting, Supernet

EXPAND_RATIO = (0.5, 0.75, 1)
"""The guide's default; elsewhere it has 0.1 in the place of 1, which would leave out the network
itself."""
SEARCH_SPACE = "searchspace.config"
MODES = ("random", "max", "min")
SANDWICH = ("max", "min", "random", "random")
"""Subnetworks of one training step."""
BEST = {"max": 1.0, "min": -1.0}


class OFAPruner:
    """Makes a once-for-all network of a network, and subnetworks of that.

    Parameters
    ----------
    model
        The network, trained; it is the teacher, and stays as it is.
    inputs
        A tensor or several, of the shape and type of real data; values do not matter.

    Raises
    ------
    UnsupportedError
        The network cannot be traced, or is in a ``DataParallel``.
    """

    def __init__(self, model: nn.Module, inputs: Any) -> None:
        from opendpu.optimize.groups import check_module

        check_module(model)
        self._model, self._inputs = model, inputs
        self._supernet: Supernet | None = None
        self._random = random.Random(random.getrandbits(64))

    def ofa_model(
        self,
        expand_ratio: Sequence[float] = EXPAND_RATIO,
        channel_divisible: int = 8,
        excludes: Iterable[str | nn.Module] | None = None,
        auto_add_excludes: bool = True,
        save_search_space: bool = False,
    ) -> nn.Module:
        """Return a once-for-all network: the given one, of whose channels parts can be used.

        Convolutions, transposed convolutions, normalizations and fully connected layers whose
        channels vary become dynamic ones, with the same parameters.

        Parameters
        ----------
        expand_ratio
            Parts of the channels that subnetworks have.
        channel_divisible
            What numbers of channels are divisible by.
        excludes
            Modules, or their names, whose output channels stay.
        auto_add_excludes
            Exclude the first and the last convolution.
        save_search_space
            Write what every layer can be to ``searchspace.config``.

        Raises
        ------
        UnsupportedError
            An argument is out of range, or no layer has a choice.
        """
        from opendpu.optimize.equivalence import tried
        from opendpu.optimize.groups import analyze, excluded_paths
        from opendpu.optimize.supernet import Supernet, ends_of

        paths = excluded_paths(self._model, excludes)
        if auto_add_excludes:
            paths += ends_of(self._model, self._inputs)
        found = tried(self._model, self._inputs, analyze(self._model, self._inputs, paths))
        made = Supernet(self._model, self._inputs, found, expand_ratio, channel_divisible)
        if save_search_space:
            outputs.write(SEARCH_SPACE, json.dumps(made.space.widths, indent=1) + "\n")
        self._supernet = made
        return copy.deepcopy(made.model)

    def sample_subnet(self, model: nn.Module, mode: str) -> tuple[nn.Module, "Setting"]:
        """Let a once-for-all network be one of its subnetworks; return it and the setting.

        Passes forward and backward use that part of the weights, until another is sampled.

        Parameters
        ----------
        model
            What :meth:`ofa_model` returned.
        mode
            ``random``, ``max`` or ``min``.

        Raises
        ------
        UnsupportedError
            The mode is none of these, or there is no once-for-all network yet.
        """
        one_of("mode", mode, MODES)
        space = self._made.space
        widths = space.random(self._random) if mode == "random" else space.extreme(mode == "max")
        self._made.activate(_inner(model), widths)
        return model, self._made.setting(widths)

    def sandwich(self, model: nn.Module) -> Iterator[nn.Module]:
        """Yield the four subnetworks of a training step: largest, smallest, two at random."""
        for mode in SANDWICH:
            yield self.sample_subnet(model, mode)[0]

    def reset_bn_running_stats_for_calibration(self, model: nn.Module) -> None:
        """Forget the statistics of batch normalizations; the next forward passes find them."""
        from opendpu.optimize.adaptive import reset_statistics
        from opendpu.optimize.groups import need_module

        need_module(model)
        reset_statistics(model)

    def run_evolutionary_search(
        self,
        model: nn.Module,
        calibration_fn: Callable[..., Any],
        calib_args: Sequence[Any],
        eval_fn: Callable[..., Any],
        eval_args: Sequence[Any],
        evaluation_metric: str,
        min_or_max_metric: str,
        min_macs: float | None = None,
        max_macs: float | None = None,
        macs_step: float = 10,
        parent_popu_size: int = 16,
        iteration: int = 10,
        mutate_size: int = 8,
        mutate_prob: float = 0.2,
        crossover_size: int = 4,
        *,
        min_mac: float | None = None,
        max_mac: float | None = None,
        seed: int = 0,
    ) -> dict[str, dict[str, Any]]:
        """Return the best subnetwork for each segment of MACs, by the segment's lower end.

        Parameters
        ----------
        model
            The once-for-all network, trained.
        calibration_fn, calib_args
            ``calibration_fn(subnet, *args)`` runs it, so that normalizations find their statistics.
        eval_fn, eval_args
            ``eval_fn(subnet, *args)`` returns the metric, or several, of which the first counts.
        evaluation_metric
            Name of the metric in the result.
        min_or_max_metric
            ``max`` if more is better, ``min`` if less is.
        min_macs, max_macs, macs_step
            Range and length of segments, in millions; ``min_mac`` and ``max_mac``, as in the
            guide's example, are taken too.
        parent_popu_size, iteration, mutate_size, mutate_prob, crossover_size
            Random subnetworks at the beginning, generations, and how many of each come from
            mutation (each width is drawn again with ``mutate_prob``) and from crossover.
        seed
            Of what is drawn.

        Raises
        ------
        UnsupportedError
            An argument is out of range, a function fails, or no subnetwork is in the range.
        """
        from opendpu.optimize.evaluations import seeded_score
        from opendpu.optimize.evolution import Evolution, evolve

        if not isinstance(evaluation_metric, str):
            raise wrong("evaluation_metric", evaluation_metric, "the name of the metric")
        one_of("min_or_max_metric", min_or_max_metric, BEST)
        calls(calibration_fn, calib_args, eval_fn, eval_args)
        low, high = (
            wanted if wanted is not None else other
            for wanted, other in ((min_macs, min_mac), (max_macs, max_mac))
        )
        if low is None or high is None:
            raise UnsupportedError(
                "say which MACs subnetworks may have: min_macs and max_macs, in millions",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        sign = BEST[min_or_max_metric]

        def calibrated(subnet: nn.Module, *args: Any) -> float:
            calibration_fn(subnet, *args)
            return 0.0

        def metric(subnet: nn.Module, *args: Any) -> Any:
            found = eval_fn(subnet, *args)
            return found[0] if isinstance(found, tuple | list) else found

        def fitness(widths: dict[str, int]) -> float:
            subnet = self._made.static(_inner(model), widths)
            self.reset_bn_running_stats_for_calibration(subnet)
            seeded_score(subnet, calibrated, calib_args, seed)
            return sign * seeded_score(subnet, metric, eval_args, seed)

        settings = Evolution(
            min_macs=low, max_macs=high, macs_step=macs_step, parent_popu_size=parent_popu_size,
            iteration=iteration, mutate_size=mutate_size, mutate_prob=mutate_prob,
            crossover_size=crossover_size, seed=seed,
        )  # fmt: skip
        with progress("searching") as show:
            best = evolve(self._made, fitness, settings, show)
        return {
            f"{segment:g}": {
                "net_id": found.name,
                "mode": "evaluate",
                evaluation_metric: sign * found.fitness,
                "macs": found.macs,
                "params": found.params,
                "subnet_setting": self._made.setting(found.widths),
            }
            for segment, found in best.items()
        }

    def save_subnet_config(self, setting_config: Any, file_name: str | pathlib.Path) -> None:
        """Write settings of subnetworks, or what a search found, as JSON."""
        path = path_of("file_name", file_name)
        try:
            text = json.dumps(setting_config, indent=1)
        except (TypeError, ValueError) as error:
            raise UnsupportedError(
                f"setting_config holds no settings of subnetworks: {error}",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            ) from None
        outputs.write(path, text + "\n")

    def load_subnet_config(self, file_name: str | pathlib.Path) -> Any:
        """Read what :meth:`save_subnet_config` wrote.

        Raises
        ------
        ModelFormatError
            The file cannot be read, or is no JSON.
        """
        path = path_of("file_name", file_name)
        try:
            return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelFormatError(
                f"{file_name} cannot be read: {error.strerror}", code="OPTIMIZER_IO_ERROR"
            ) from None
        except ValueError as error:
            raise ModelFormatError(
                f"{file_name} holds no settings of subnetworks: {error}", code="OPTIMIZER_IO_ERROR"
            ) from None

    def get_static_subnet(
        self, ofa_model: nn.Module, subnet_setting: "Setting"
    ) -> tuple[nn.Module, "Setting", float, float]:
        """Return a subnetwork as a plain network, its setting, and its MACs and parameters.

        Both are in millions. The network's normalizations have the statistics of the once-for-all
        network, which are of no subnetwork: calibrate or train it.

        Raises
        ------
        UnsupportedError
            The setting is not one of this network.
        """
        widths = self._made.widths(subnet_setting)
        static = self._made.static(_inner(ofa_model), widths)
        return static, self._made.setting(widths), *self._made.cost(widths)

    @property
    def _made(self) -> "Supernet":
        if self._supernet is None:
            raise UnsupportedError(
                "there is no once-for-all network yet: call ofa_model first",
                code="OPTIMIZER_SUBNET_ERROR",
            )
        return self._supernet


def _inner(model: nn.Module) -> nn.Module:
    """Return the network in what spreads it over devices."""
    from opendpu.optimize.groups import need_module

    need_module(model)
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        found = model.module
        assert isinstance(found, torch.nn.Module)
        return found
    return model
