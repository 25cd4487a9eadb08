# SPDX-License-Identifier: Apache-2.0
"""A folder of images as calibration data, read one at a time with Pillow."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from opendpu.calibration.preprocessing import Channels, Layout, Preprocessing, Size
from opendpu.ir import Array, Graph, Node
from opendpu_arch.errors import TensorError, ToolError, UnsupportedError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")
)
"""What is taken for an image; other files of a folder are left out, and hidden ones."""

_MODES = {1: "L", 3: "RGB"}
"""Pillow's modes by channels."""


@dataclasses.dataclass(frozen=True)
class Folder:
    """Images of a folder and its sub-folders, as samples of a network's only input.

    Iterating yields ``{input: array}``, an image at a time, so that they are never all in memory.

    Parameters
    ----------
    path
        The folder.
    files
        Its images, in order of their names.
    input
        Name of the input.
    shape
        Height, width and channels that the network takes.
    channels_first
        Whether the input is NCHW.
    preprocessing
        What is done to them.
    """

    path: pathlib.Path
    files: tuple[pathlib.Path, ...]
    input: str
    shape: tuple[int, int, int]
    channels_first: bool
    preprocessing: Preprocessing

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        graph: Graph,
        preprocessing: Preprocessing | None = None,
        *,
        limit: int | None = None,
    ) -> "Folder":
        """Return the images of a folder, or ``limit`` of them at equal distances, for a graph.

        ``path`` may be a single image.

        Raises
        ------
        TensorError
            The folder has no images, or the network does not take one image.
        UnsupportedError
            The preprocessing does not fit the input.
        ToolError
            Pillow is missing.
        """
        _pillow()
        folder, done = pathlib.Path(path), preprocessing or Preprocessing()
        node = _only_input(graph)
        first, shape = _image_shape(graph, node, done.layout)
        if folder.is_file():
            files = [folder]
        else:
            found = (f for f in folder.rglob("*") if f.suffix.lower() in SUFFIXES)
            files = sorted(f for f in found if f.is_file() and not _is_hidden(f, folder))
        if not files:
            raise TensorError(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))})")
        if limit is not None and limit < len(files):
            files = [files[index * len(files) // limit] for index in range(limit)]
        made = cls(folder, tuple(files), node.name, shape, first, done)
        made.check()
        return made

    def check(self) -> None:
        """Raise UnsupportedError if the preprocessing does not fit the input."""
        height, width, count = self.shape
        for what in ("mean", "scale"):
            self.preprocessing.per_channel(what, count)
        channels = self.preprocessing.channels
        if channels is not Channels.AUTO and (channels is Channels.GRAY) != (count == 1):
            raise UnsupportedError(
                f"--channels is {channels}, but input {self.input!r} has {count} channels"
            )
        done = self.preprocessing
        final = done.crop if done.crop is not None else done.resize
        if isinstance(final, tuple) and final != (height, width):
            raise UnsupportedError(
                f"images get {final[0]}x{final[1]} pixels, but input {self.input!r} takes "
                f"{height}x{width}"
            )

    def __len__(self) -> int:
        """Return how many images there are."""
        return len(self.files)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        """Yield the images."""
        for file in self.files:
            yield {self.input: self.sample(file)}

    def first(self) -> dict[str, Array]:
        """Return the first image."""
        return {self.input: self.sample(self.files[0])}

    def sample(self, file: pathlib.Path) -> Array:
        """Return an image as float32 [1, ...]; TensorError for a file that is none."""
        height, width, count = self.shape
        pixels = np.asarray(self._sized(file), np.float32).reshape(height, width, count)
        if self.preprocessing.channels is Channels.BGR:
            pixels = pixels[:, :, ::-1]
        mean, scale = (
            np.array(self.preprocessing.per_channel(what, count), np.float32)
            for what in ("mean", "scale")
        )
        made = ((pixels - mean) * scale)[None]
        return np.ascontiguousarray(made.transpose(0, 3, 1, 2) if self.channels_first else made)

    def _sized(self, file: pathlib.Path) -> "Image.Image":
        """Return an image in the network's size."""
        from PIL import Image

        height, width, count = self.shape
        try:
            with Image.open(file) as opened:
                if opened.mode == "F":
                    raise ValueError("pixels are floating-point numbers; give an .npz file")
                image = _in_bytes(opened).convert(_MODES[count])
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise TensorError(f"{file} cannot be read as an image: {error}") from None
        rows, columns = self._resized((image.height, image.width))
        image = image.resize((columns, rows), Image.Resampling.BILINEAR)
        if (rows, columns) == (height, width):
            return image
        if rows < height or columns < width:
            raise TensorError(
                f"{file} has {rows}x{columns} pixels after --resize, but input {self.input!r} "
                f"takes {height}x{width}"
            )
        top, left = (rows - height) // 2, (columns - width) // 2
        return image.crop((left, top, left + width, top + height))

    def _resized(self, size: Size) -> Size:
        """Return height and width before cropping, of an image of a size."""
        wanted = self.preprocessing.resize
        if wanted is None:
            return self.shape[:2]
        if isinstance(wanted, tuple):
            return wanted
        short = min(size)
        return round(size[0] * wanted / short), round(size[1] * wanted / short)


def _is_hidden(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Return whether a file, or a folder of it in ``folder``, is hidden: it is no user's own."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _in_bytes(image: "Image.Image") -> "Image.Image":
    """Return an image of 16 bits a pixel with the upper ones, as of other images; any other one.

    Pillow's own conversion would make white of nearly all of them.
    """
    from PIL import Image

    if not image.mode.startswith("I"):
        return image
    return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8))


def _only_input(graph: Graph) -> Node:
    heads = [node for node in graph if node.kind == "data"]
    if len(heads) != 1:
        raise TensorError(
            f"a folder of images can calibrate a network of one input, but graph {graph.name!r} "
            f"has {len(heads)} ({', '.join(node.name for node in heads)}); give an .npz file"
        )
    return heads[0]


def _image_shape(graph: Graph, node: Node, layout: Layout) -> tuple[bool, tuple[int, int, int]]:
    """Return whether an input is given channels first, and height, width and channels.

    Inputs that the graph has in another order of axes than the model are given as the graph has
    them: NHWC.
    """
    shape = node.shape
    if len(shape) == 4 and shape[0] == 1:
        reordered = node.name in graph.attrs.get("onnx_order", {})
        first = layout is Layout.NCHW or (
            layout is Layout.AUTO and shape[3] not in _MODES and shape[1] in _MODES
        )
        first = first and not reordered
        height, width, count = (*shape[2:], shape[1]) if first else shape[1:]
        if count in _MODES:
            return first, (height, width, count)
    raise TensorError(
        f"input {node.name!r} has shape {list(shape)}, but images need [1, height, width, 1 or 3] "
        "or [1, 1 or 3, height, width]; give an .npz file"
    )


def _pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise ToolError(
            "Pillow, which reads images, is missing; install it with: pip install pillow"
        ) from None
