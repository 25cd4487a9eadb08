# SPDX-License-Identifier: Apache-2.0
"""Sessions without the library."""

import logging
import pathlib

import numpy as np
import onnxruntime
import pytest

from opendpu.onnxruntime import PROVIDER, InferenceSession
from opendpu_arch.errors import TensorError, UnsupportedError


def test_it_computes_as_the_quantized_model_in_onnxruntime(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    reference = onnxruntime.InferenceSession(
        str(quantized_model), providers=["CPUExecutionProvider"]
    )
    x = samples[:1]
    expected = reference.run(["map"], {"x": x})[0]
    for model in (quantized_model, quantized_model.read_bytes()):
        session = InferenceSession(model, providers=[PROVIDER], provider_options=[options])
        assert session.get_providers() == [PROVIDER, "CPUExecutionProvider"]
        assert session.get_inputs()[0].shape == ["N", 3, 8, 8]
        assert [value.name for value in session.get_outputs()] == ["probabilities", "map"]
        np.testing.assert_array_equal(session.run(["map"], {"x": x})[0], expected)
        assert len(session.run(None, {"x": x})) == 2


def test_a_float_model_stays_on_the_cpu(
    float_model: pathlib.Path, samples: np.ndarray, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "opendpu.onnxruntime"):
        session = InferenceSession(float_model)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert "the model is float" in caplog.text
    assert session.run(["probabilities"], {"x": samples})[0].shape == (12, 10)


def test_wrong_names_are_named(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    session = InferenceSession(quantized_model, providers=[(PROVIDER, options)])
    with pytest.raises(TensorError, match="there is no output 'logits'; there are probabilities"):
        session.run(["logits"], {"x": samples})
    with pytest.raises(TensorError, match="input 'x' is missing; needed: x"):
        session.run(None, {})
    with pytest.raises(TensorError, match="input 'z' is unknown"):
        session.run(None, {"x": samples, "z": samples})
    with pytest.raises(TensorError, match="output_names is 'map', but must be a list of names"):
        session.run("map", {"x": samples})
    with pytest.raises(TensorError, match="input_feed is ndarray, but must be a dictionary"):
        session.run(None, samples)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="must be a list with a dictionary for each"):
        session.set_providers([PROVIDER], options)  # type: ignore[arg-type]


def test_options_for_other_providers_than_there_are(quantized_model: pathlib.Path) -> None:
    with pytest.raises(UnsupportedError, match="provider_options has 2 entries, but providers 1"):
        InferenceSession(quantized_model, providers=[PROVIDER], provider_options=[{}, {}])


def test_one_name_in_place_of_a_list(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    session = InferenceSession(quantized_model, providers=PROVIDER, provider_options=[options])
    assert session.get_providers()[0] == PROVIDER
    for near in (f"{PROVIDER}X", "VitisExecutionProvider", PROVIDER.lower()):
        with pytest.raises(UnsupportedError, match=f"'{near}', which there is not; '{PROVIDER}'"):
            InferenceSession(quantized_model, providers=near)
        with pytest.raises(UnsupportedError, match=f"has '{near}', which there is not"):
            session.set_providers([(near, options), "CPUExecutionProvider"])
    for wrong in ((PROVIDER, options), [3], [(PROVIDER,)], [(PROVIDER, "config.json")]):
        with pytest.raises(UnsupportedError, match="must be a list of names, or of pairs of a"):
            session.set_providers(wrong)  # type: ignore[arg-type]
    session.set_providers("CPUExecutionProvider")
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_a_missing_configuration_file(
    quantized_model: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    InferenceSession(quantized_model, providers=[(PROVIDER, {"config_file": "/nowhere.json"})])
    assert "config_file /nowhere.json: no such file; it is not needed" in caplog.text
