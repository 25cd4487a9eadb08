# SPDX-License-Identifier: Apache-2.0
"""Processes that a program starts anew know the execution provider as well as their parent does.

``multiprocessing`` hands such a process what it needs, pickled: something is added there that
registers the provider when it is read.
"""

import functools
import logging
import multiprocessing.spawn
from collections.abc import Callable
from typing import Any

from opendpu_arch.errors import DPUError

logger = logging.getLogger("opendpu.onnxruntime")


class _Registering:
    """Registers the provider where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return _register, ()


def _register() -> None:
    """Register the provider; where that fails, the process runs without it, and says so."""
    from opendpu.onnxruntime.registration import register

    try:
        register()
    except DPUError as error:
        logger.warning("a started process has no provider: %s", error)


@functools.cache
def hand_on() -> None:
    """Let processes that are started from now on register the provider, first of all."""
    own = multiprocessing.spawn.get_preparation_data

    def with_provider(name: str) -> dict[str, Any]:
        return {**own(name), "opendpu_provider": _Registering()}

    multiprocessing.spawn.get_preparation_data = with_provider
