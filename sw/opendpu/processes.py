# SPDX-License-Identifier: Apache-2.0
"""Worker processes of this host that begin anew.

A fork of a process with threads can wait forever for what one of them held, and ``spawn`` of the
standard library runs a script again that has no ``if __name__ == "__main__"``.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loky import ProcessPoolExecutor

ENVIRONMENT = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e15"}
"""A worker may grow: a second network in it is no leak."""


@contextlib.contextmanager
def worker_pool(
    workers: int, begin: Callable[..., None], arguments: Sequence[Any]
) -> Iterator[ProcessPoolExecutor]:
    """Give so many processes, each of which calls ``begin`` first.

    At the end they finish; after an exception they are killed, with their children.
    """
    pool = ProcessPoolExecutor(
        workers, initializer=begin, initargs=tuple(arguments), env=ENVIRONMENT
    )
    ended = False
    try:
        yield pool
        ended = True
    finally:
        pool.shutdown(kill_workers=not ended)
