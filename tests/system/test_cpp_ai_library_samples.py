# SPDX-License-Identifier: Apache-2.0
"""Programs as the samples of the AI Library: the four kinds, and lists of pictures written down."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import opendpu.cpp
from opendpu.cpp import ai_library_build, packages
from opendpu_arch.errors import ToolError

sys.path.append(str(pathlib.Path(__file__).parent))

import ai_library
from ai_library import HEIGHT, WIDTH, prepared, run, softmax

SOURCE = pathlib.Path(__file__).with_name("cpp") / "accuracy.cpp"
HEADS = {"digit": (10, 0)}
TEXT = 'classification_param { top_k: 3 layer_name: "digit" label_type: "CIFAR10" }'

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.mark.parametrize("flags", [[], ["-DACCURACY"]])
def test_kinds_of_samples(flags):
    try:
        prefix, includes = ai_library_build.prefix(), ai_library_build.cflags()
    except ToolError as error:
        pytest.skip(str(error))
    subprocess.run(
        [opendpu.cpp.compiler(), "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *flags,
         *packages.cflags(prefix), *includes, SOURCE.with_name("kinds.cpp")],
        check=True, timeout=900,
    )  # fmt: skip


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> tuple[pathlib.Path, list[np.ndarray]]:
    """A list of seven pictures of noise, one of them missing, and their pixels."""
    folder, rng = tmp_path_factory.mktemp("list"), np.random.default_rng(21)
    names, pixels = [], []
    for number in range(6):
        gray = np.repeat(rng.integers(0, 256, (HEIGHT, WIDTH, 1)), 3, 2).astype(np.uint8)
        path = folder / f"{number}.ppm"
        path.write_bytes(b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + gray.tobytes())
        (folder / f"{number}.raw").write_bytes(gray[..., 0].tobytes())
        names.append(path)
        pixels.append(gray)
    names.insert(3, folder / "missing.ppm")
    (folder / "list").write_text("".join(f"{name}\n" for name in names))
    return folder / "list", pixels


@pytest.fixture(scope="module")
def model(xmodel, tmp_path_factory) -> pathlib.Path:
    return prepared(xmodel, tmp_path_factory.mktemp("model"), TEXT)


def expected(model: pathlib.Path, pixels: list[np.ndarray], kind: str = "ppm") -> list[list[str]]:
    lines = []
    for number, image in enumerate(pixels):
        scores = softmax(ai_library.results(model, image, HEADS, rgb=False)["digit"].ravel())
        best = np.argsort(-scores, kind="stable")[:3]
        lines.append(
            [str(number + 1), f"{number}.{kind}", str(WIDTH), str(HEIGHT)]
            + [word for i in best for word in (str(i), f"{scores[i]:.4f}")]
        )
    return lines


def written(path: pathlib.Path) -> list[list[str]]:
    lines = [line.split() for line in path.read_text().splitlines()]
    return [[*line[:4], *(w if i % 2 == 0 else f"{float(w):.4f}" for i, w in enumerate(line[4:]))]
            for line in lines]  # fmt: skip


@pytest.mark.parametrize("arguments", [(), ("-t", "3")])
@pytest.mark.parametrize("mode", ["", "exit"])
def test_lists_of_pictures(program, model, pictures, tmp_path, arguments, mode):
    done = run(program, model, pictures[0], tmp_path / "out", *arguments, MODE=mode)
    assert "cannot read image: " in done.stderr and "missing.ppm" in done.stderr
    assert written(tmp_path / "out") == expected(model, pictures[1])


def test_lists_of_other_files(program, model, pictures, tmp_path):
    names = [pictures[0].with_name(f"{number}.raw") for number in range(6)]
    (tmp_path / "list").write_text("".join(f"{name}\n" for name in names))
    done = run(
        program, model, tmp_path / "list", tmp_path / "out", "-t", 2, MODE="raw", DEBUG_DEMO="1"
    )
    assert "ReadImageThread 6" in done.stdout
    assert written(tmp_path / "out") == expected(model, pictures[1], "raw")


def test_rounding_by_the_program(program, model, pictures, tmp_path):
    for name, settings in {
        "plain": {},
        "program": {"ROUND": "1"},
        "environment": {"XLNX_ENABLE_ROUND_SETINPUT": "1"},
    }.items():
        run(program, model, pictures[0], tmp_path / name, **settings)
    assert written(tmp_path / "program") == written(tmp_path / "environment")
    assert (tmp_path / "program").read_text() != (tmp_path / "plain").read_text()


@pytest.mark.parametrize("text", [None, "", "nothing.ppm\n"])
def test_lists_without_pictures(program, model, tmp_path, text):
    if text is not None:
        (tmp_path / "list").write_text(text)
    done = run(program, model, tmp_path / "list", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert ("cannot read list " if text is None else "no images in list ") in done.stderr


def test_arguments_of_accuracy(program, model, tmp_path):
    done = run(program, model, "-x", tmp_path / "out", check=False)
    assert done.returncode == 1
    assert "usage: " in done.stdout
