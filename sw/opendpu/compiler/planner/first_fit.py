# SPDX-License-Identifier: Apache-2.0
"""First-fit placement in a row of cells: words of a bank, bytes of a segment."""

from collections.abc import Iterable


def first_fit(size: int, taken: Iterable[tuple[int, int]], limit: int | None) -> int | None:
    """Return the lowest start of ``size`` free cells beside the ``taken`` (start, end) ranges."""
    at = 0
    for start, end in sorted(taken):
        if start - at >= size:
            break
        at = max(at, end)
    return None if limit is not None and at + size > limit else at


def holes(taken: Iterable[tuple[int, int]], limit: int) -> list[tuple[int, int]]:
    """Return the free (start, end) ranges below ``limit``."""
    found, at = [], 0
    for start, end in sorted(taken):
        if start > at:
            found.append((at, start))
        at = max(at, end)
    if at < limit:
        found.append((at, limit))
    return found
