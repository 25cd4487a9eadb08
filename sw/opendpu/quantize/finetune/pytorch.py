# SPDX-License-Identifier: Apache-2.0
"""PyTorch, which is imported only where something is trained."""

import contextlib
import types
from collections.abc import Iterator

from opendpu_arch.errors import UnsupportedError


def torch_module() -> types.ModuleType:
    """Return the module ``torch``.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise UnsupportedError(
            "finetuning needs PyTorch, which is not installed: pip install 'opendpu[torch]'"
        ) from error
    return torch


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Let PyTorch use so many threads for a while; none for as many as it did before.

    Products that are small wait longer for a second thread than they compute, and much longer on
    a machine that does other work.
    """
    torch = torch_module()
    before = torch.get_num_threads()
    torch.set_num_threads(min(before, count or before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
