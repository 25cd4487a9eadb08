# SPDX-License-Identifier: Apache-2.0
"""A folder of images becomes the samples that the network's authors would have made."""

import numpy as np
import pytest
from PIL import Image

from opendpu.calibration import Folder, Preprocessing, read_calibration
from opendpu.calibration.preprocessing import Channels, Layout
from opendpu.ir import FloatGraph
from opendpu_arch.errors import TensorError, UnsupportedError


def graph(*shape: int, order: list[int] | None = None) -> FloatGraph:
    made = FloatGraph("net")
    made.add("x", "data", shape)
    made.outputs = ["x"]
    if order:
        made.attrs["onnx_order"] = {"x": order}
    return made


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Four images of 6x8 pixels, one of them in a sub-folder, and files that are none."""
    (tmp_path / "class").mkdir()
    for number, name in enumerate(("a.png", "b.png", "class/c.png", "d.BMP")):
        Image.fromarray(picture(6, 8, number)).save(tmp_path / name)
    (tmp_path / "labels.txt").write_text("1 2 3")
    (tmp_path / ".thumbnails").mkdir()
    for name in ("._a.png", ".thumbnails/b.png"):
        (tmp_path / name).write_bytes(b"of another program")
    return tmp_path


def test_pixels_are_scaled_as_asked_in_the_order_of_names(folder):
    done = Preprocessing(mean=(10, 20, 30), scale=(0.5,))
    found = list(Folder.of(folder, graph(1, 6, 8, 3), done))
    assert len(found) == 4
    wanted = (picture(6, 8, 2).astype(np.float32) - [10, 20, 30]) * 0.5
    np.testing.assert_allclose(found[2]["x"][0], wanted)
    assert found[2]["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "order", "layout", "transposed"),
    [
        ((1, 3, 6, 8), None, Layout.AUTO, True),
        ((1, 6, 8, 3), None, Layout.AUTO, False),
        ((1, 6, 8, 3), [0, 2, 3, 1], Layout.AUTO, False),
        ((1, 6, 8, 3), [0, 2, 3, 1], Layout.NCHW, False),
        ((1, 3, 6, 8), None, Layout.NCHW, True),
    ],
)
def test_layout(folder, shape, order, layout, transposed):
    found = next(iter(Folder.of(folder, graph(*shape, order=order), Preprocessing(layout=layout))))
    pixels = picture(6, 8)
    np.testing.assert_array_equal(
        found["x"][0], pixels.transpose(2, 0, 1) if transposed else pixels
    )


def test_a_layout_that_the_shape_does_not_tell(folder):
    one = Folder.of(folder, graph(1, 3, 6, 3), Preprocessing(layout=Layout.NCHW))
    other = Folder.of(folder, graph(1, 3, 6, 3), Preprocessing(layout=Layout.NHWC))
    assert (one.shape, other.shape) == ((6, 3, 3), (3, 6, 3))


def test_channels(folder):
    swapped = next(iter(Folder.of(folder, graph(1, 6, 8, 3), Preprocessing(channels=Channels.BGR))))
    np.testing.assert_array_equal(swapped["x"][0], picture(6, 8)[:, :, ::-1])
    grey = next(iter(Folder.of(folder, graph(1, 6, 8, 1))))
    wanted = np.asarray(Image.fromarray(picture(6, 8)).convert("L"))
    np.testing.assert_array_equal(grey["x"][0, :, :, 0], wanted)


def test_resize_the_shorter_side_and_take_the_middle(folder):
    done = Preprocessing.parse(resize="12", crop="10x10")
    (found, *_) = Folder.of(folder, graph(1, 10, 10, 3), done)
    whole = Image.fromarray(picture(6, 8)).resize((16, 12), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(found["x"][0], np.asarray(whole)[1:11, 3:13])
    (stretched, *_) = Folder.of(folder, graph(1, 5, 7, 3))
    wanted = Image.fromarray(picture(6, 8)).resize((7, 5), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(stretched["x"][0], np.asarray(wanted))


def test_some_of_many_are_spread_evenly(folder):
    found = Folder.of(folder, graph(1, 6, 8, 3), limit=2)
    assert [file.name for file in found.files] == ["a.png", "c.png"]
    assert len(Folder.of(folder, graph(1, 6, 8, 3), limit=99)) == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mean": "1,2"}, "--mean has 2 numbers, but the input has 3 channels: give 1 or 3"),
        ({"scale": "1,x"}, "--scale is '1,x', but must be numbers with commas"),
        ({"resize": "0"}, "--resize is '0', but must be like 224 or 224x320"),
        ({"crop": "5x5"}, "images get 5x5 pixels, but input 'x' takes 6x8"),
        ({"resize": "5x5"}, "images get 5x5 pixels, but input 'x' takes 6x8"),
        ({"channels": Channels.GRAY}, "--channels is gray, but input 'x' has 3 channels"),
    ],
)
def test_preprocessing_that_does_not_fit_is_refused(folder, options, text):
    with pytest.raises(UnsupportedError, match=text):
        Folder.of(folder, graph(1, 6, 8, 3), Preprocessing.parse(**options))


def test_images_that_do_not_fit_are_refused(folder, tmp_path):
    with pytest.raises(TensorError, match=r"a\.png has 5x7 pixels after --resize, but .* 6x8"):
        list(Folder.of(folder, graph(1, 6, 8, 3), Preprocessing.parse(resize="5", crop="6x8")))
    (folder / "a.png").write_bytes(b"\x89PNG broken")
    with pytest.raises(TensorError, match=r"a\.png cannot be read as an image"):
        list(Folder.of(folder, graph(1, 6, 8, 3)))
    Image.fromarray(np.full((6, 8), 0.5, np.float32)).save(folder / "a.tif")
    with pytest.raises(TensorError, match=r"a\.tif cannot be .* floating-point .* \.npz file"):
        Folder.of(folder / "a.tif", graph(1, 6, 8, 3)).first()
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TensorError, match="empty holds no images"):
        Folder.of(empty, graph(1, 6, 8, 3))
    with pytest.raises(TensorError, match=r"has shape \[1, 16\], but images need"):
        Folder.of(folder, graph(1, 16))
    two = graph(1, 6, 8, 3)
    two.add("z", "data", (1, 4))
    with pytest.raises(TensorError, match=r"has 2 \(x, z\); give an \.npz file"):
        Folder.of(folder, two)


def test_files_of_arrays(tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.savez(tmp_path / "a.npz", x=array)
    np.save(tmp_path / "a.npy", array)
    np.savez(tmp_path / "nameless.npz", array)
    np.savez(tmp_path / "other.npz", images=array)  # as another file of the network has it
    for name in ("a.npz", "a.npy", "nameless.npz", "other.npz"):
        found = read_calibration(tmp_path / name, graph(1, 4), limit=2)
        np.testing.assert_array_equal(found["x"], array[:2])
    with pytest.raises(UnsupportedError, match=r"--mean, .*a\.npz is a file"):
        read_calibration(tmp_path / "a.npz", graph(1, 4), Preprocessing(mean=(1.0,)))
    with pytest.raises(TensorError, match="there is no such calibration data"):
        read_calibration(tmp_path / "b.npz", graph(1, 4))
    (tmp_path / "a.csv").write_text("1,2,3,4")
    with pytest.raises(TensorError, match=r"a\.csv is no calibration data, .* \.npz or \.npy"):
        read_calibration(tmp_path / "a.csv", graph(1, 4))
    two = graph(1, 4)
    two.add("z", "data", (1, 4))
    assert list(read_calibration(tmp_path / "other.npz", two)) == ["images"], "refused later"
    with pytest.raises(
        TensorError, match=r"a\.npy holds one array, but graph .* has 2 inputs: x, z"
    ):
        read_calibration(tmp_path / "a.npy", two)
