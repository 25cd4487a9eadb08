# SPDX-License-Identifier: Apache-2.0
"""Models of onnxruntime's quantizer through the execution provider."""

import logging
import pathlib

import numpy as np
import onnxruntime
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static

from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu_arch.errors import UnsupportedError


class Samples(CalibrationDataReader):
    """Images, one at a time."""

    def __init__(self, images: np.ndarray) -> None:
        self.left = iter([{"x": image[None]} for image in images])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


@pytest.fixture
def others(float_model: pathlib.Path, samples: np.ndarray, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a model whose scales are no powers of two, and whose zero points are no zeros."""
    path = tmp_path / "others.onnx"
    quantize_static(float_model, path, Samples(samples), activation_type=QuantType.QUInt8)
    return path


def ratio(wanted: np.ndarray, found: np.ndarray) -> float:
    return 10 * np.log10(np.square(wanted).sum() / np.square(wanted - found).sum())


@pytest.mark.parametrize("stock", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_asked_to_the_scales_become_the_dpus(
    others: pathlib.Path, float_model: pathlib.Path, calibration: pathlib.Path,
    samples: np.ndarray, tmp_path: pathlib.Path, request: pytest.FixtureRequest, stock: bool,
    sampled: bool,
) -> None:  # fmt: skip
    options = {"target": "B512", "requantize": "1", "cacheDir": str(tmp_path / "cache")}
    if sampled:
        options["calibration"] = str(calibration)
    if stock:
        request.getfixturevalue("registered")
    make = RegisteredSession if stock else InferenceSession
    session = make(str(others), providers=[PROVIDER], provider_options=[options])
    assert PROVIDER in session.get_providers()
    wanted = onnxruntime.InferenceSession(str(float_model)).run(["map"], {"x": samples[:1]})[0]
    assert ratio(wanted, session.run(["map"], {"x": samples[:1]})[0]) > 15


def test_else_the_model_stays_and_the_reason_is_said(
    others: pathlib.Path, samples: np.ndarray, options: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    with caplog.at_level(logging.WARNING, "opendpu.onnxruntime"):
        session = InferenceSession(others, providers=[PROVIDER], provider_options=[options])
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "one scale that is a power of two" in caplog.text
    assert session.run(["map"], {"x": samples[:1]})[0].shape == (1, 8, 8, 8)


def test_a_target_with_scaled_takes_them_as_they_are(
    others: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    given = {**options, "target": "B512+scaled"}
    session = InferenceSession(others, providers=[PROVIDER], provider_options=[given])
    assert PROVIDER in session.get_providers()
    wanted = onnxruntime.InferenceSession(str(others)).run(["map"], {"x": samples[:1]})[0]
    step = np.abs(wanted).max() / 255
    np.testing.assert_allclose(
        session.run(["map"], {"x": samples[:1]})[0], wanted, atol=1.01 * step
    )


def test_a_switch_is_one_or_none(others: pathlib.Path) -> None:
    with pytest.raises(UnsupportedError, match="requantize is 'maybe', but must be 0 or 1"):
        InferenceSession(others, providers=[(PROVIDER, {"requantize": "maybe"})])
