# SPDX-License-Identifier: Apache-2.0
"""Where the pixels of an alias are, when its holder has gaps itself."""

import dataclasses

from opendpu.compiler.layers import Feature
from opendpu.compiler.network import Alias


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strides:
    """Bytes from the first pixel of some root to that of a feature map, and between pixels."""

    offset: int
    pixel_bytes: int
    row_bytes: int


def dense(feature: Feature) -> Strides:
    """Return the strides of a feature map that has bytes of its own."""
    return Strides(
        offset=0, pixel_bytes=feature.channels, row_bytes=feature.width * feature.channels
    )


def strides_through(
    alias: Alias, feature: Feature, holder: Feature, placed: Strides
) -> Strides | None:
    """Return the strides of ``feature``, which is ``alias`` of ``holder``, itself ``placed``.

    None where no constant strides reach its pixels: their bytes are apart in ``placed``, or a row
    of it goes round the end of one of ``holder``.
    """
    if placed == dataclasses.replace(dense(holder), offset=placed.offset):
        return Strides(
            offset=placed.offset + alias.offset, pixel_bytes=alias.pixel_bytes,
            row_bytes=alias.row_bytes,
        )  # fmt: skip
    width, channels = holder.width, holder.channels
    if placed.row_bytes == width * placed.pixel_bytes:
        width *= holder.height  # one long row
    row, rest = divmod(alias.offset, width * channels)
    column, channel = divmod(rest, channels)
    if alias.overlapping or channel + feature.channels > channels:
        return None
    strides, reach = [], column
    for size, step in ((feature.width, alias.pixel_bytes), (feature.height, alias.row_bytes)):
        down, rest = divmod(step if size > 1 else 0, width * channels)
        across, gap = divmod(rest, channels)
        reach += (size - 1) * across
        if gap:
            return None
        strides.append(down * placed.row_bytes + across * placed.pixel_bytes)
    if reach >= width:
        return None
    return Strides(
        offset=placed.offset + row * placed.row_bytes + column * placed.pixel_bytes + channel,
        pixel_bytes=strides[0] or feature.channels,
        row_bytes=strides[1] or feature.width * (strides[0] or feature.channels),
    )
