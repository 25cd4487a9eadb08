# SPDX-License-Identifier: Apache-2.0
"""How far work on many layers is, and how long the rest takes."""

import time
from collections.abc import Callable, Sequence

OVERHEAD = 1e4
"""What every layer takes, in units of one of its weights."""

CERTAIN = 0.02
"""Part of the work after which time left is said."""


class Clock:
    """Tells layer, percentage and time left.

    Parameters
    ----------
    what
        What is done: the first word of the text.
    layers
        Names, and numbers of weights, which the work is taken to grow with.
    show
        Told the text.
    """

    def __init__(
        self, what: str, layers: Sequence[tuple[str, float]], show: Callable[[str], None]
    ) -> None:
        self._what, self._show = what, show
        self._names = [name for name, _ in layers]
        self._work = [size + OVERHEAD for _, size in layers]
        self._start = time.monotonic()
        self._number = 0

    def begin(self, number: int) -> None:
        """Start with a layer."""
        self._number = number
        self.tell(0.0)

    def tell(self, part: float) -> None:
        """Say that a part of the layer is done, 0 to 1."""
        work = sum(self._work[: self._number]) + part * self._work[self._number]
        share = work / sum(self._work)
        text = f"{self._what}: layer {self._number + 1} of {len(self._names)}"
        text += f" ({self._names[self._number]}), {100 * share:.0f} %"
        if share > CERTAIN:
            left = int((time.monotonic() - self._start) * (1 - share) / share)
            text += f", {left // 60}:{left % 60:02d} left"
        self._show(text)
