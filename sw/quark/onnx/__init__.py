# SPDX-License-Identifier: Apache-2.0
"""AMD Quark's quantizer for ONNX models, its interface over ours.

Scripts for ``quark.onnx`` run unchanged where they quantize to integers, bfloat16 or float16.
Where ``amd-quark`` itself is installed, whichever comes first on the path is found.
"""

from opendpu_arch.extras import needs

with needs("quark.onnx"):
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
    )

from quark.onnx.operators.custom_ops import get_library_path
from quark.onnx.quantization.api import ModelQuantizer
from quark.onnx.quantization.config.algorithm import (
    AdaQuantConfig,
    AdaRoundConfig,
    AlgoConfig,
    AutoMixprecisionConfig,
    BiasCorrectionConfig,
    CLEConfig,
    GPTQConfig,
    QuarotConfig,
    SmoothQuantConfig,
)
from quark.onnx.quantization.config.config import Config, QConfig, QuantizationConfig
from quark.onnx.quantization.config.spec import (
    BFloat16Spec,
    BFP16Spec,
    CalibMethod,
    Float16Spec,
    Int8Spec,
    Int16Spec,
    Int32Spec,
    MX4Spec,
    MX6Spec,
    MX9Spec,
    QLayerConfig,
    QTensorConfig,
    QuantGranularity,
    ScaleType,
    UInt8Spec,
    UInt16Spec,
    XInt8Spec,
)
from quark.onnx.quantization.quant_utils import (
    ExtendedQuantFormat,
    ExtendedQuantType,
    LayerWiseMethod,
    PowerOfTwoMethod,
    VitisQuantFormat,
    VitisQuantType,
)
from vai_q_onnx.dump import dump_model

__all__ = [
    "AdaQuantConfig",
    "AdaRoundConfig",
    "AlgoConfig",
    "AutoMixprecisionConfig",
    "BFP16Spec",
    "BFloat16Spec",
    "BiasCorrectionConfig",
    "CLEConfig",
    "CalibMethod",
    "CalibrationDataReader",
    "CalibrationMethod",
    "Config",
    "ExtendedQuantFormat",
    "ExtendedQuantType",
    "Float16Spec",
    "GPTQConfig",
    "Int8Spec",
    "Int16Spec",
    "Int32Spec",
    "LayerWiseMethod",
    "MX4Spec",
    "MX6Spec",
    "MX9Spec",
    "ModelQuantizer",
    "PowerOfTwoMethod",
    "QConfig",
    "QLayerConfig",
    "QTensorConfig",
    "QuantFormat",
    "QuantGranularity",
    "QuantType",
    "QuantizationConfig",
    "QuarotConfig",
    "ScaleType",
    "SmoothQuantConfig",
    "UInt8Spec",
    "UInt16Spec",
    "VitisQuantFormat",
    "VitisQuantType",
    "XInt8Spec",
    "dump_model",
    "get_library_path",
]  # fmt: skip
