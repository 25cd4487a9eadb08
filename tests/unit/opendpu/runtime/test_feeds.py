# SPDX-License-Identifier: Apache-2.0
"""Inputs as users have them: files, layouts, element types."""

import numpy as np
import pytest

import xir
from opendpu.runtime import feeds
from opendpu_arch.errors import TensorError

IMAGE = xir.Tensor("image", [1, 4, 5, 3], "XINT8").set_attr("fix_point", 2)
CUBE = xir.Tensor("cube", [1, 3, 3, 3], "XINT8").set_attr("fix_point", 2)
ROW = xir.Tensor("row", [1, 7], "FLOAT32")


def fit(array, tensor=IMAGE, layout="auto"):
    return feeds.prepared({tensor.name: array}, {tensor.name: tensor}, feeds.Layout(layout))[
        tensor.name
    ]


def test_files(tmp_path):
    array = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "a.npz", x=array)
    np.savez(tmp_path / "nameless.npz", array)
    assert (feeds.read(tmp_path / "nameless.npz")[feeds.ONLY_INPUT] == array).all()
    assert (feeds.read(tmp_path / "a.npy")[feeds.ONLY_INPUT] == array).all()
    assert (feeds.read(tmp_path / "a.npz")["x"] == array).all()
    whole = (tmp_path / "a.npy").read_bytes()
    for name, content, message in (
        ("cut.npy", whole[:-2], "cut.npy cannot be read as .npz or .npy: "),
        ("head.npy", whole[:9], "head.npy cannot be read as .npz or .npy: "),
        ("b.npy", b"hello", "b.npy cannot be read as .npz: File is not a zip file"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(TensorError, match=message):
            feeds.read(tmp_path / name)
    np.save(tmp_path / "o.npy", np.array([object()]))
    with pytest.raises(TensorError, match="Object arrays cannot be loaded"):
        feeds.read(tmp_path / "o.npy")
    with pytest.raises(TensorError, match=r"none\.npy cannot be read as .*: No such file"):
        feeds.read(tmp_path / "none.npy")


def test_an_array_without_a_name_is_for_the_only_input():
    array = np.zeros((1, 7), np.float32)
    names = {"row": ROW, "alias": ROW}
    assert list(feeds.prepared({feeds.ONLY_INPUT: array}, names)) == ["row"]
    with pytest.raises(TensorError, match="without a name is given, but the inputs are image, row"):
        feeds.prepared({feeds.ONLY_INPUT: array}, {"row": ROW, "image": IMAGE})
    assert list(feeds.prepared({"other": array}, names)) == ["other"], "the runner refuses it"


@pytest.mark.parametrize("jobs", [(), (2,)])
def test_layouts(rng, jobs):
    nhwc = rng.integers(-128, 128, (*jobs, 1, 4, 5, 3)).astype(np.int8)
    nchw = np.moveaxis(nhwc, -1, -3)
    for array, layout in ((nhwc, "auto"), (nhwc, "nhwc"), (nchw, "auto"), (nchw, "nchw")):
        found = fit(array, layout=layout)
        assert found.shape == nhwc.shape
        assert (found == nhwc).all()
        assert found.flags.c_contiguous
    assert fit(nchw, layout="nhwc").shape == nchw.shape, "the runner refuses it"


def test_where_both_layouts_fit_the_model_decides(rng):
    array = rng.integers(-128, 128, (6, 3, 3, 3)).astype(np.int8)
    assert (fit(array, CUBE) == array).all()
    assert (fit(array, CUBE, "nchw") == np.moveaxis(array, 1, -1)).all()


def test_floats_of_every_size_and_nothing_else():
    assert fit(np.ones((1, 4, 5, 3), np.float64)).dtype == np.float32
    assert fit(np.ones((1, 4, 5, 3), np.float16)).dtype == np.float32
    assert fit(np.ones((1, 7), np.float64), ROW).dtype == np.float32
    assert fit(np.ones((1, 4, 5, 3), np.int16)).dtype == np.int16, "the runner refuses it"
    double = xir.Tensor("double", [1, 7], "FLOAT64")
    assert fit(np.ones((1, 7)), double).dtype == np.float64


def test_outputs_in_the_layout_of_onnx(rng):
    shapes = {"a": (1, 4, 5, 3), "b": (1, 7), "n": (2, 1, 4, 5, 3)}
    arrays = {name: rng.random(shape) for name, shape in shapes.items()}
    found = feeds.returned(arrays, feeds.Layout.NCHW)
    assert {name: array.shape for name, array in found.items()} == {
        "a": (1, 3, 4, 5), "b": (1, 7), "n": (2, 1, 3, 4, 5),
    }  # fmt: skip
    assert (found["a"][0, 2] == arrays["a"][0, :, :, 2]).all()
    for layout in (feeds.Layout.AUTO, feeds.Layout.NHWC):
        assert feeds.returned(arrays, layout)["a"] is arrays["a"]
