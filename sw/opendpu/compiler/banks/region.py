# SPDX-License-Identifier: Apache-2.0
"""Words of the image banks."""

import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True, kw_only=True)
class Region:
    """Words of an image bank group that hold a feature map or a moving part of it.

    Row ``r`` is the ``k``-th stored row, ``k = r - first_row``; ``stride`` consecutive rows share a
    bank, ``capacity`` address groups follow each other and then start again.
    """

    bank_group: int
    base: int
    words: int
    stride: int
    capacity: int
    first_row: int = 0
    whole: bool = False
    """The region holds the whole feature map until its last reader."""


class BankAccess(NamedTuple):
    """Words ``low .. low + words`` (modulo the depth) of banks ``bank .. bank + banks``.

    Every ``step``-th of them, from the first one on.
    """

    write: bool
    bank: int
    banks: int
    low: int
    words: int
    step: int = 1
