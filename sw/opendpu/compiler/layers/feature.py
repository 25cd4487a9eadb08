# SPDX-License-Identifier: Apache-2.0
"""What layers read and write: feature maps, and the windows that slide over them."""

import dataclasses

import numpy as np
import numpy.typing as npt

Int8Array = npt.NDArray[np.int8]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feature:
    """A feature map: ``height`` x ``width`` pixels of ``channels`` int8 values."""

    name: str
    height: int
    width: int
    channels: int
    planes: tuple[str, ...] = ()
    """The feature maps that are its channels side by side, where these do not lie together in DDR.
    In the banks each starts a word; ``channels`` counts whole words."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Window:
    """A sliding window: sizes, strides and zero padding, in rows and columns."""

    kernel_h: int = 1
    kernel_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
