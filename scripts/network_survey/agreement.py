# SPDX-License-Identifier: Apache-2.0
"""How well results of a quantized network agree with those of the float network.

Results are as ONNX has them, with an axis for the samples in front.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SCORE = 0.25
"""Least score of a box that counts."""
OVERLAP = 0.5
"""Least intersection over union of the same box."""
SUPPRESSED = 0.45
"""Intersection over union from which the weaker box of a class is dropped."""
MASK = 0.3
"""Probability from which a pixel is text."""


def sqnr(floating: Mapping[str, Array], quantized: Mapping[str, Array]) -> float | None:
    """Return the least signal to quantization noise ratio of all results, in dB."""
    found = []
    for name, wanted in floating.items():
        noise = float(np.square(quantized[name].astype(np.float64) - wanted).sum())
        signal = float(np.square(wanted.astype(np.float64)).sum())
        if noise and signal:
            found.append(10 * np.log10(signal / noise))
    return min(found, default=None)


def _same_class(axis: int) -> Callable[[Array, Array], tuple[int, int]]:
    def compare(wanted: Array, found: Array) -> tuple[int, int]:
        same = wanted.argmax(axis) == found.argmax(axis)
        return int(same.sum()), same.size

    return compare


def _same_text(wanted: Array, found: Array) -> tuple[int, int]:
    """Compare texts: the best symbols, without repetitions and blanks."""
    one, other = (array.argmax(-1).reshape(len(array), -1) for array in (wanted, found))
    same = [_decoded(a) == _decoded(b) for a, b in zip(one, other, strict=True)]
    return sum(same), len(same)


def _decoded(symbols: Array) -> list[int]:
    starts = np.concatenate([[True], symbols[1:] != symbols[:-1]])
    return [int(s) for s in symbols[starts] if s]


def _same_mask(wanted: Array, found: Array) -> tuple[int, int]:
    one, other = wanted > MASK, found > MASK
    return int((one & other).sum()), int((one | other).sum())


def _same_boxes(wanted: Array, found: Array) -> tuple[int, int]:
    """Count the float network's boxes that the quantized network finds; and those it adds."""
    same = count = 0
    for (one,), (other,) in zip(wanted, found, strict=True):
        boxes, rest = _detections(one), _detections(other)
        hits = 0
        for kind, box in boxes:
            match = next((r for r in rest if r[0] == kind and _overlap(box, r[1]) >= OVERLAP), None)
            if match is not None:
                rest.remove(match)
                hits += 1
        same += hits
        count += len(boxes) + len(rest)
    return same, count


def _detections(result: Array) -> list[tuple[int, tuple[float, ...]]]:
    """Return class and box of what is found; the result is [4 + classes, anchors]."""
    scores = result[4:].max(0)
    kept: list[tuple[int, tuple[float, ...]]] = []
    for anchor in np.argsort(-scores):
        if scores[anchor] < SCORE:
            break
        kind = int(result[4:, anchor].argmax())
        box = tuple(result[:4, anchor].tolist())
        if all(k != kind or _overlap(box, b) < SUPPRESSED for k, b in kept):
            kept.append((kind, box))
    return kept


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """Return the intersection over union of boxes: center, width, height."""
    sides = []
    for axis in (0, 1):
        low = max(b[axis] - b[axis + 2] / 2 for b in (one, other))
        high = min(b[axis] + b[axis + 2] / 2 for b in (one, other))
        sides.append(max(high - low, 0.0))
    both = sides[0] * sides[1]
    whole = one[2] * one[3] + other[2] * other[3] - both
    return both / whole if whole > 0 else 0.0


MEASURES: dict[str, tuple[str, Callable[[Array, Array], tuple[int, int]]]] = {
    "classes": ("top 1", _same_class(-1)),
    "pixels": ("pixels", _same_class(-3)),
    "text": ("texts", _same_text),
    "mask": ("text pixels", _same_mask),
    "boxes": ("boxes", _same_boxes),
}
"""What is counted, and how: how many agree, and of how many."""


def agreement(
    measure: str, floating: Mapping[str, Array], quantized: Mapping[str, Array]
) -> tuple[str, int, int] | None:
    """Return what is counted in the first result, how many agree, and of how many."""
    if not measure:
        return None
    name = next(iter(floating))
    label, compare = MEASURES[measure]
    return (label, *compare(floating[name], quantized[name]))
