# SPDX-License-Identifier: Apache-2.0
"""How tensors are quantized, by class: ``Int8Spec()``, ``XInt8Spec()``, ``QLayerConfig``."""

import enum
import glob
from collections.abc import Sequence

from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch.errors import UnsupportedError


class CalibMethod(enum.Enum):
    """Ways to choose a scale."""

    MinMax = 0
    MinMSE = 1
    Percentile = 2
    Entropy = 3
    LayerwisePercentile = 4
    Distribution = 5


class ScaleType(enum.Enum):
    """What a scale may be."""

    Float32 = 0
    PowerOf2 = 1
    Int16 = 2


class QuantGranularity(enum.Enum):
    """What has a scale of its own."""

    Tensor = 0
    Channel = 1
    Group = 2


_METHODS = {
    CalibMethod.MinMax: "max", CalibMethod.MinMSE: "mse", CalibMethod.Percentile: "percentile",
    CalibMethod.Entropy: "entropy",
}  # fmt: skip
_SCALES = {ScaleType.Float32: "float", ScaleType.PowerOf2: "power_of_two"}
_GRANULARITIES = {QuantGranularity.Tensor: "per_tensor", QuantGranularity.Channel: "per_channel"}


class QTensorConfig:
    """How a tensor is quantized.

    Parameters
    ----------
    symmetric
        Whether real zero is in the middle of the integers.
    scale_type, calibration_method, quant_granularity
        See the enumerations.
    """

    bits, signed, number_format = 8, True, "int"
    symmetric = True
    scale_type, calibration_method = ScaleType.Float32, CalibMethod.Percentile

    def __init__(
        self,
        symmetric: bool | None = None,
        scale_type: ScaleType | None = None,
        calibration_method: CalibMethod | None = None,
        quant_granularity: QuantGranularity = QuantGranularity.Tensor,
    ) -> None:
        if symmetric is not None:
            self.symmetric = symmetric
        if scale_type is not None:
            self.scale_type = scale_type
        if calibration_method is not None:
            self.calibration_method = calibration_method
        self.quant_granularity = quant_granularity

    def set_symmetric(self, symmetric: bool) -> None:
        """Say whether real zero is in the middle of the integers."""
        self.symmetric = symmetric

    def set_scale_type(self, scale_type: ScaleType) -> None:
        """Say what the scale may be."""
        self.scale_type = scale_type

    def set_calibration_method(self, calibration_method: CalibMethod) -> None:
        """Say how the scale is chosen."""
        self.calibration_method = calibration_method

    def set_quant_granularity(self, quant_granularity: QuantGranularity) -> None:
        """Say what has a scale of its own."""
        self.quant_granularity = quant_granularity

    @property
    def is_unsigned(self) -> bool:
        """Whether integers are stored with an offset of half their range."""
        return not self.signed and self.symmetric

    def tensor(self) -> TensorSpec:
        """Return this in our terms.

        Raises
        ------
        UnsupportedError
            What there is not here.
        """
        for what, given, known in (
            ("calibration_method", self.calibration_method, _METHODS),
            ("scale_type", self.scale_type, _SCALES),
            ("quant_granularity", self.quant_granularity, _GRANULARITIES),
        ):
            if given not in known:
                raise UnsupportedError(
                    f"{what} is {given}, but must be one of {', '.join(map(str, known))}"
                )
        return TensorSpec(
            bits=self.bits, signed=self.signed or self.symmetric, symmetric=self.symmetric,
            number_format=self.number_format, scale=_SCALES[self.scale_type],
            method=_METHODS[self.calibration_method],
            granularity=_GRANULARITIES[self.quant_granularity],
        )  # fmt: skip


class Int8Spec(QTensorConfig):
    """Signed, 8 bits."""


class XInt8Spec(Int8Spec):
    """Signed, 8 bits, a power of two as scale: what DPUs run."""

    scale_type, calibration_method = ScaleType.PowerOf2, CalibMethod.MinMSE


class UInt8Spec(QTensorConfig):
    """Unsigned, 8 bits."""

    signed = symmetric = False


class Int16Spec(QTensorConfig):
    """Signed, 16 bits."""

    bits = 16


class UInt16Spec(UInt8Spec):
    """Unsigned, 16 bits."""

    bits = 16


class Int32Spec(QTensorConfig):
    """Signed, 32 bits: for biases."""

    bits = 32


class Float16Spec(QTensorConfig):
    """IEEE binary16."""

    number_format = "float16"
    calibration_method = CalibMethod.MinMax


class BFloat16Spec(Float16Spec):
    """bfloat16."""

    number_format = "bfloat16"


class QLayerConfig:
    """How the tensors of layers are quantized.

    Parameters
    ----------
    input_tensors, activation
        Activations; two names of the same.
    weight, bias
        Constants; a bias without specification gets what suits the others.
    output_tensors
        What layers make; as ``input_tensors`` where it is not given.
    """

    def __init__(
        self,
        input_tensors: QTensorConfig | None = None,
        activation: QTensorConfig | None = None,
        weight: QTensorConfig | None = None,
        bias: QTensorConfig | None = None,
        output_tensors: QTensorConfig | None = None,
    ) -> None:
        given = input_tensors if input_tensors is not None else activation
        self.activation = given
        self.weight, self.bias = weight, bias
        self.output_tensors = output_tensors if output_tensors is not None else given

    def result(self) -> QTensorConfig | None:
        """Return how results are quantized; none where that is not said."""
        return self.output_tensors


def named(patterns: Sequence[object]) -> tuple[str, ...]:
    """Return names of nodes, or patterns of them, as our configurations have them.

    Raises
    ------
    UnsupportedError
        A part of the graph by its ends, or a regular expression other than ``.*``.
    """
    found = []
    for one in patterns:
        if not isinstance(one, str):
            raise UnsupportedError(f"{one!r} stands for a part of a graph; name its nodes instead")
        if not one.startswith("^"):
            found.append(glob.escape(one))
            continue
        text = one.removeprefix("^").removesuffix("$").replace(".*", "*")
        if any(sign in text for sign in "[](){}+|\\?"):
            raise UnsupportedError(f"{one!r}: of regular expressions there is '.*' only here")
        found.append(text)
    return tuple(found)
