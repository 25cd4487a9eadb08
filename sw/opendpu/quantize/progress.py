# SPDX-License-Identifier: Apache-2.0
"""What is going on: the step, the layer, how much of it is done and how long the rest may take."""

import time
from collections.abc import Callable


def silent(text: str) -> None:
    """Show nothing of what is going on: what ``show`` is by default."""


class Progress:
    """Tells ``show`` what is going on, in one line at a time.

    Nothing else depends on the clock: results do not.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._what = ""
        self._start = 0.0

    def say(self, text: str) -> None:
        """Show a text as it is."""
        self._what = ""
        self._show(text)

    def step(self, what: str, done: int, total: int, name: str = "") -> None:
        """Show that ``done`` of ``total`` parts of a step are over, and the one that is next."""
        now = time.monotonic()
        if what != self._what:
            self._what, self._start = what, now
        share = done / max(total, 1)
        text = f"{what}: {share:.0%}, {done} of {total}"
        if name:
            text += f", {name}"
        passed = now - self._start
        if done and done < total and passed > 1:
            text += f", {_duration(passed / done * (total - done))} left"
        self._show(text)


def _duration(seconds: float) -> str:
    """Return seconds as people say it: ``40 s``, ``3 min``."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
