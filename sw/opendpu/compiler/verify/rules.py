# SPDX-License-Identifier: Apache-2.0
"""What a verifier finds."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True)
class Finding:
    """A rule that a value breaks."""

    op: str
    """Op, layer, feature map or instruction."""
    rule: str
    text: str


Rules = Callable[[Any, Target], Iterator[Finding]]
"""Yields every finding about a value."""
