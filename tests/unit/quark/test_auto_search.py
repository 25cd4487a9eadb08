# SPDX-License-Identifier: Apache-2.0
"""Quark's automatic search: spaces of configurations, metrics, what is kept and when it ends."""

import copy
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from export_nets import images, network
from onnxruntime.quantization import CalibrationMethod, QuantType

from opendpu_arch.errors import UnsupportedError
from quark.onnx import Config, LayerWiseMethod, PowerOfTwoMethod, auto_search
from quark.onnx.quantization.auto_search.metrics import METRICS
from quark.onnx.quantization.config import get_default_config


class Reader:
    """Two batches of four, once."""

    def __init__(self):
        self.left = 2

    def get_next(self):
        self.left -= 1
        return {"image": images(4, self.left)} if self.left >= 0 else None


SPACE = {
    "calibrate_method": [PowerOfTwoMethod.MinMSE, CalibrationMethod.MinMax],
    "activation_type": [QuantType.QInt8],
    "weight_type": [QuantType.QInt8],
    "include_cle": [True, False],
}


class Settings:
    """What a script brings, with no more than it needs."""

    search_metric = "L2"
    search_metric_tolerance = 1000.0


@pytest.fixture
def settings(tmp_path):
    found = Settings()
    found.search_space = copy.deepcopy(SPACE)
    found.search_cache_dir = str(tmp_path / "cache")
    found.search_output_dir = str(tmp_path / "out")
    found.search_log_path = str(tmp_path / "auto_search.log")
    found.search_stop_condition = {"find_n_candidates": -1}
    return found


@pytest.fixture
def float_model(tmp_path):
    onnx.save(network("average"), tmp_path / "float.onnx")
    return str(tmp_path / "float.onnx")


def search(settings, model, **options):
    config = Config(copy.deepcopy(get_default_config("S8S8_AAWS")))
    options.setdefault("calibration_data_reader", Reader())
    return auto_search.AutoSearch(config, settings, model, **options)


def answer(path):
    options = {"providers": ["CPUExecutionProvider"]}
    return onnxruntime.InferenceSession(str(path), **options).run(None, {"image": images(1, 0)})[0]


def test_all_are_tried_and_the_best_comes_first(settings, float_model, tmp_path):
    settings.search_metric_tolerance = 1.0
    best = tmp_path / "best.onnx"
    found = search(settings, float_model, model_output=best).search_model()
    assert len(found) == 4
    metrics = [one["metric"] for one in found]
    assert metrics == sorted(metrics) and metrics[0] < metrics[-1]
    paths = [pathlib.Path(one["model_path"]) for one in found]
    assert all(path.parent == tmp_path / "out" and path.is_file() for path in paths)
    assert np.array_equal(answer(best), answer(paths[0]))
    wanted = answer(float_model)
    errors = [float(np.square(answer(path) - wanted).mean()) for path in paths]
    assert errors[0] < errors[-1]
    assert {(one["config"].calibrate_method, one["config"].include_cle) for one in found} == {
        (m, c) for m in settings.search_space["calibrate_method"] for c in (True, False)
    }
    lines = pathlib.Path(settings.search_log_path).read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["0", "1", "2", "3"]


def test_a_search_ends_with_enough_candidates(settings, float_model):
    settings.search_stop_condition["find_n_candidates"] = 1
    (one,) = search(settings, float_model).search_model()
    settings.search_algo = "random"
    (other,) = search(settings, float_model).search_model()
    assert one["model_path"].endswith("_0.onnx") and not other["model_path"].endswith("_0.onnx")
    settings.search_stop_condition = {"iteration_limit": 3}
    assert len(search(settings, float_model).search_model()) == 3


def test_what_is_too_far_off_is_not_kept(settings, float_model, tmp_path):
    settings.search_metric_tolerance = 1e-12
    with pytest.warns(UserWarning, match=r"none of 4 configurations is within search_metric_tol"):
        assert search(settings, float_model).search_model() == []
    assert not list((tmp_path / "cache").iterdir()) and not list((tmp_path / "out").iterdir())
    settings.search_metric, settings.search_metric_tolerance = "cos", 0.9
    found = search(settings, float_model).search_model()
    assert len(found) == 4 and found[0]["metric"] == max(one["metric"] for one in found) <= 1


def test_a_score_of_ones_own(settings, float_model):
    """The float model is scored as well; the tolerance is what may be lost against it."""
    seen = []

    def evaluator(path, **_):
        seen.append(path)
        return 1.0 if path == float_model else 0.5 + 0.1 * len(seen)

    settings.search_evaluator, settings.search_metric_tolerance = evaluator, 0.25
    found = search(settings, float_model).search_model()
    assert seen[0] == float_model and len(seen) == 5
    assert [one["metric"] for one in found] == pytest.approx([1.0, 0.9, 0.8])


def test_spaces_are_joined_as_tutorials_do(settings, float_model):
    settings.search_space = None
    made = search(settings, float_model)
    assert made.all_configs == []
    made.all_configs = made.build_all_configs({"include_cle": [True]})
    made.all_configs += made.build_all_configs({"include_cle": [False]})
    assert [one.include_cle for one in made.all_configs] == [True, False]


@pytest.mark.parametrize(
    ("space", "count"),
    [
        ({"calibrate_method": [PowerOfTwoMethod.MinMSE, CalibrationMethod.MinMax],
          "activation_type": [QuantType.QInt8, QuantType.QInt16],
          "extra_options": {"Percentile": [99.999, 99.9999],
                            "CalibMovingAverage": [True, False]}}, 6),
        ({"calibrate_method": [CalibrationMethod.Percentile], "include_sq": [False],
          "extra_options": {"CalibMovingAverageConstant": [0.01, 0.001],
                            "SmoothAlpha": [0.5, 0.6]}}, 1),
        ({"include_fast_ft": [False], "extra_options": {"FastFinetune": {
            "NumIterations": [100, 1000], "LearningRate": [0.1, 0.01]}}}, 1),
        ({"include_fast_ft": [True], "extra_options": {"FastFinetune": {
            "NumIterations": [100, 1000], "LearningRate": [0.1, 0.01]}}}, 4),
    ],
)  # fmt: skip
def test_choices_that_change_nothing_count_once(settings, float_model, space, count):
    assert len(search(settings, float_model).build_all_configs(space)) == count


def test_metrics_are_those_of_quark():
    """Values that AMD's own tests have for these arrays."""
    found, wanted = np.array([3.0, 4, 5, 6]), np.array([2.0, 3, 4, 5])
    golden = {"l1": 1.0, "l2": 1.0, "cos": 0.9989, "psnr": 48.1308, "ssim": 0.9743}
    for name, metric in METRICS.items():
        assert metric(found, wanted) == pytest.approx(golden[name], abs=1e-4), name


def test_a_configuration_that_there_is_not_is_told(settings, float_model):
    settings.search_space["calibrate_method"] = [
        LayerWiseMethod.LayerWisePercentile, CalibrationMethod.MinMax,
    ]  # fmt: skip
    with pytest.warns(UserWarning, match=r"configuration \d is left out: .*LayerWisePercentile"):
        assert len(search(settings, float_model).search_model()) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"two_stage_search": True}, "two_stage_search is True, which there is not here"),
        ({"search_space": {"include_cle": True}}, "include_cle is True, but must be a list"),
        ({"search_space": {"bits": [8]}}, "a configuration has nothing called 'bits'"),
        ({"search_metric": "L7"}, "search_metric is 'L7', but must be one of l1, l2, cos"),
        ({"search_algo": "best"}, "search_algo is 'best', but must be one of grid_search, random"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings, float_model, change, message):
    for name, value in change.items():
        setattr(settings, name, value)
    with pytest.raises(UnsupportedError, match=message):
        search(settings, float_model).search_model()


def test_without_data_there_must_be_an_evaluator(settings, float_model):
    with pytest.raises(UnsupportedError, match="give a calibration_data_reader, or a search_ev"):
        search(settings, float_model, calibration_data_reader=None)
