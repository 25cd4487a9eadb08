# SPDX-License-Identifier: Apache-2.0
"""Enumerations of the guide's table 48."""

import enum


class AccuracyMode(enum.Enum):
    """What becomes of quantization on the CPU."""

    Default = "default"
    """Operators on the CPU compute in float."""
    ReserveReduantFixNeurons = "reserve_redundant_fix_neurons"
    """Their results are rounded as in the quantized model; the spelling is the guide's."""
