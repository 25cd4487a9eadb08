# SPDX-License-Identifier: Apache-2.0
"""``opendpu run --image``: one line from a model and a photograph to the answer."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from opendpu import api
from opendpu.cli.app import app
from opendpu.image_inference import rank
from opendpu_arch.errors import TensorError

Image = pytest.importorskip("PIL.Image")
DIGITS = pathlib.Path(__file__).parents[3] / "scripts" / "demo" / "digits.onnx"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["run", *(str(argument) for argument in arguments)])


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("opendpu: error: ")


@pytest.fixture
def digit(tmp_path) -> tuple[pathlib.Path, int]:
    """Return a picture of a handwritten digit, and which one it is."""
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits()
    pixels = (digits.images[1700] / 16 * 255).round().astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "digit.png")
    return tmp_path / "digit.png", int(digits.target[1700])


def test_an_onnx_model_and_its_labels(digit, tmp_path):
    photo, number = digit
    (tmp_path / "labels.txt").write_text("".join(f"digit {n}\n" for n in range(10)))
    result = call(
        DIGITS, "--image", photo, "--scale", 1 / 255, "--labels", tmp_path / "labels.txt",
        "--top", 3, "--target", "B512",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    head, first, *rest, note = result.stdout.splitlines()
    assert head.startswith("logits")
    assert first.split("%")[1].strip() == f"digit {number}"
    assert len(rest) == 2
    assert note.startswith("note: the float model was calibrated with this image alone")


def test_an_input_beside_the_image_that_always_has_one_value(digit, tmp_path):
    photo, number = digit
    model = onnx.load(DIGITS)
    (result,) = model.graph.output
    model.graph.input.append(onnx.helper.make_tensor_value_info("training", 9, []))
    model.graph.node.append(
        onnx.helper.make_node("Dropout", [result.name, "", "training"], ["kept"])
    )
    result.name = "kept"
    onnx.save(model, tmp_path / "dropping.onnx")
    command = [tmp_path / "dropping.onnx", "--image", photo, "--scale", 1 / 255, "--top", 1]
    found = call(*command, "--target", "B512", "--input-value", "training=false", "--json")
    assert found.exit_code == 0, found.output
    ((best,),) = json.loads(found.stdout)["rankings"].values()
    assert best["index"] == number
    assert "for input 'training', but it must be of bool" in refused(
        *command, "--input-value", "training=7"
    )


def test_scales_of_other_quantizers_change_by_themselves(digit, tmp_path):
    """Where the target computes with them they stay; the answer is the same."""
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Samples(CalibrationDataReader):
        def __init__(self):
            images = np.random.default_rng(3).random((8, 1, 1, 8, 8), np.float32)
            self.left = iter([{_input_name(): image} for image in images])

        def get_next(self):
            return next(self.left, None)

    photo, number = digit
    quantize_static(DIGITS, tmp_path / "other.onnx", Samples())
    for target, notes in (("B512", 1), ("B512+scaled", 0)):
        result = call(
            tmp_path / "other.onnx", "--image", photo, "--scale", 1 / 255, "--target", target,
            "--json",
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        (entries,) = found["rankings"].values()
        assert entries[0]["index"] == number
        assert len(found["notes"]) == notes
        assert all("requantized without samples" in note for note in found["notes"])


def test_a_compiled_model_gives_json_and_arrays(digit, tmp_path):
    photo, number = digit
    data = np.random.default_rng(1).random((8, 1, 8, 8), np.float32)
    model = tmp_path / "digits.xmodel"
    api.compile_onnx(DIGITS, calibration={_input_name(): data}, target="B512", output=model)
    result = call(model, "--image", photo, "--scale", 1 / 255, "--json", "-o", tmp_path / "out.npz")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    (entries,) = found["rankings"].values()
    assert entries[0]["index"] == number
    assert sum(entry["probability"] for entry in entries) <= 1.001
    assert found["notes"] == []
    for option, value in (("--calib", photo), ("--input-shape", "x=1,2,3,4")):
        told = refused(model, "--image", photo, option, value)
        assert told == f"{option} is for float models, but {model} is none"
    with np.load(tmp_path / "out.npz") as arrays:
        assert {key: list(value.shape) for key, value in arrays.items()} == found["outputs"]


def _input_name() -> str:
    return onnx.load(DIGITS).graph.input[0].name


def test_what_is_refused(digit, tmp_path):
    photo, _ = digit
    assert "none.png: there is no such image" in refused(DIGITS, "--image", tmp_path / "none.png")
    (tmp_path / "text.png").write_text("no image")
    assert "text.png cannot be read as an image" in refused(
        DIGITS, "--image", tmp_path / "text.png"
    )
    (tmp_path / "few.txt").write_text("a\nb\n")
    told = refused(DIGITS, "--image", photo, "--labels", tmp_path / "few.txt")
    assert "there are 2 labels, but the model has 10 classes" in told
    assert "cannot be read as labels" in refused(DIGITS, "--image", photo, "--labels", tmp_path)
    told = refused(DIGITS, "--image", photo, "--input", "x.npz")
    assert "--image is given, so --input and --subgraph cannot be" in told
    assert "--mean has 2 numbers" in refused(DIGITS, "--image", photo, "--mean", "1,2")
    assert "it is the input" in refused(DIGITS, "--image", photo, "-o", photo)
    assert call(DIGITS).exit_code == 2


def test_rank_scores_and_probabilities():
    found = rank(np.array([[0.1, 0.6, 0.3]]), ["a", "b", "c"], 2)
    assert [(entry.index, entry.label, entry.probability) for entry in found] == [
        (1, "b", 0.6), (2, "c", 0.3),
    ]  # fmt: skip
    found = rank(np.array([0.0, 1000.0]), None, 5)
    assert [(entry.label, entry.probability) for entry in found] == [
        ("class 1", 1.0),
        ("class 0", 0.0),
    ]
    with pytest.raises(TensorError, match="1 labels, but the model has 2"):
        rank(np.zeros(2), ["a"], 1)


@pytest.mark.parametrize(
    "given", [("--input-shape", "image=1,1,8,8"), ("--input-value", "image=0")]
)
def test_what_is_for_models_that_are_not_compiled(tmp_path, given):
    """Arrays go through a compiled model, whose inputs are what they are."""
    files = ("--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz")
    assert f"{given[0]} is for --image" in refused(tmp_path / "any.xmodel", *files, *given)
    assert not (tmp_path / "out.npz").exists()
