# SPDX-License-Identifier: Apache-2.0
"""Worker processes of this host that begin anew.

A fork of a process with threads can wait forever for what one of them held, and ``spawn`` of the
standard library runs a script again that has no ``if __name__ == "__main__"``.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from loky import ProcessPoolExecutor

ENVIRONMENT = {"LOKY_MAX_MEMORY_LEAK_SIZE": "1e15"}
"""A worker may grow: a second network in it is no leak."""


LOOK = 1.0
"""Seconds after which a worker looks again whether the process that it works for is there."""


def _begin(owner: int, begin: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    begin(*arguments)


def _end_with(owner: int) -> None:
    """End this process when the one that has begun it is gone, however that ended."""
    while os.getppid() == owner:
        time.sleep(LOOK)
    os._exit(1)


@contextlib.contextmanager
def worker_pool(
    workers: int, begin: Callable[..., None], arguments: Sequence[Any]
) -> Iterator[ProcessPoolExecutor]:
    """Give so many processes, each of which calls ``begin`` first.

    At the end they finish; after an exception they are killed, with their children. Where this
    process is killed, they notice, and end.
    """
    pool = ProcessPoolExecutor(
        workers, initializer=_begin, initargs=(os.getpid(), begin, *arguments), env=ENVIRONMENT
    )
    ended = False
    try:
        yield pool
        ended = True
    finally:
        pool.shutdown(kill_workers=not ended)
