# SPDX-License-Identifier: Apache-2.0
"""What a file is, its content says; what is missing to read it is said in one line."""

import sys
import zipfile
from pathlib import Path

import pytest

from opendpu.frontend import load_model
from opendpu.frontend.formats import Format, format_of
from opendpu_arch.errors import ModelFormatError, ToolError


def archive(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in names:
            file.writestr(name, "")
    return path


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"\x1c\0\0\0TFL3more", Format.TFLITE),
        (b"\x89HDF\r\n\x1a\nmore", Format.KERAS),
        (b"\x0a\x08\x0a\x01x\x12\x03abc", Format.FROZEN_GRAPH),
        (b"\x0a\x88\x01\x0a\x01x\x12\x03abc", Format.FROZEN_GRAPH),
        (b"\x0a\x03net*\x05", Format.XMODEL),
        (b"\x08\x08\x12\x07pytorch", Format.ONNX),
        (b"", Format.ONNX),
    ],
)
def test_content_decides(content, wanted, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(content)
    assert format_of(path) is wanted


def test_archives_and_folders(tmp_path):
    keras = archive(tmp_path / "a", "config.json", "metadata.json", "model.weights.h5")
    script = archive(tmp_path / "b", "net/code/__torch__.py", "net/constants.pkl")
    program = archive(tmp_path / "c", "net/archive_format", "net/models/model.json")
    state = archive(tmp_path / "d", "net/data.pkl", "net/data/0")
    assert [format_of(path) for path in (keras, script, program, state)] == [
        Format.KERAS, Format.TORCHSCRIPT, Format.PYTORCH, Format.TORCHSCRIPT,
    ]  # fmt: skip
    with pytest.raises(ModelFormatError, match=r"is a directory, but must be a model file"):
        format_of(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    assert format_of(tmp_path) is Format.SAVED_MODEL


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gone.tflite", Format.TFLITE), ("gone.pb", Format.FROZEN_GRAPH),
        ("gone.h5", Format.KERAS), ("gone.pt", Format.TORCHSCRIPT), ("gone.onnx", Format.ONNX),
        ("deploy.prototxt", Format.CAFFE), ("gone.xmodel", Format.XMODEL),
    ],
)  # fmt: skip
def test_the_suffix_decides_where_there_is_no_content(name, wanted):
    assert format_of(name) is wanted


def test_arrays_are_no_model(tmp_path):
    """Who gives them in the model's place is not told of PyTorch, whose files are archives, too."""
    with pytest.raises(
        ModelFormatError, match=r"in\.npz holds arrays of NumPy, but must be a model"
    ):
        format_of(archive(tmp_path / "in.npz", "x.npy", "y.npy"))


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("opendpu.frontend.tensorflow.")]:
        if module.rpartition(".")[2] in ("runtime", "keras_model", "saved_model"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    path = tmp_path / "model.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ToolError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path} is a model of Keras, and needs tensorflow, which is not installed: "
        "pip install 'opendpu[tensorflow]'"
    )
    with pytest.raises(ModelFormatError, match=r"gone\.h5: no such file"):
        load_model(tmp_path / "gone.h5")
