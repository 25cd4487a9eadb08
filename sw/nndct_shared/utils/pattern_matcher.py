# SPDX-License-Identifier: Apache-2.0
"""A pattern of operators, as scripts import it; AMD's search for it in AMD's graphs is not here."""

import dataclasses
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass
class PatternType:
    """Types of operators that follow each other, and what to do with where they are."""

    pattern: list[str]
    action: Callable[..., Any] | None = None
