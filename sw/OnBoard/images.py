# SPDX-License-Identifier: Apache-2.0
"""Images for TensorBoard: files, arrays, tensors of PyTorch and TensorFlow, with boxes."""

import io
import os
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import Summary

from opendpu_arch.errors import TensorError, ToolError

ORDERS = ("CHW", "HWC", "HW")
"""Of the axes of an array."""
_RED = (255, 0, 0)


def encoded(image: Any, order: str, boxes: Any = None) -> Summary.Image:
    """Return an image as TensorBoard keeps it.

    Parameters
    ----------
    image
        A file, or an array or tensor: pixels of 0..255, or of 0..1 where they are floats.
    order
        One of :data:`ORDERS`.
    boxes
        Boxes to draw, ``[N, 4]``: left, top, right, bottom in pixels; none for none.

    Raises
    ------
    TensorError
        It is no image, or those are no boxes.
    ToolError
        Pillow is missing.
    """
    try:
        from PIL import Image, ImageDraw
    except ModuleNotFoundError:
        raise ToolError("images need Pillow: pip install pillow") from None
    if isinstance(image, str | os.PathLike):
        try:
            found = Image.open(image).convert("RGB")
        except OSError as error:
            raise TensorError(f"{os.fspath(image)} is no image: {error}") from error
    else:
        found = Image.fromarray(_pixels(image, order))
    draw = ImageDraw.Draw(found)
    for left, top, right, bottom in _corners(boxes):
        xs, ys = sorted((left, right)), sorted((top, bottom))
        draw.rectangle((xs[0], ys[0], xs[1], ys[1]), outline=_RED, width=2)
    written = io.BytesIO()
    found.save(written, "PNG")
    return Summary.Image(
        height=found.height, width=found.width, colorspace=3,
        encoded_image_string=written.getvalue(),
    )  # fmt: skip


def _array(value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if hasattr(value, "detach"):  # a tensor of PyTorch, whose gradients NumPy would refuse
        value = value.detach().cpu()
    return np.asarray(value)


def _corners(boxes: Any) -> list[tuple[float, float, float, float]]:
    if boxes is None:
        return []
    found = _array(boxes)
    if found.ndim != 2 or found.shape[1] != 4:
        raise TensorError(f"boxes have shape {found.shape}, but must have [N, 4]")
    return [(left, top, right, bottom) for left, top, right, bottom in found.tolist()]


def _pixels(image: Any, order: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    array = _array(image)
    if order not in ORDERS or array.ndim != len(order):
        raise TensorError(
            f"an image with {array.ndim} axes has no dataformats {order!r}; "
            f"known: {', '.join(ORDERS)}"
        )
    if order == "CHW":
        array = array.transpose(1, 2, 0)
    if array.dtype.kind == "f":
        array = np.rint(np.clip(array, 0, 1) * 255)
    array = np.clip(array, 0, 255).astype(np.uint8)
    if array.ndim == 2 or array.shape[2] == 1:
        array = np.repeat(array.reshape(*array.shape[:2], 1), 3, axis=2)
    return array
