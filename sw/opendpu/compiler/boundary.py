# SPDX-License-Identifier: Apache-2.0
"""What happens between passes: whoever watches a compilation gets each pass's result."""

from collections.abc import Callable

Passed = Callable[[str, object], None]
"""Called with the name of a pass, one of ``opendpu.compiler.passes.PASSES``, and its result."""


def unwatched(name: str, value: object) -> None:
    """Do nothing with the result of a pass."""
