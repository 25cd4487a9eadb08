# SPDX-License-Identifier: Apache-2.0
"""Compiled models in the cache are those of this model, these weights and these samples."""

import json
import os
import pathlib

import numpy as np
import onnx
import pytest
from PIL import Image

from opendpu import api
from opendpu.onnxruntime.executable import MODEL, SIGNATURE, Executable, executable
from opendpu.onnxruntime.identity import content_of, digest_of
from opendpu.onnxruntime.options import ProviderOptions

TARGET = api.find_target("B512")


def digest(model: pathlib.Path | onnx.ModelProto, options: ProviderOptions) -> str:
    return digest_of(model, content_of(model), TARGET, options)


@pytest.fixture
def apart(float_model: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a model whose weights are in a file of their own."""
    path = tmp_path / "apart" / "model.onnx"
    path.parent.mkdir()
    onnx.save(
        onnx.load(float_model), path, save_as_external_data=True, location="weights.bin",
        size_threshold=0,
    )  # fmt: skip
    return path


def test_other_weights_in_a_file_beside_the_model(apart: pathlib.Path) -> None:
    before = digest(apart, ProviderOptions())
    assert digest(apart, ProviderOptions()) == before
    weights = apart.parent / "weights.bin"
    content = bytearray(weights.read_bytes())
    content[-2] ^= 1
    weights.write_bytes(content)
    assert digest(apart, ProviderOptions()) != before


def test_weights_in_files_of_graphs_inside(apart: pathlib.Path) -> None:
    whole = onnx.load(apart, load_external_data=False)
    branch = onnx.GraphProto(name="branch", initializer=list(whole.graph.initializer))
    node = onnx.helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)
    outer = onnx.helper.make_model(onnx.helper.make_graph([node], "outer", [], []))
    path = apart.with_name("outer.onnx")
    path.write_bytes(outer.SerializeToString())
    before = digest(path, ProviderOptions())
    (apart.parent / "weights.bin").write_bytes(b"other")
    assert digest(path, ProviderOptions()) != before


def test_weights_outside_the_folder_are_not_read(apart: pathlib.Path) -> None:
    """The front end refuses such a model."""
    model = onnx.load(apart, load_external_data=False)
    for tensor in model.graph.initializer:
        next(e for e in tensor.external_data if e.key == "location").value = "../secret"
    apart.write_bytes(model.SerializeToString())
    before = digest(apart, ProviderOptions())
    (apart.parent.parent / "secret").write_bytes(b"anything")
    assert digest(apart, ProviderOptions()) == before


def test_an_image_that_is_replaced(float_model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(2):
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(folder / f"{number}.bmp")
    options = ProviderOptions(calibration=str(folder))
    before = digest(float_model, options)
    times = folder.stat()
    Image.fromarray(np.full((8, 8, 3), 9, np.uint8)).save(folder / "0.bmp")
    os.utime(folder / "0.bmp", ns=(0, 1))
    os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digest(float_model, options) != before


def test_the_signature_of_another_program(
    quantized_model: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """As two processes leave it that write into one folder, or an interruption."""
    folders = {name: tmp_path / name for name in ("B512", "B1024")}
    for name, folder in folders.items():
        options = ProviderOptions(target=name, cache=folder, key="key")
        made = executable(quantized_model, options)
        assert Executable.load(folder / "key", made.digest) is not None
    one, other = (folder / "key" for folder in folders.values())
    (one / MODEL).write_bytes((other / MODEL).read_bytes())
    wanted = json.loads((one / SIGNATURE).read_text())["digest"]
    assert Executable.load(one, wanted) is None
