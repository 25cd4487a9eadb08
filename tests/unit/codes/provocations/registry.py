# SPDX-License-Identifier: Apache-2.0
"""Calls by the code that they give."""

import pathlib
from collections.abc import Callable

Call = Callable[[pathlib.Path], str | None]
"""Raises an error with the code, or returns a reason that ends with it; gets an empty folder."""

PROVOCATIONS: dict[str, list[Call]] = {}


def gives(code: str) -> Callable[[Call], Call]:
    """Register a call."""

    def register(call: Call) -> Call:
        PROVOCATIONS.setdefault(code, []).append(call)
        return call

    return register
