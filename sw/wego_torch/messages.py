# SPDX-License-Identifier: Apache-2.0
"""Errors with the guide's ids ``WEGO_TORCH_…``, and what is said once in the log."""

import logging

from opendpu_arch.codes import find
from opendpu_arch.errors import DPUError

LOG = logging.getLogger("wego_torch")

_said: set[str] = set()


class WegoError(DPUError):
    """An error of WeGO-Torch; its text begins with the guide's id."""


def error(code: str, text: str) -> WegoError:
    """Return the exception with an id of the guide's Table 54, to be raised.

    Raises
    ------
    KeyError
        The guide has no such id.
    """
    return WegoError(text, code=find(code).id)


def say_once(text: str) -> None:
    """Write a warning into the log, the first time that it is given in this process."""
    if text not in _said:
        _said.add(text)
        LOG.warning(text)
