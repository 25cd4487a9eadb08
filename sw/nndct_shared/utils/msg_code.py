# SPDX-License-Identifier: Apache-2.0
"""Ids of messages as scripts name them: ``QError.NO_CALIBRATION``, ``QWarning.LEAKYRELU``."""

import enum

from opendpu_arch.codes import FAMILIES, Severity

PREFIX = "QUANTIZER_TORCH_"
"""What the guide has before each name."""


def _ids(severity: Severity) -> dict[str, str]:
    found = FAMILIES["Quantizer for PyTorch"]
    return {code.id.removeprefix(PREFIX): code.id for code in found if code.severity == severity}


QError = enum.StrEnum("QError", _ids(Severity.ERROR))  # type: ignore[misc]
"""Ids of errors."""

QWarning = enum.StrEnum("QWarning", _ids(Severity.WARN))  # type: ignore[misc]
"""Ids of warnings."""


class QNote(enum.StrEnum):
    """Ids of notes, which the guide does not have."""

    NOT_FUSED_BN = PREFIX + "NOT_FUSED_BN"
