# SPDX-License-Identifier: Apache-2.0
"""The operators that PyTorch's ONNX exporter knows, collected once in a process.

``torch.onnx.export`` collects them anew for every program, and parses the sources of some 500
functions for that: most of the time that a small program takes, of which ``torch.compile`` converts
dozens.
"""

import contextlib
import copy
import functools
import threading
from collections.abc import Iterator
from typing import Any

from torch.onnx._internal.exporter._registration import ONNXRegistry

_COLLECT = "from_torchlib"
_original = getattr(ONNXRegistry, _COLLECT)
_lock = threading.RLock()


@functools.cache
def _collected(*args: Any, **kwargs: Any) -> ONNXRegistry:
    found: ONNXRegistry = _original(*args, **kwargs)
    return found


def registry(*args: Any, **kwargs: Any) -> ONNXRegistry:
    """Return the operators for an operator set, as ``ONNXRegistry.from_torchlib`` takes it.

    What is registered there later does not change what the next caller gets.
    """
    with _lock:
        found = _collected(*args, **kwargs)
        made = copy.copy(found)
        made.functions = {target: list(items) for target, items in found.functions.items()}
    return made


@contextlib.contextmanager
def collected_once() -> Iterator[None]:
    """Let PyTorch's ONNX exporter take the operators from here; one thread at a time."""
    with _lock:
        before = vars(ONNXRegistry)[_COLLECT]
        setattr(ONNXRegistry, _COLLECT, staticmethod(registry))
        try:
            yield
        finally:
            setattr(ONNXRegistry, _COLLECT, before)
