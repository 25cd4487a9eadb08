# SPDX-License-Identifier: Apache-2.0
"""One thread for numpy's products of matrices while a network is quantized.

Threads of a BLAS spin while they wait for each other and for the next product, which takes the
cores from onnxruntime's threads and from other processes. What a product of several threads sums
up depends on their number, too.
"""

import contextlib
import threading
from collections.abc import Iterator

from threadpoolctl import threadpool_limits


class _OneThread:
    """The limit of a process, from the first that asks for it to the last one that needs it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: threadpool_limits | None = None

    def take(self) -> None:
        with self._lock:
            if not self._users:
                self._limit = threadpool_limits(limits=1, user_api="blas")
            self._users += 1

    def give_back(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


_PROCESS = _OneThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let products of numpy take one thread of the process, as a context or a decorator.

    Runs that overlap, in threads of their own or one in the other, share the limit: what was before
    is back when the last one ends.
    """
    _PROCESS.take()
    try:
        yield
    finally:
        _PROCESS.give_back()
