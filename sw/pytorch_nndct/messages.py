# SPDX-License-Identifier: Apache-2.0
"""Messages in the form of the guide: ``[VAIQ_NOTE]: …``, ``[VAIQ_WARN][ID]: …``, errors likewise.

Ids and their meanings are those of :mod:`opendpu_arch.codes`; one that is not there is refused.

>>> messages.note("=>Start to inspect model...")
>>> messages.warn("QUANTIZER_TORCH_LEAKYRELU", "op 'act': 0.2 became 0.1015625")
>>> raise messages.error("QUANTIZER_TORCH_NO_CALIBRATION", "quant_model was never called")
"""

import sys

from opendpu_arch.codes import Severity, find
from opendpu_arch.errors import DPUError


class VAIQError(DPUError):
    """An error of the quantizer's PyTorch surface; its text begins with ``[VAIQ_ERROR][ID]``."""

    def __init__(self, code: str, text: str) -> None:
        self.code = find(code, Severity.ERROR).id
        self.text = text
        Exception.__init__(self, f"[VAIQ_ERROR][{code}]: {text}")


def note(text: str) -> None:
    """Print what is going on, on standard output as AMD's tools do."""
    sys.stdout.write(f"\n[VAIQ_NOTE]: {text}\n")
    sys.stdout.flush()


def warn(code: str, text: str) -> None:
    """Print a warning of the guide's Table 22; the run goes on.

    Raises
    ------
    KeyError
        The table has no such id.
    """
    name = find(code, Severity.WARN).id
    sys.stdout.write(f"\n[VAIQ_WARN][{name}]: {text}\n")
    sys.stdout.flush()


def error(code: str, text: str) -> VAIQError:
    """Return the exception with an id of the guide's Table 23, to be raised.

    Raises
    ------
    KeyError
        The table has no such id.
    """
    return VAIQError(code, text)
