# SPDX-License-Identifier: Apache-2.0
"""TFLite files that are damaged, or hold what cannot be converted."""

import numpy as np
import pytest
import tflite

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, options

from opendpu.frontend import load_model
from opendpu.frontend.tflite import load_tflite
from opendpu_arch.errors import DPUError, ModelFormatError, UnsupportedError


@pytest.fixture
def relu(tmp_path):
    net = Network()
    net.op("RELU", [net.data("x", (1, 4))], ["y"])
    return net.write(tmp_path / "relu.tflite", ["y"])


def test_content_decides(relu, tmp_path):
    other = tmp_path / "model.bin"
    other.write_bytes(relu.read_bytes())
    assert [node.kind for node in load_model(other)] == ["data", "relu"]


def test_all_unknown_operators_are_named(tmp_path):
    net = Network()
    x = net.data("x", (1, 4))
    one = net.op("LSH_PROJECTION", [x, x], ["one"])
    two = net.op("MyOwn", [one], ["two"])
    net.op("HASHTABLE_LOOKUP", [x], ["three"])
    net.op("GATHER", [x, net.const("i", np.zeros(1, np.int32))], ["four"],
           options("Gather", batchDims=1))  # fmt: skip
    path = net.write(tmp_path / "odd.tflite", [two, "three", "four"])
    with pytest.raises(UnsupportedError) as caught:
        load_tflite(path)
    assert str(caught.value) == (
        f"{path} has 3 operators that cannot be converted:\n"
        "  LSH_PROJECTION (no counterpart): one\n"
        "  HASHTABLE_LOOKUP (no counterpart): three\n"
        "  GATHER (batch_dims is 1, but must be 0): four"
    )


def test_open_dimensions_get_their_sizes(tmp_path):
    net = Network()
    net.op("RELU", [net.data("x", (1, 1, 1, 3), signature=(-1, -1, -1, 3))], ["y"])
    path = net.write(tmp_path / "open.tflite", ["y"])
    with pytest.raises(UnsupportedError, match=r"x: \[\?, \?, \?, 3\]\nGive their sizes"):
        load_tflite(path)
    assert load_tflite(path, {"x": [1, 5, 6, 3]})["y"].shape == (1, 5, 6, 3)


def test_missing_files_and_other_files(tmp_path):
    with pytest.raises(ModelFormatError, match=r"gone\.tflite: no such file"):
        load_model(tmp_path / "gone.tflite")
    other = tmp_path / "text.tflite"
    other.write_text("not a model at all")
    with pytest.raises(ModelFormatError, match=r"is not a TFLite file: bytes 4 to 8 are b'a mo'"):
        load_model(other)


def test_damaged_files_are_refused(relu, rng):
    whole = relu.read_bytes()
    for size in rng.integers(8, len(whole), 40):
        relu.write_bytes(whole[:size])
        with pytest.raises(DPUError):
            load_tflite(relu)


def test_flipped_bytes_never_escape(relu, rng):
    whole = relu.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for place in rng.integers(8, len(data), 3):
            data[place] = rng.integers(256)
        relu.write_bytes(bytes(data))
        try:
            load_tflite(relu)
        except DPUError as error:
            assert str(relu) in str(error)


def test_options_that_lie_outside_the_file_are_refused(tmp_path):
    net = Network()
    net.op("SOFTMAX", [net.data("x", (1, 4))], ["y"], options("Softmax", beta=2.0))
    path = net.write(tmp_path / "softmax.tflite", ["y"])
    data = bytearray(path.read_bytes())
    place = tflite.Model.GetRootAs(data, 0).Subgraphs(0).Operators(0).BuiltinOptions().Pos
    data[place : place + 4] = (-(1 << 20)).to_bytes(4, "little", signed=True)
    path.write_bytes(data)
    with pytest.raises(ModelFormatError, match=r"options of SOFTMAX 'y' make no sense: error"):
        load_tflite(path)


def test_operators_have_as_many_results_as_they_make(tmp_path):
    net = Network()
    net.op("RELU", [net.data("x", (1, 4))], ["y", "z"])
    path = net.write(tmp_path / "two.tflite", ["y"])
    with pytest.raises(ModelFormatError, match="RELU 'y' has 2 results, but makes 1"):
        load_tflite(path)


def test_fixed_sizes_are_replaced(tmp_path):
    net = Network()
    net.data("x", (1, 8, 8, 4))
    net.op("RELU", ["x"], ["y"])
    net.const("shape", np.array([-1, 256], np.int32))
    net.op("RESHAPE", ["x", "shape"], ["z"], shape=(1, 256))
    graph = load_tflite(net.write(tmp_path / "y.tflite", ["y"]), {"x": (1, 6, 20, 4)})
    assert graph["y"].shape == (1, 6, 20, 4)
    text = r"gives \[1, 8, 16, 4\] for input 'x', where the model has \[1, 8, 8, 4\].*'z' is \[2, 2"
    with pytest.raises(UnsupportedError, match=text):
        load_tflite(net.write(tmp_path / "z.tflite", ["z"]), {"x": (1, 8, 16, 4)})
