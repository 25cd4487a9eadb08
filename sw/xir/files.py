# SPDX-License-Identifier: Apache-2.0
"""Files that appear when they are complete, or not at all."""

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of ``path`` when the block ends.

    When the block raises, the temporary file vanishes and what was at ``path`` stays.

    Raises
    ------
    OSError
        The file cannot be written.
    """
    target = pathlib.Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = pathlib.Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
