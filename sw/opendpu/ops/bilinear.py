# SPDX-License-Identifier: Apache-2.0
"""What each pixel of a block of a bilinearly enlarged feature map is made of."""

import dataclasses
import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_POINT = 7
"""Fractional bits of weights that are at most one."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Phase:
    """Pixels ``row``, ``column`` of each block: taps (HW) from input ``down``, ``across`` on."""

    row: int
    column: int
    down: int
    across: int
    weights: npt.NDArray[np.int8]


def bilinear_weights(
    scale_h: int, scale_w: int, *, half: bool
) -> tuple[int, tuple[Phase, ...]] | None:
    """Return fractional bits and weights of bilinear enlargement, if int8 holds them exactly.

    ``down`` and ``across`` are -1 or 0, relative to the pixel that a block comes from; what lies
    outside the feature map counts as its nearest pixel. With ``half``, output ``n`` is at
    ``(n + 1/2) / scale - 1/2``, else at ``n / scale``.
    """
    rows, columns = (
        [_taps(phase, scale, half) for phase in range(scale)] for scale in (scale_h, scale_w)
    )
    for point in range(MAX_POINT + 1):
        phases = []
        for (i, (down, high)), (j, (across, wide)) in itertools.product(
            enumerate(rows), enumerate(columns)
        ):
            scaled = [[a * b * 2**point for b in wide] for a in high]
            if any(w.denominator != 1 or w > 127 for line in scaled for w in line):
                break
            weights = np.array([[int(w) for w in line] for line in scaled], np.int8)
            phases.append(Phase(row=i, column=j, down=down, across=across, weights=weights))
        else:
            return point, tuple(phases)
    return None


def weights_of(attrs: Mapping[str, Any]) -> tuple[int, tuple[Phase, ...]] | None:
    """Return :func:`bilinear_weights` of a resize's ``scale`` and ``half_pixel_centers``.

    There are none of one that does not enlarge.
    """
    across, down = (round(float(factor)) for factor in attrs["scale"])
    if min(across, down) < 1:
        return None
    return bilinear_weights(down, across, half=bool(attrs.get("half_pixel_centers")))


def _taps(phase: int, scale: int, half: bool) -> tuple[int, list[Fraction]]:
    """Return the first input of a phase along one axis, and the shares of it and of the next."""
    at = Fraction(phase, scale)
    if half:
        at = (phase + Fraction(1, 2)) / scale - Fraction(1, 2)
    first = at.numerator // at.denominator
    share = at - first
    return first, [1 - share] if not share else [1 - share, share]
