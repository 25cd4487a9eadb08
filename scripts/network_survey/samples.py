# SPDX-License-Identifier: Apache-2.0
"""Real data for networks, from installed packages: photographs, text, files; and made-up sound."""

import functools
import importlib.metadata
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

PICTURES = (
    ("scikit-image", "skimage/data", ("astronaut.png", "coffee.png", "chelsea.png", "rocket.jpg",
                                      "motorcycle_left.png", "retina.jpg")),
    ("matplotlib", "matplotlib/mpl-data/sample_data", ("grace_hopper.jpg",)),
    ("scikit-learn", "sklearn/datasets/images", ("china.jpg", "flower.jpg")),
)  # fmt: skip
"""Photographs by distribution and folder."""
PAGES = ("scikit-image", "skimage/data", ("page.png", "text.png"))
"""Scanned text."""
LICENSE = pathlib.Path(__file__).resolve().parents[2] / "LICENSE"
"""The words of drawn lines."""
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet."""
RATE = 16000


def pictures(groups: tuple[Any, ...] = PICTURES) -> list[Image.Image]:
    """Return the photographs of those packages that are installed."""
    found = []
    for package, folder, files in groups:
        try:
            base = importlib.metadata.distribution(package).locate_file(folder)
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [_opened(pathlib.Path(str(base)) / name) for name in files]
    return found


@functools.cache
def _opened(path: pathlib.Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _crops(images: list[Image.Image], shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """Yield crops of random size and place, [height, width, 3]."""
    height, width = shape
    while True:
        image = images[int(rng.integers(len(images)))]
        scale = rng.uniform(0.4, 1.0) * min(image.width / width, image.height / height)
        across, down = scale * width, scale * height
        left, top = rng.uniform(0, image.width - across), rng.uniform(0, image.height - down)
        box = (left, top, left + across, top + down)
        yield np.asarray(image.resize((width, height), Image.Resampling.BILINEAR, box))


def _whole(images: list[Image.Image], shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """Yield each picture as a whole, [height, width, 3], then crops."""
    height, width = shape
    for image in images:
        yield np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    yield from _crops(images, shape, rng)


def _lines(images: list[Image.Image], shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """Yield lines of text, drawn over pale photographs: [height, width, 3]."""
    height, width = shape
    words = LICENSE.read_text().split()
    backgrounds = _whole(images, shape, rng)
    while True:
        paper = 255 - (255 - next(backgrounds)) // 4
        image = Image.fromarray(paper.astype(np.uint8))
        font = ImageFont.load_default(size=height * rng.uniform(0.5, 0.75))
        first = int(rng.integers(len(words) - 8))
        text = words[first]
        for word in words[first + 1 : first + 8]:
            if font.getlength(f"{text} {word}") > 0.95 * width:
                break
            text = f"{text} {word}"
        dark = tuple(int(c) for c in rng.integers(0, 90, 3))
        ImageDraw.Draw(image).text((0.03 * width, 0.1 * height), text, fill=dark, font=font)
        yield np.asarray(image)


def _files(_: list[Image.Image], shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """Yield the first and the last bytes of files of installed packages, as magika takes them."""
    half = shape[0] // 2
    names = [f for f in importlib.metadata.files("numpy") or [] if "__pycache__" not in str(f)]
    while True:
        path = pathlib.Path(str(names[int(rng.integers(len(names)))].locate()))
        if not path.is_file() or path.stat().st_size < 2 * half:
            continue
        content = np.frombuffer(path.read_bytes(), np.uint8)
        yield np.concatenate([content[:half], content[-half:]]).astype(np.int32)


def _sound(_: list[Image.Image], shape: Shape, rng: np.random.Generator) -> Iterator[Array]:
    """Yield voiced sounds: harmonics that rise and fall, in noise."""
    time = np.arange(shape[-1]) / RATE
    while True:
        pitch, vowel = rng.uniform(90, 250), rng.uniform(300, 2500)
        number = np.arange(1, 30)[:, None]
        loud = np.exp(-(((number * pitch - vowel) / 600) ** 2))
        phase = rng.uniform(0, 2 * np.pi, number.shape)
        wave = (loud * np.sin(2 * np.pi * pitch * number * time + phase)).sum(0)
        wave *= 1 + np.sin(2 * np.pi * rng.uniform(1, 6) * time)
        yield (0.1 * wave + 0.01 * rng.standard_normal(time.size)).reshape(shape)


def _normalized(image: Array) -> Array:
    return np.asarray((image / 255 - MEAN) / DEVIATION)


def _luminance(image: Array) -> Array:
    return np.asarray(image @ np.array([0.299, 0.587, 0.114]))[..., None] / 255


FORMS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "photographs, normalized": ("picture", _normalized),
    "photographs, 0 to 1": ("picture", lambda image: image / 255),
    "photographs, BGR 0 to 255": ("picture", lambda image: image[..., ::-1]),
    "photographs, luminance": ("picture", _luminance),
    "scanned text, -1 to 1": ("page", lambda image: image / 127.5 - 1),
    "lines of text, -1 to 1": ("line", lambda image: image / 127.5 - 1),
    "lines of text, luminance": ("line", _luminance),
    "sound": ("sound", lambda wave: wave),
    "files": ("file", lambda content: content),
}
"""What samples there are: of what, and in which form. Images become channels first."""


def samples(
    form: str, shape: Shape, dtype: np.dtype[Any], count: int, seed: int, *, whole: bool
) -> Array:
    """Return ``count`` samples of an input with a ``shape`` as ONNX has it, batch included.

    Pictures are ``whole`` as far as there are so many, or crops, which differ with the seed.

    Raises
    ------
    RuntimeError
        No package with photographs is installed.
    """
    kind, convert = FORMS[form]
    rng = np.random.default_rng(seed)
    images = pictures((PAGES,)) + pictures() if kind == "page" else pictures()
    if not images:
        raise RuntimeError("no photographs: install scikit-learn or scikit-image")
    spatial = kind in ("picture", "page", "line")
    photographs = _whole if whole else _crops
    make = {
        "picture": photographs,
        "page": photographs,
        "line": _lines,
        "file": _files,
        "sound": _sound,
    }
    source = make[kind](images, shape[-2:] if spatial else shape[1:], rng)
    found = []
    for _ in range(count):
        array = convert(next(source))
        found.append(np.moveaxis(array, -1, 0) if spatial else array)
    return np.stack(found).astype(dtype)
