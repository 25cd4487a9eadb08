# SPDX-License-Identifier: Apache-2.0
"""``IterativePruningRunner`` for Keras models, with what it finds out in files below ``.vai``."""

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from opendpu.pruning import Analysis, Plan, score_of
from opendpu.pruning.arguments import (
    check_ratio,
    check_threshold,
    function,
    one_of,
    path_of,
    several,
)
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from tf_nndct.analyzing import FOLDER, analyze_groups, chosen_widths, fingerprint_of
from tf_nndct.groups import Structure, analyze
from tf_nndct.network import Network, network_of, paths_of, stable_name
from tf_nndct.surgery import least_important, slim_model, sparse_model

LATEST = "latest_spec"
SAVE_EVERY = 10
"""Evaluations between two writings of an analysis."""
MODES = ("sparse", "slim")

Excludes = Iterable[Any] | None
Path = str | os.PathLike[str]


class IterativePruningRunner:
    """Prunes channels of a Keras model by an analysis of single groups, with training between.

    Parameters
    ----------
    model
        A functional or Sequential model; it stays as it is.
    input_specs
        One or several ``tf.TensorSpec``: shapes of its inputs.

    Raises
    ------
    UnsupportedError
        The model is another kind of model, or ``input_specs`` do not fit it.
    """

    def __init__(self, model: Any, input_specs: Any) -> None:
        self._model = model
        self._network: Network = network_of(model)
        _check_specs(self._network, input_specs)
        self._name = stable_name(model)
        self._fingerprint = _fingerprint(model)

    def ana(
        self, eval_fn: Callable[..., Any], excludes: Excludes = None, forced: bool = False
    ) -> None:  # fmt: skip
        """Find out what pruning single groups costs, and write it to ``.vai/<name>.sens``.

        What the file has already is not evaluated again, so an analysis that was interrupted goes
        on.

        Parameters
        ----------
        eval_fn
            ``eval_fn(model)`` returns the score; the more the better.
        excludes
            Layers, or their names, whose channels stay.
        forced
            Evaluate everything again.

        Raises
        ------
        UnsupportedError
            The function fails or returns no number, or nothing can be pruned.
        ModelFormatError
            The file is of another model.
        """
        function("eval_fn", eval_fn)
        structure = self._structure(excludes)
        path = self._path("sens")
        known = Analysis(self._fingerprint)
        if path.is_file() and not forced:
            known = Analysis.load(path, self._fingerprint)

        def score(widths: Mapping[str, int]) -> float:
            removed = least_important(self._model, structure, widths)
            return score_of(sparse_model(self._model, structure, removed, hold=False), eval_fn)

        analyze_groups(known, structure, score, path, SAVE_EVERY)

    def prune(
        self, ratio: float | None = None, threshold: float | None = None,
        spec_path: Path | None = None, excludes: Excludes = None, mode: str = "sparse",
    ) -> Any:  # fmt: skip
        """Return the model pruned; what was cut is written to ``.vai/<name>_ratio_<r>.spec``.

        Parameters
        ----------
        ratio
            The part of the multiply-accumulates that goes, of the unpruned model. Wins.
        threshold
            The part of the score that pruning a group alone may cost.
        spec_path
            A specification to follow.
        excludes
            Layers, or their names, whose channels stay; at least those of the analysis.
        mode
            ``sparse`` keeps shapes and has zeros, which stay zero in training; ``slim`` is without
            them.

        Raises
        ------
        UnsupportedError
            An argument is out of range, or none says how much.
        ModelFormatError
            There is no analysis, or it or the specification is of another model.
        """
        one_of("mode", mode, MODES)
        structure = self._structure(excludes)
        if ratio is None and threshold is None:
            if spec_path is None:
                raise UnsupportedError(
                    "say how much to prune: ratio, threshold or spec_path",
                    code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
                )
            path = pathlib.Path(path_of("spec_path", spec_path))
            plan = self._plan(path, structure)
        else:
            widths = self._widths(structure, ratio, threshold)
            path = self._path("spec", ratio if ratio is not None else threshold)
            removed = least_important(self._model, structure, widths)
            plan = Plan(self._fingerprint, removed, "macs", ratio)
            plan.save(path)
        FOLDER.mkdir(exist_ok=True)
        outputs.write(FOLDER / LATEST, path.as_posix() + "\n")
        if mode == "slim":
            return slim_model(self._model, structure, plan.removed)
        return sparse_model(self._model, structure, plan.removed)

    def get_slim_model(self, spec_path: Path | None = None) -> Any:
        """Return the model without the channels that a specification removes.

        Parameters
        ----------
        spec_path
            The specification; by default the newest.

        Raises
        ------
        ModelFormatError
            There is none, or it is of another model.
        """
        if spec_path is None:
            latest = FOLDER / LATEST
            if not latest.is_file():
                raise ModelFormatError(
                    f"{latest}: no such file; prune the model first",
                    code="OPTIMIZER_IO_ERROR",
                )
            spec_path = latest.read_text(encoding="utf-8").strip()
        structure = self._structure(None)
        plan = self._plan(path_of("spec_path", spec_path), structure)
        return slim_model(self._model, structure, plan.removed)

    def _structure(self, excludes: Excludes) -> Structure:
        paths = _excluded(self._model, several("excludes", excludes, "layers or their names"))
        found = analyze(self._network, paths)
        found.dependencies.need_groups(self._name)
        return found

    def _widths(
        self, structure: Structure, ratio: float | None, threshold: float | None
    ) -> Mapping[str, int]:
        if ratio == 0 and not isinstance(ratio, bool):  # as scripts that count up have it first
            return {name: group.units for name, group in structure.dependencies.groups.items()}
        if ratio is not None:
            check_ratio(ratio, "ratio")
        elif threshold is not None:
            check_threshold(threshold)
        analysis = Analysis.load(self._path("sens"), self._fingerprint)
        return chosen_widths(structure, analysis, ratio, threshold)

    def _plan(self, path: Path, structure: Structure) -> Plan:
        found = Plan.load(path)
        found.check(self._fingerprint, structure.dependencies, os.fspath(path))
        return found

    def _path(self, suffix: str, ratio: float | None = None) -> pathlib.Path:
        middle = "" if ratio is None else f"_ratio_{ratio:g}"
        return FOLDER / f"{self._name}{middle}.{suffix}"


def _fingerprint(model: Any) -> str:
    """Return what tells a model from others: its layers and the shapes of their weights."""
    layers = [
        (path, type(layer).__name__, [tuple(weight.shape) for weight in layer.weights])
        for path, layer in paths_of(model)
    ]
    return fingerprint_of(layers)


def _check_specs(network: Network, specs: Any) -> None:
    given = list(specs) if isinstance(specs, list | tuple) else [specs]
    shapes = [tuple(getattr(spec, "shape", ())) for spec in given]
    wanted = [network.shapes[number] for number in network.inputs]
    fits = len(shapes) == len(wanted) and all(
        len(have) == len(want)
        and all(b is None or a is None or a == b for a, b in zip(have, want, strict=True))
        for have, want in zip(shapes, wanted, strict=True)
    )
    if not fits:
        raise UnsupportedError(
            f"input_specs says {', '.join(map(str, shapes))}, but the model takes "
            f"{', '.join(map(str, wanted))}",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )


def _excluded(model: Any, excludes: Iterable[Any]) -> Sequence[str]:
    paths = paths_of(model)
    found = []
    for wanted in excludes:
        mine = [
            path for path, layer in paths
            if wanted is layer or (isinstance(wanted, str) and wanted in (path, layer.name))
        ]  # fmt: skip
        if not mine:
            raise UnsupportedError(
                f"the model has no such layer as {getattr(wanted, 'name', wanted)!r} of excludes",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        found += mine
    return found
