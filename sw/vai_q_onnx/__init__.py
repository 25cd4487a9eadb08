# SPDX-License-Identifier: Apache-2.0
"""The guide's quantizer for ONNX models, ``vai_q_onnx`` (UG1414, chapter 3), over ours.

Scripts for AMD's module run unchanged. Enumerations and the reader of calibration data that it
shares with ``onnxruntime.quantization`` are those of that module.
"""

from opendpu_arch.extras import needs

with needs("vai_q_onnx"):
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        MinMaxCalibrater,
        QuantFormat,
        QuantType,
    )
    from onnxruntime.quantization.calibrate import CalibraterBase, create_calibrator
    from onnxruntime.quantization.quant_utils import QuantizationMode, write_calibration_table

from vai_q_onnx.calibration import RandomDataReader
from vai_q_onnx.dump import dump_model
from vai_q_onnx.enums import PowerOfTwoMethod, VitisQuantFormat, VitisQuantType
from vai_q_onnx.operators.library import get_library_path
from vai_q_onnx.quantize import quantize_static

__version__ = "1.16.0"
"""The version of AMD's module whose names these are."""

_lib_path = get_library_path

__all__ = [
    "CalibraterBase",
    "CalibrationDataReader",
    "CalibrationMethod",
    "MinMaxCalibrater",
    "PowerOfTwoMethod",
    "QuantFormat",
    "QuantType",
    "QuantizationMode",
    "RandomDataReader",
    "VitisQuantFormat",
    "VitisQuantType",
    "create_calibrator",
    "dump_model",
    "get_library_path",
    "quantize_static",
    "write_calibration_table",
]
