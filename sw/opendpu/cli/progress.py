# SPDX-License-Identifier: Apache-2.0
"""What is going on, for people at a terminal; nothing where the output goes elsewhere."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console


@contextlib.contextmanager
def progress(first: str) -> Iterator[Callable[[str], None]]:
    """Show a line on stderr that a function replaces, and that is gone at the end.

    Where stderr is no terminal, nothing is written.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(first) as status:
        yield status.update
