# SPDX-License-Identifier: Apache-2.0
"""PyTorch, which is imported only where something is trained."""

import types

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
