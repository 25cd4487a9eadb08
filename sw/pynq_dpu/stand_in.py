# SPDX-License-Identifier: Apache-2.0
"""What programs with a DPU use of the package ``pynq``, where that is not installed.

PYNQ itself works on boards only. Its place is taken here as far as no hardware but the DPU is
needed: :func:`allocate` gives memory of the host. Importing :mod:`pynq_dpu` makes ``import pynq``
find this module, unless there is a package of that name.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import UnsupportedError

NAME = "pynq"


class PynqBuffer(np.ndarray[Any, np.dtype[Any]]):
    """An array that programs may flush and free as those that a board's DMA reaches."""

    cacheable = True
    coherent = True

    def flush(self) -> None:
        """Do nothing: there is one memory."""

    invalidate = sync_to_device = sync_from_device = flush

    @property
    def device_address(self) -> int:
        """Raise UnsupportedError: a device's address of this memory is not known."""
        raise UnsupportedError(
            f"memory that {__file__} allocates in place of {NAME} has no address for a device; "
            f"install {NAME} on the board"
        )

    physical_address = device_address

    def freebuffer(self) -> None:
        """Do nothing: memory is freed with its last array."""

    close = freebuffer

    def __enter__(self) -> Self:
        """Return the buffer."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing."""


def allocate(
    shape: int | Sequence[int], dtype: npt.DTypeLike = "u4", target: Any = None, **kwargs: Any
) -> PynqBuffer:
    """Return a buffer of zeros; ``target`` and other keywords are about a board's memories."""
    return np.zeros(shape, dtype).view(PynqBuffer)


def get_rails() -> dict[str, Any]:
    """Return the power rails that can be measured: none."""
    return {}


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"{NAME}.{name} needs a board: without one, {NAME} has allocate and get_rails, and the DPU "
        f"is pynq_dpu.DpuOverlay"
    )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds this module under PYNQ's name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != NAME:
            return None
        return importlib.util.spec_from_file_location(NAME, __file__)


def install() -> None:
    """Let ``import pynq`` find this module where it finds nothing else."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
