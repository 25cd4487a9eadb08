# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for text in images: OCR and TextMountain.

The networks hand through what is drawn: red says where text is, green and blue which sign.
"""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

from ai_library import run
from sensor_models import compiled, prepared

SOURCE = pathlib.Path(__file__).with_name("cpp") / "texts.cpp"
SIDE, STRIDE = 128, 4
SIGNS = "_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
USED = "0ABCDFGIORTWXYZ"
"""Signs whose probabilities are far apart; those of all others are low everywhere."""
ANGLES = {sign: 2 * np.pi * number / len(USED) for number, sign in enumerate(USED)}
KERNEL = 'kernel { name: "k" ' + "mean: 128 scale: 0.03125 " * 3 + "}"

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def ocr_model(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("ocr")
    text = np.zeros((2, 3, STRIDE, STRIDE))
    text[0, 0, 0, 0] = text[1, 0, 2, 0] = 1
    signs = np.zeros((len(SIGNS), 3, 2, 2))
    for sign, angle in ANGLES.items():
        signs[SIGNS.index(sign), 1:, 0, 0] = np.cos(angle), np.sin(angle)
    path = compiled(
        folder / "ocr.xmodel",
        (3, SIDE, SIDE),
        [
            ("Conv", ["x", "text_w"], "text", {"strides": [STRIDE, STRIDE]}),
            ("Conv", ["x", "signs_w"], "signs", {"strides": [2, 2]}),
        ],
        {"text_w": text, "signs_w": signs},
        {"text": (2, SIDE // 4, SIDE // 4), "signs": (len(SIGNS), SIDE // 2, SIDE // 2)},
        np.random.default_rng(31).uniform(-4, 4, (4, 3, SIDE, SIDE)),
    )
    (folder / "ocr_dict.txt").write_text("HOUSE\nBIRDS\nBIRD\nCAT\nDOG\n")
    return prepared(path, KERNEL)


WORDS = {(4, 3): "CAT", (10, 5): "D0G", (17, 2): "BIRF", (24, 3): "XYZW"}
"""Row and column, of the outputs, where words begin."""
LETTER = 5  # columns


def drawn_words() -> np.ndarray:
    """Return a picture, blue, green, red: letters of three cells, with less text around them."""
    maps = np.zeros((3, SIDE // STRIDE, SIDE // STRIDE))  # red, green, blue
    maps[1:] = 128
    for (row, column), word in WORDS.items():
        maps[0, row : row + 5, column : column + LETTER * len(word)] = 160
        for number, sign in enumerate(word):
            left = column + LETTER * number
            maps[0, row + 1 : row + 4, left + 1 : left + 4] = 255
            block = np.round(128 + 120 * np.array([np.cos(ANGLES[sign]), np.sin(ANGLES[sign])]))
            maps[1:, row : row + 5, left : left + LETTER] = block[:, None, None]
    picture = maps.repeat(STRIDE, 1).repeat(STRIDE, 2)
    picture[0, 2::4] = np.where(picture[0, 2::4] > 0, 130, 0)  # links are weak
    return picture[::-1].transpose(1, 2, 0).astype(np.uint8)


def saved(pixels: np.ndarray, path: pathlib.Path) -> pathlib.Path:
    header = b"P6 %d %d 255\n" % pixels.shape[1::-1]
    path.write_bytes(header + pixels[..., ::-1].tobytes())
    return path


def test_words(program, ocr_model, tmp_path):
    picture = saved(drawn_words(), tmp_path / "words.ppm")
    first, *lines = run(program, "ocr", ocr_model, picture).stdout.splitlines()
    assert first == f"size {SIDE} {SIDE} {SIDE} {SIDE} 1"
    found = {line.split()[0]: np.int64(line.split()[1:]).reshape(4, 2) for line in lines}
    assert list(found) == ["CAT", "D0G", "BIRD"]
    for ((row, column), word), corners in zip(WORDS.items(), found.values(), strict=False):
        low = np.array([column, row]) * STRIDE
        high = np.array([column + LETTER * len(word) - 1, row + 4]) * STRIDE
        box = [low, [high[0], low[1]], high, [low[0], high[1]]]
        assert np.abs(corners - box).max() <= 3 * STRIDE
        assert (corners[0] <= low).all() and (corners[2] >= high).all()


def test_words_in_larger_images(program, ocr_model, tmp_path):
    """A picture of twice the size, and as wide as half: corners count its pixels."""
    half = drawn_words()[: SIDE // 2].repeat(2, 0).repeat(2, 1)
    picture = saved(half, tmp_path / "half.ppm")
    lines = run(program, "ocr", ocr_model, picture).stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["CAT", "D0G"]
    corners = np.int64(lines[0].split()[1:]).reshape(4, 2)
    (row, column), word = next(iter(WORDS.items()))
    low, high = (column, row), (column + LETTER * len(word) - 1, row + 4)
    assert np.abs(corners[[0, 2]] - 2 * STRIDE * np.array([low, high])).max() <= 6 * STRIDE


def test_pictures_without_words(program, ocr_model, tmp_path):
    blank = saved(np.zeros((SIDE, SIDE, 3), np.uint8), tmp_path / "blank.ppm")
    assert len(run(program, "ocr", ocr_model, blank).stdout.splitlines()) == 1


def test_words_that_are_known_must_be_there(program, ocr_model, tmp_path):
    for path in (ocr_model, ocr_model.with_suffix(".prototxt")):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    done = run(program, "ocr", tmp_path / "ocr.xmodel", tmp_path / "none", check=False)
    assert done.returncode == 3
    assert f"there is no file of words {tmp_path / 'ocr_dict.txt'}" in done.stderr


@pytest.fixture(scope="module")
def mountain_model(tmp_path_factory) -> pathlib.Path:
    weights = np.zeros((5, 3, STRIDE, STRIDE))
    weights[0, 0, 0, 0], weights[1, 0, 0, 0], weights[2, 1, 0, 0] = -1, 1, 1
    path = compiled(
        tmp_path_factory.mktemp("mountain") / "mountain.xmodel",
        (3, SIDE, SIDE),
        [("Conv", ["x", "w"], "y", {"strides": [STRIDE, STRIDE]})],
        {"w": weights},
        {"y": (5, SIDE // STRIDE, SIDE // STRIDE)},
        np.random.default_rng(32).uniform(-4, 4, (4, 3, SIDE, SIDE)),
    )
    return prepared(path, KERNEL)


LINES = [(2, 3, 7, 20, 255), (11, 1, 5, 28, 255), (18, 4, 7, 12, 140), (27, 20, 1, 2, 255)]
"""Rectangles, of the output, of lines: top, left, rows, columns, red; one is weak, one small."""


def drawn_lines() -> np.ndarray:
    maps = np.zeros((3, SIDE // STRIDE, SIDE // STRIDE))
    for top, left, rows, columns, red in LINES:
        middle = rows // 2
        for row in range(rows):
            maps[0, top + row, left : left + columns] = red
            maps[1, top + row, left : left + columns] = 250 - 60 * abs(row - middle)
    return maps[::-1].repeat(STRIDE, 1).repeat(STRIDE, 2).transpose(1, 2, 0).astype(np.uint8)


def test_lines(program, mountain_model, tmp_path):
    picture = saved(drawn_lines(), tmp_path / "lines.ppm")
    first, *lines = run(program, "mountain", mountain_model, picture).stdout.splitlines()
    assert first == f"size {SIDE} {SIDE}"
    assert len(lines) == 2
    for line, (top, left, rows, columns, _) in zip(lines, LINES, strict=False):
        score, *corners = (float(word) for word in line.split())
        assert score > 0.99
        places = {tuple(corner) for corner in np.reshape(corners, (4, 2)).tolist()}
        low, high = (left * 4, top * 4), ((left + columns - 1) * 4, (top + rows - 1) * 4)
        assert places == {low, high, (low[0], high[1]), (high[0], low[1])}


def test_lines_in_wide_images(program, mountain_model, tmp_path):
    """The longer side becomes the input's width; corners count the picture's pixels."""
    wide = drawn_lines()[: SIDE // 2].repeat(2, 0).repeat(2, 1)
    picture = saved(wide, tmp_path / "wide.ppm")
    lines = run(program, "mountain", mountain_model, picture).stdout.splitlines()[1:]
    assert len(lines) == 2
    corners = np.float64(lines[0].split()[1:]).reshape(4, 2)
    top, left, rows, columns, _ = LINES[0]
    assert corners.min(0).tolist() == pytest.approx([left * 8, top * 8], abs=8)
    assert corners.max(0).tolist() == pytest.approx(
        [(left + columns - 1) * 8, (top + rows - 1) * 8], abs=8
    )
