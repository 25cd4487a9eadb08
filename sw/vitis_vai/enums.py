# SPDX-License-Identifier: Apache-2.0
"""Enumerations of the guide's table 48."""

import enum
from typing import Never

from opendpu_arch.errors import UnsupportedError


class AccuracyMode(enum.Enum):
    """What becomes of quantization on the CPU."""

    Default = "default"
    """Operators on the CPU compute in float."""
    ReserveReduantFixNeurons = "reserve_redundant_fix_neurons"
    """Their results are rounded as in the quantized model; the spelling is the guide's."""

    @classmethod
    def _missing_(cls, value: object) -> Never:
        names = ", ".join(f"{cls.__name__}.{mode.name}" for mode in cls)
        raise UnsupportedError(f"accuracy_mode is {value!r}, but must be one of {names}")
