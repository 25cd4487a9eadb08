# SPDX-License-Identifier: Apache-2.0
"""Other sizes than a file fixes, of ONNX and Caffe."""

import numpy as np
import pytest
from onnx.helper import make_node as node

from opendpu.frontend import load_model, load_onnx
from opendpu.frontend.caffe.proto import Net
from opendpu.ops.session import Session
from opendpu_arch.errors import ModelFormatError, UnsupportedError


@pytest.fixture
def head(rng):
    """Nodes of a small fully convolutional network, and its weights."""
    nodes = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Resize", ["c", "", "scales"], ["r"], mode="nearest",
             coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("Add", ["r", "x"], ["y"]),
    ]  # fmt: skip
    weights = {
        "w": rng.standard_normal((4, 4, 3, 3)).astype(np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    return nodes, weights


@pytest.mark.parametrize("sizes", [{"x": (1, 4, 12, 8)}, {"": (-1, -1, 12, 8)}])
def test_fixed_sizes_are_replaced(save, head, sizes, rng):
    path = save(head[0], {"x": [1, 4, 6, 6]}, {"y": [1, 4, 6, 6]}, head[1])
    graph = load_onnx(path, sizes)
    assert graph["x"].shape == graph["y"].shape == (1, 12, 8, 4)
    free = save(head[0], {"x": [1, 4, "h", "w"]}, {"y": None}, head[1])
    x = rng.standard_normal((1, 12, 8, 4)).astype(np.float32)
    wanted = Session(load_onnx(free, {"x": (1, 4, 12, 8)})).run({"x": x})
    np.testing.assert_array_equal(Session(graph).run({"x": x})["y"], wanted["y"])


def test_a_fixed_batch_becomes_one(save, head):
    path = save(head[0], {"x": [10, 4, 6, 6]}, {"y": [10, 4, 6, 6]}, head[1])
    assert load_onnx(path)["y"].shape == (10, 6, 6, 4)
    assert load_onnx(path, {"x": (1, 4, 6, 6)})["y"].shape == (1, 6, 6, 4)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((1, 4, 13, 8), "Add"),
        ((1, 12, 8, 4), r"weights \[4, 4, 3, 3\] with group 1 do not fit 12 input channels"),
    ],
)
def test_what_does_not_fit_names_the_sizes(save, head, shape, reason):
    path = save(head[0], {"x": [1, 4, 6, 6]}, {"y": [1, 4, 6, 6]}, head[1])
    text = rf"gives \[{', '.join(map(str, shape))}\] for input 'x', where the model has \[1, 4, 6"
    with pytest.raises(UnsupportedError, match=text) as caught:
        load_onnx(path, {"x": shape})
    assert caught.match(reason)
    assert caught.value.code == "XCOM_SIZE_UNMATCH"


def test_a_model_with_faults_of_its_own_is_not_blamed_on_sizes(save):
    path = save([node("Relu", ["z"], ["y"])], {"x": [1, 4]}, {"y": None})
    with pytest.raises(ModelFormatError, match="reads 'z'"):
        load_onnx(path, {"x": (1, 5)})


def test_constants_that_make_several_samples_of_one_are_refused(save):
    nodes = [node("Reshape", ["x", "shape"], ["y"])]
    weights = {"shape": np.array([-1, 24], np.int64)}
    path = save(nodes, {"x": [1, 4, 3, 2]}, {"y": [1, 24]}, weights)
    assert load_onnx(path)["y"].shape == (1, 24)
    with pytest.raises(UnsupportedError, match=r"output 'y' is \[2, 24\] instead of \[1, 24\]"):
        load_onnx(path, {"x": (1, 4, 3, 4)})


def test_caffe(tmp_path, rng):
    (tmp_path / "m.prototxt").write_text(
        'input: "data" input_dim: 1 input_dim: 4 input_dim: 8 input_dim: 8\n'
        'layer { name: "p" type: "Pooling" bottom: "data" top: "p" '
        "pooling_param { pool: MAX kernel_size: 2 stride: 2 } }"
    )
    net = Net()
    net.layer.add().name = "p"
    (tmp_path / "m.caffemodel").write_bytes(net.SerializeToString())
    graph = load_model(tmp_path / "m.prototxt", {"data": (1, 4, 20, 8)})
    assert graph["p"].shape == (1, 10, 4, 4)
