# SPDX-License-Identifier: Apache-2.0
"""Tasks of the AI Library in C++ for raw images and clips of gray ones."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))

import sensor_models
from ai_library import run
from sensor_models import compiled, point_of, prepared, results

SOURCE = sensor_models.SOURCE

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def denoiser(tmp_path_factory) -> pathlib.Path:
    rng = np.random.default_rng(4)
    path = compiled(
        tmp_path_factory.mktemp("pmrid") / "pmrid.xmodel",
        (4, 64, 64),
        [("Conv", ["x", "w", "b"], "y", {"pads": [1, 1, 1, 1]})],
        {"w": rng.normal(0, 0.05, (4, 4, 3, 3)), "b": rng.normal(0, 4, 4)},
        {"y": (4, 64, 64)},
        rng.uniform(0, 256, (4, 4, 64, 64)),
    )
    return prepared(path, 'kernel { name: "k" mean: 0 scale: 1 }')


def sensor(iso: float) -> tuple[float, float]:
    """Return slope and shift that make what a sensor says independent of its ISO number."""
    gain = [0.0005995267 * i + 0.00868861 for i in (iso, 1600)]
    noise = [7.11772e-7 * i * i + 6.514934e-4 * i + 0.11492713 for i in (iso, 1600)]
    shift = (noise[0] / gain[0] ** 2 - noise[1] / gain[1] ** 2) * gain[1] / 959
    return gain[1] / gain[0], shift


@pytest.mark.parametrize("iso", [800, 6400])
def test_raw_images_without_noise(program, denoiser, tmp_path, iso):
    raw = np.random.default_rng(5).integers(0, 65536, (88, 120)).astype(np.uint16)
    raw.tofile(tmp_path / "raw")
    run(program, "pmrid", denoiser, tmp_path / "raw", 88, 120, iso, tmp_path / "out")
    found = np.fromfile(tmp_path / "out", np.float32).reshape(88, 120)

    slope, shift = sensor(iso)
    step = 2.0 ** -point_of(denoiser)
    planes = raw[::-1, ::-1].reshape(44, 2, 60, 2).transpose(0, 2, 1, 3).reshape(44, 60, 4)
    exact = np.full((64, 64, 4), shift * 256 / step)
    exact[10:-10, 2:-2] = (planes / 65535 * slope + shift) * 256 / step
    elements = np.trunc(np.clip(exact + 0.5, -128, 127))
    (added,) = results(denoiser, elements).values()
    assert np.ptp(added) > 10, "the network adds next to nothing"
    clean = ((elements * step + added)[10:-10, 2:-2] / 256 - shift) / slope
    expected = clean.reshape(44, 60, 2, 2).transpose(0, 2, 1, 3).reshape(88, 120)
    # Where a value is between two elements, the last bit of a float says which one it becomes.
    unsure = np.abs((exact + 0.5) - np.rint(exact + 0.5)).min(-1) < 1e-4
    far = np.ones((64, 64), bool)
    for y, x in zip(*np.nonzero(unsure), strict=True):
        far[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2] = False
    sure = np.repeat(np.repeat(far[10:-10, 2:-2], 2, 0), 2, 1)
    assert sure.mean() > 0.9
    np.testing.assert_allclose(found[sure], expected[sure], rtol=1e-4, atol=1e-5)


def test_raw_images_of_another_size(program, denoiser, tmp_path):
    np.zeros((64, 60), np.uint16).tofile(tmp_path / "raw")
    done = run(
        program, "pmrid", denoiser, tmp_path / "raw", 64, 60, 100, tmp_path / "out", check=False
    )
    assert done.returncode == 3
    assert "a raw image of 64x60 does not fit input " in done.stderr


@pytest.fixture(scope="module")
def clip_models(tmp_path_factory) -> tuple[pathlib.Path, pathlib.Path]:
    """Networks of a gray image and of five results."""
    rng, folder = np.random.default_rng(6), tmp_path_factory.mktemp("c2d2")
    image = compiled(
        folder / "image.xmodel",
        (1, 16, 16),
        [("Conv", ["x", "w"], "y", {"strides": [16, 16]})],
        {"w": rng.normal(0, 0.02, (6, 1, 16, 16))},
        {"y": (6, 1, 1)},
        rng.uniform(-1, 1, (8, 1, 16, 16)) * 2,
    )
    clip = compiled(
        folder / "clip.xmodel",
        (6, 5, 1),
        [("Conv", ["x", "w", "b"], "y", {})],
        {"w": rng.normal(0, 0.5, (1, 6, 5, 1)), "b": [0.3]},
        {"y": (1, 1, 1)},
        rng.uniform(-1, 1, (8, 6, 5, 1)),
    )
    kernel = 'kernel { name: "k" mean: 120 scale: 0.02 }'
    return prepared(image, kernel), prepared(clip, kernel)


def test_clips(program, clip_models, tmp_path):
    image, clip = clip_models
    pixels = np.random.default_rng(7).integers(0, 256, (5, 16, 16)).astype(np.uint8)
    pixels.tofile(tmp_path / "gray")
    line = run(program, "c2d2", image, clip, tmp_path / "gray", 16, 16).stdout
    elements = np.rint((pixels - 120.0) * 0.02 * 2.0 ** point_of(image))
    (first, *_), scale = results(image, elements[0]).values(), 2.0 ** point_of(clip)
    features = [next(iter(results(image, frame).values())).ravel() for frame in elements]
    np.testing.assert_array_equal(features[0], first.ravel())
    whole = np.array(features) * scale
    whole = np.trunc(whole + np.copysign(0.5, whole)).clip(-128, 127)
    ((value,),) = (v.ravel() for v in results(clip, whole).values())
    assert value != 0
    np.testing.assert_allclose(np.float64(line.split()), [value, 16, 16, 1], rtol=1e-6)


def test_clips_of_another_length(program, clip_models, tmp_path):
    np.zeros((4, 16, 16), np.uint8).tofile(tmp_path / "gray")
    done = run(program, "c2d2", *clip_models, tmp_path / "gray", 16, 16, check=False)
    assert done.returncode == 3
    assert "the clip has 4 images, each of which gives 6 values, but input " in done.stderr
    assert " takes 30" in done.stderr
