# SPDX-License-Identifier: Apache-2.0
"""What AMD's module adds to the enumerations of ``onnxruntime.quantization``."""

import enum

from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType

from opendpu_arch.errors import UnsupportedError


class PowerOfTwoMethod(enum.Enum):
    """Ways to choose scales that are powers of two."""

    NonOverflow = 0
    """Nothing saturates."""
    MinMSE = 1
    """Least squared error."""


class VitisQuantFormat(enum.Enum):
    """Operators that quantize, beside those of ``QuantFormat``."""

    FixNeuron = 2
    """FixNeuron, which quantizes and dequantizes."""
    QDQ = 3
    """VAIQuantizeLinear and VAIDeQuantizeLinear, of any number of bits."""


class VitisQuantType(enum.Enum):
    """Element types, beside those of ``QuantType``."""

    QInt16 = 1
    QUInt16 = 2
    QInt32 = 3
    QUInt32 = 4
    QFloat16 = 5
    QBFloat16 = 6


class ExtendedQuantFormat(enum.Enum):
    """Quark's operators that quantize, beside those of ``QuantFormat``."""

    QOperator = 0
    """Operators on integers."""
    QDQ = 1
    """ExtendedQuantizeLinear and ExtendedDequantizeLinear, of any number of bits."""


class ExtendedQuantType(enum.Enum):
    """Quark's element types."""

    QInt8 = 1
    QUInt8 = 2
    QInt16 = 3
    QUInt16 = 4
    QInt32 = 5
    QUInt32 = 6
    QFloat16 = 7
    QBFloat16 = 8
    QBFP = 9
    QMX = 10


FORMS = {
    QuantFormat.QDQ: "native", QuantFormat.QOperator: "native", VitisQuantFormat.QDQ: "vai",
    VitisQuantFormat.FixNeuron: "fixneuron", ExtendedQuantFormat.QDQ: "quark",
}  # fmt: skip
"""Our names of the forms."""

METHODS = {
    PowerOfTwoMethod.NonOverflow: ("power_of_two", "nonoverflow"),
    PowerOfTwoMethod.MinMSE: ("power_of_two", "minmse"),
    CalibrationMethod.MinMax: ("float", "max"),
    CalibrationMethod.Entropy: ("float", "entropy"),
    CalibrationMethod.Percentile: ("float", "percentile"),
}
"""Our names of scale and method."""

INTEGERS = {
    QuantType.QInt4: (4, True), QuantType.QUInt4: (4, False), QuantType.QInt8: (8, True),
    QuantType.QUInt8: (8, False), QuantType.QInt16: (16, True), QuantType.QUInt16: (16, False),
    VitisQuantType.QInt16: (16, True), VitisQuantType.QUInt16: (16, False),
    VitisQuantType.QInt32: (32, True), VitisQuantType.QUInt32: (32, False),
    ExtendedQuantType.QInt8: (8, True), ExtendedQuantType.QUInt8: (8, False),
    ExtendedQuantType.QInt16: (16, True), ExtendedQuantType.QUInt16: (16, False),
    ExtendedQuantType.QInt32: (32, True), ExtendedQuantType.QUInt32: (32, False),
}  # fmt: skip
"""Bits, and whether there is a sign."""

FLOATS = {
    VitisQuantType.QFloat16: "float16", VitisQuantType.QBFloat16: "bfloat16",
    ExtendedQuantType.QFloat16: "float16", ExtendedQuantType.QBFloat16: "bfloat16",
}  # fmt: skip
"""Number formats."""


def form_of(quant_format: enum.Enum) -> str:
    """Return our name of a form; UnsupportedError for one that we do not write."""
    if quant_format not in FORMS:
        raise UnsupportedError(
            f"quant_format is {quant_format!r}, but must be one of {', '.join(map(str, FORMS))}"
        )
    return FORMS[quant_format]
