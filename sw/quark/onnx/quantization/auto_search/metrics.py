# SPDX-License-Identifier: Apache-2.0
"""How far results of a quantized model are from those of the float one, by Quark's names."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import UnsupportedError

Array = npt.NDArray[np.float64]

PEAK = 255.0
"""Largest value that ``psnr`` and ``ssim`` take results to have, as of images."""
STABLE = (0.01, 0.03)
"""What keeps the quotients of ``ssim`` apart from zero, in parts of the peak."""
DISTANCES = ("l1", "l2")
"""Metrics that are the better the smaller; of others, the larger."""


def l1(found: Array, wanted: Array) -> float:
    """Return the mean of the differences' magnitudes."""
    return float(np.abs(found - wanted).mean())


def l2(found: Array, wanted: Array) -> float:
    """Return the mean of the differences' squares."""
    return float(np.square(found - wanted).mean())


def cos(found: Array, wanted: Array) -> float:
    """Return the cosine of the angle between both as vectors, from -1 to 1 moved to 0 to 1.

    It is 1 where one of them is zero.
    """
    length = float(np.linalg.norm(found) * np.linalg.norm(wanted))
    return (1 + float(found.ravel() @ wanted.ravel()) / length) / 2 if length else 1.0


def psnr(found: Array, wanted: Array) -> float:
    """Return the ratio of the peak to the noise, in dB; infinite without noise."""
    noise = l2(found, wanted)
    return float(10 * np.log10(PEAK**2 / noise)) if noise else float("inf")


def ssim(found: Array, wanted: Array) -> float:
    """Return the structural similarity of both as a whole, not of windows of them."""
    one, two = ((part * PEAK) ** 2 for part in STABLE)
    means = found.mean(), wanted.mean()
    together = float(((found - means[0]) * (wanted - means[1])).mean())
    above = (2 * means[0] * means[1] + one) * (2 * together + two)
    below = (means[0] ** 2 + means[1] ** 2 + one) * (found.var() + wanted.var() + two)
    return float(above / below)


METRICS: dict[str, Callable[[Array, Array], float]] = {
    "l1": l1, "l2": l2, "cos": cos, "psnr": psnr, "ssim": ssim,
}  # fmt: skip


def metric_of(name: str) -> Callable[[Sequence[Array], Sequence[Array]], float]:
    """Return a metric by name, of any case: the mean over all results.

    Raises
    ------
    UnsupportedError
        There is none of this name.
    """
    found = METRICS.get(str(name).lower())
    if found is None:
        raise UnsupportedError(
            f"search_metric is {name!r}, but must be one of {', '.join(METRICS)}"
        )
    chosen = found
    return lambda some, wanted: float(
        np.mean([chosen(a, b) for a, b in zip(some, wanted, strict=True)])
    )
