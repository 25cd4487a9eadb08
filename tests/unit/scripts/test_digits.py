# SPDX-License-Identifier: Apache-2.0
"""The demo's network: good enough, and written by its script."""

import importlib
import pathlib
import types

import numpy as np
import onnx
import pytest


@pytest.fixture
def train_digits(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts" / "demo"))
    return importlib.import_module("train_digits")


def test_the_committed_network_is_right_about_97_percent(train_digits: types.ModuleType) -> None:
    data = train_digits.digits.load_digits()
    assert len(data.test_labels) == 360
    assert train_digits.accuracy(train_digits.MODEL, data) >= 0.97


def test_no_test_image_is_trained_on(train_digits: types.ModuleType) -> None:
    data = train_digits.digits.load_digits()
    assert len(data.train_labels) + len(data.test_labels) == 1797
    # the data set holds no two equal images, so a shared one would be an error of the split
    every = np.concatenate([data.train_images, data.test_images]).reshape(1797, 64)
    assert len(np.unique(every, axis=0)) == 1797


def test_weights_are_multiples_of_the_step(train_digits: types.ModuleType) -> None:
    for name, value in train_digits.stored_parameters(train_digits.MODEL).items():
        scaled = value / train_digits.STEP
        assert np.array_equal(scaled, np.round(scaled)), name


def test_the_file_is_what_the_script_writes(train_digits: types.ModuleType) -> None:
    stored = train_digits.stored_parameters(train_digits.MODEL)
    again = train_digits.to_onnx(stored)
    assert again.graph == onnx.load(train_digits.MODEL).graph


def test_gradients_are_those_of_finite_differences(train_digits: types.ModuleType) -> None:
    rng = np.random.default_rng(3)
    parameters = train_digits.initial(rng)
    x, labels = rng.normal(0, 1, (5, 1, 8, 8)), rng.integers(0, 10, 5)
    found = train_digits.gradients(parameters, x, labels)
    for name, value in parameters.items():
        place = tuple(rng.integers(0, size) for size in value.shape)
        losses = []
        for step in (1e-6, -2e-6):
            value[place] += step
            losses.append(_loss(train_digits, parameters, x, labels))
        value[place] += 1e-6
        assert (losses[0] - losses[1]) / 2e-6 == pytest.approx(
            found[name][place], rel=1e-4, abs=1e-8
        )


def _loss(
    train_digits: types.ModuleType,
    parameters: dict[str, np.ndarray],
    x: np.ndarray,
    labels: np.ndarray,
) -> float:
    import onnx.reference

    model = train_digits.to_onnx(parameters)
    for tensor in model.graph.initializer:
        exact = onnx.numpy_helper.from_array(parameters[tensor.name], tensor.name)
        tensor.CopyFrom(exact)
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    evaluator = onnx.reference.ReferenceEvaluator(model)
    logits = np.concatenate([evaluator.run(None, {"image": i[np.newaxis]})[0] for i in x])
    shifted = logits - logits.max(axis=1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return float(-log[np.arange(len(labels)), labels].mean())


@pytest.mark.slow
def test_training_again_gives_the_same_weights(train_digits: types.ModuleType) -> None:
    data = train_digits.digits.load_digits()
    trained = train_digits.train(data.train_images.astype(np.float64), data.train_labels)
    stored = train_digits.stored_parameters(train_digits.MODEL)
    for name, value in trained.items():
        assert np.abs(value - stored[name]).max() <= train_digits.STEP, name
