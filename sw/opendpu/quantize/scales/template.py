# SPDX-License-Identifier: Apache-2.0
"""From the specification of a tensor to a quantization that only lacks its scale."""

from opendpu.ir import NumberFormat, Quantization, Rounding
from opendpu.quantize.tensor_spec import TensorSpec

_ROUNDINGS = {
    "half_up": Rounding.DPU_ROUND, "half_even": Rounding.PY3_ROUND,
    "half_away": Rounding.STD_ROUND, "std_round": Rounding.STD_ROUND,
    "half_down": Rounding.HALF_DOWN, "floor": Rounding.FLOOR, "ceil": Rounding.CEIL,
    "toward_zero": Rounding.TOWARD_ZERO, "away_from_zero": Rounding.AWAY_FROM_ZERO,
}  # fmt: skip


def template_of(spec: TensorSpec) -> Quantization:
    """Return the quantization of a tensor with scale 1."""
    if spec.number_format != "int":
        return Quantization((1.0,), number_format=NumberFormat(spec.number_format))
    return Quantization(
        (1.0,), bits=spec.bits, signed=spec.signed, narrow=spec.narrow_range,
        rounding=_ROUNDINGS[spec.rounding],
    )  # fmt: skip


def has_fix_point(spec: TensorSpec) -> bool:
    """Return whether one power of two is the scale of a tensor, and zero stands for zero."""
    return spec.has_fix_point and spec.granularity == "per_tensor"
