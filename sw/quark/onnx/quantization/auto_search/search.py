# SPDX-License-Identifier: Apache-2.0
"""``AutoSearch``: quantizes a model as each configuration of a space says, keeps what is good."""

import copy
import os
import pathlib
import random
import shutil
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationMethod, QuantType

from opendpu.ops.inference import precise_session
from opendpu_arch.errors import DPUError, UnsupportedError
from quark.onnx.quantization.api import ModelQuantizer
from quark.onnx.quantization.auto_search.metrics import DISTANCES, Array, metric_of
from quark.onnx.quantization.auto_search.space import configurations
from quark.onnx.quantization.config.config import Config
from quark.onnx.quantization.config.quantization_config import QuantizationConfig
from vai_q_onnx.calibration import Batch, Reader
from vai_q_onnx.enums import PowerOfTwoMethod

SEED = 0
"""Of the order of a random search."""
REFUSED = ("two_stage_search", "advanced_fastft_search")
"""Ways to search that there are not here."""


class AutoSearchConfig:
    """What is searched and when it ends; scripts bring classes of their own with these names."""

    def __init__(self) -> None:
        self.search_space: dict[str, Any] | None = {
            "calibrate_method": [
                PowerOfTwoMethod.MinMSE, PowerOfTwoMethod.NonOverflow, CalibrationMethod.MinMax,
                CalibrationMethod.Percentile,
            ],
            "activation_type": [QuantType.QInt8],
            "weight_type": [QuantType.QInt8],
            "include_cle": [True, False],
        }  # fmt: skip
        self.search_metric = "L2"
        self.search_algo = "grid_search"
        self.search_evaluator: Any = None
        self.search_metric_tolerance = 2.0
        self.search_cache_dir = self.search_output_dir = "./"
        self.search_log_path = "./auto_search.log"
        self.search_stop_condition: dict[str, Any] = {
            "find_n_candidates": -1, "iteration_limit": 10000, "time_limit": 36000.0,
        }  # fmt: skip


class AutoSearch:
    """A search for configurations with which a quantized model loses little.

    Parameters
    ----------
    config
        What the search space does not say, in Quark's first form.
    auto_search_config
        Has the names of :class:`AutoSearchConfig`, which has the defaults of those that it lacks.
        ``search_evaluator(path)`` scores a model, the more the better; without one,
        ``search_metric`` compares results with the float model's on the calibration data.
    model_input
        The float model.
    model_output
        Where the best model goes; nowhere if not given.
    calibration_data_reader
        Its batches are read once, for all configurations; none stands for random data, which needs
        an evaluator.
    eval_dataloader
        Batches by input that results are compared on, instead.
    calibration_data_path
        Not here: give a reader.

    Raises
    ------
    UnsupportedError
        An argument is none of these, or asks for what there is not here.
    """

    def __init__(
        self,
        config: Config,
        auto_search_config: Any,
        model_input: str | os.PathLike[str],
        model_output: str | os.PathLike[str] | None = None,
        calibration_data_reader: Reader | None = None,
        calibration_data_path: str | None = None,
        eval_dataloader: Iterable[Batch] | None = None,
    ) -> None:
        if not isinstance(config, Config):
            raise UnsupportedError(f"config is a {type(config).__name__}, but must be a Config")
        if calibration_data_path is not None:
            raise UnsupportedError("calibration_data_path is not read here; give a reader")
        self._asked, self._default = auto_search_config, AutoSearchConfig()
        for name in REFUSED:
            if getattr(auto_search_config, name, False):
                raise UnsupportedError(f"{name} is True, which there is not here")
        self.config, self.model_input, self.model_output = config, model_input, model_output
        self._batches = _read(calibration_data_reader)
        self._compared = list(eval_dataloader) if eval_dataloader is not None else self._batches
        if self._setting("search_evaluator") is None and not self._compared:
            raise UnsupportedError("give a calibration_data_reader, or a search_evaluator")
        self.all_configs: list[QuantizationConfig] = []
        if self._setting("search_space") is not None:
            self.all_configs = self.build_all_configs(self._setting("search_space"))

    def build_all_configs(self, search_space: dict[str, Any]) -> list[QuantizationConfig]:
        """Return the configurations of a space, for ``all_configs``."""
        return configurations(search_space, self.config.global_quant_config)

    def search_model(self) -> list[dict[str, Any]]:
        """Return the models that are good enough, the best first.

        Good enough is a score that is at most ``search_metric_tolerance`` below the float model's,
        a distance (``L1``, ``L2``) of at most as much, or a similarity (``cos``, ``psnr``,
        ``ssim``) of at least as much. Configurations that cannot be had here are warned of.

        Returns
        -------
        For each its ``model_path`` in ``search_output_dir``, ``metric`` and ``config``.
        """
        stop = {**self._default.search_stop_condition, **self._setting("search_stop_condition")}
        folders = [pathlib.Path(self._setting(f"search_{n}_dir")) for n in ("cache", "output")]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        judge = _Judge(self)
        found: list[dict[str, Any]] = []
        lines: list[str] = []
        start = time.monotonic()
        for number, chosen in self._order():
            if _reached(stop, len(found), len(lines), time.monotonic() - start):
                break
            path = folders[0] / f"auto_search_{number}.onnx"
            try:
                ModelQuantizer(Config(copy.deepcopy(chosen))).quantize_model(
                    self.model_input, path, _Repeated(self._batches) if self._batches else None
                )
            except DPUError as error:
                warnings.warn(f"configuration {number} is left out: {error}", stacklevel=2)
                lines.append(f"{number}: left out, {error}")
                continue
            metric = judge.metric(path)
            good = judge.is_good(metric)
            lines.append(f"{number}: {metric:.6g}{' kept' if good else ''}, {chosen}")
            if good:
                kept = folders[1] / path.name
                if kept.resolve() != path.resolve():
                    shutil.move(path, kept)
                found.append({"model_path": str(kept), "metric": metric, "config": chosen})
            else:
                path.unlink()
        found.sort(key=lambda one: judge.rank(one["metric"]))
        pathlib.Path(self._setting("search_log_path")).write_text("\n".join(lines) + "\n")
        if found and self.model_output:
            shutil.copyfile(found[0]["model_path"], self.model_output)
        if not found:
            warnings.warn(
                f"none of {len(lines)} configurations is within search_metric_tolerance "
                f"{self._setting('search_metric_tolerance')}; {self._setting('search_log_path')} "
                "has what they lose",
                stacklevel=2,
            )
        return found

    def _setting(self, name: str) -> Any:
        return getattr(self._asked, name, getattr(self._default, name))

    def _order(self) -> list[tuple[int, QuantizationConfig]]:
        """Return the configurations with their numbers, in the order in which they are tried."""
        order = list(enumerate(self.all_configs))
        how = self._setting("search_algo")
        if how == "random":
            random.Random(SEED).shuffle(order)
        elif how != "grid_search":
            raise UnsupportedError(
                f"search_algo is {how!r}, but must be one of grid_search, random"
            )
        return order


class _Judge:
    """Scores models as a search wants it."""

    def __init__(self, search: AutoSearch) -> None:
        self._evaluate = search._setting("search_evaluator")
        self._tolerance = float(search._setting("search_metric_tolerance"))
        self._batches = search._compared
        name = search._setting("search_metric")
        self._is_distance = self._evaluate is None and str(name).lower() in DISTANCES
        if self._evaluate is None:
            self._metric = metric_of(name)
            self._wanted = _results(search.model_input, self._batches)
        else:
            self._tolerance = float(self._evaluate(str(search.model_input))) - self._tolerance

    def metric(self, path: pathlib.Path) -> float:
        """Return the score of a quantized model, or how it compares with the float one."""
        if self._evaluate is not None:
            return float(self._evaluate(str(path)))
        return self._metric(_results(path, self._batches), self._wanted)

    def is_good(self, metric: float) -> bool:
        """Return whether that is good enough."""
        return metric <= self._tolerance if self._is_distance else metric >= self._tolerance

    def rank(self, metric: float) -> float:
        """Return what is less for better models."""
        return metric if self._is_distance else -metric


class _Repeated:
    """A reader of batches that are there already."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._left = iter(batches)

    def get_next(self) -> Batch | None:
        """Return the next batch by input, none at the end."""
        return next(self._left, None)


def _read(reader: Reader | None) -> list[Batch]:
    batches: list[Batch] = []
    while reader is not None and (batch := reader.get_next()) is not None:
        batches.append(batch)
    return batches


def _results(path: str | os.PathLike[str], batches: Sequence[Batch]) -> list[Array]:
    """Return what a model gives, result by result over all batches."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = precise_session(os.fspath(path), options)
    one_by_one = all(given.shape[:1] == [1] for given in session.get_inputs())
    feeds = [feed for batch in batches for feed in (_singles(batch) if one_by_one else [batch])]
    return [np.asarray(array, np.float64) for feed in feeds for array in session.run(None, feed)]


def _singles(batch: Batch) -> Iterator[Batch]:
    """Yield the samples of a batch, each as a batch of one, for models that take no more."""
    for index in range(min(len(array) for array in batch.values())):
        yield {name: array[index : index + 1] for name, array in batch.items()}


def _reached(stop: dict[str, Any], found: int, tried: int, seconds: float) -> bool:
    """Return whether a search ends; -1 is no limit."""
    limits = (("find_n_candidates", found), ("iteration_limit", tried), ("time_limit", seconds))
    return any(0 <= stop[name] <= value for name, value in limits)
