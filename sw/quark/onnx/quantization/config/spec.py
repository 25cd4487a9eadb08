# SPDX-License-Identifier: Apache-2.0
"""How tensors are quantized, by class: ``Int8Spec()``, ``XInt8Spec()``, ``QLayerConfig``."""

import enum

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


Spec = QTensorConfig | type[QTensorConfig] | None


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


class BFP16Spec(Float16Spec):
    """Block floating point, 16 bits: eight values of 8 bits share an exponent."""

    number_format = "bfp16"


class MX6Spec(Float16Spec):
    """Shared microexponents, 6 bits."""

    number_format = "mx6"


class MX9Spec(Float16Spec):
    """Shared microexponents, 9 bits."""

    number_format = "mx9"


class MX4Spec(Float16Spec):
    """Shared microexponents, 4 bits; not here."""

    number_format = "mx4"


class QLayerConfig:
    """How the tensors of layers are quantized.

    A specification may be given by its class, too.

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
        input_tensors: Spec = None,
        activation: Spec = None,
        weight: Spec = None,
        bias: Spec = None,
        output_tensors: Spec = None,
    ) -> None:
        given = _instance(input_tensors if input_tensors is not None else activation)
        self.activation = given
        self.weight, self.bias = _instance(weight), _instance(bias)
        self.output_tensors = _instance(output_tensors) if output_tensors is not None else given

    def result(self) -> QTensorConfig | None:
        """Return how results are quantized; none where that is not said."""
        return self.output_tensors


def _instance(given: Spec) -> QTensorConfig | None:
    return given() if isinstance(given, type) else given
