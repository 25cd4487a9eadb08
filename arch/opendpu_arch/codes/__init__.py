# SPDX-License-Identifier: Apache-2.0
"""The guide's error codes and messages: what each means, and which OpenDPU gives."""

from opendpu_arch.codes.code import Code, Severity
from opendpu_arch.codes.quantizer_torch import QUANTIZER_TORCH

__all__ = ["CODES", "Code", "Severity", "find"]

CODES: tuple[Code, ...] = (*QUANTIZER_TORCH,)
"""Every code of the guide, in its order."""

_BY_ID = {(code.id, code.severity): code for code in CODES}


def find(name: str, severity: Severity = Severity.ERROR) -> Code:
    """Return a code by its id.

    Raises
    ------
    KeyError
        The guide has no such code: a mistake in our code, never of a model.
    """
    return _BY_ID[name, severity]
