# SPDX-License-Identifier: Apache-2.0
"""Errors of the engine in the guide's form, where they have one of its ids."""

import contextlib
from collections.abc import Iterator

from opendpu_arch.errors import DPUError
from pytorch_nndct import messages

_OURS = "QUANTIZER_TORCH_"


@contextlib.contextmanager
def as_the_guide_says() -> Iterator[None]:
    """Raise errors with an id of the quantizer as :class:`messages.VAIQError`; others pass."""
    try:
        yield
    except messages.VAIQError:
        raise
    except DPUError as error:
        if error.code is None or not error.code.startswith(_OURS):
            raise
        raise messages.error(error.code, error.message) from error
