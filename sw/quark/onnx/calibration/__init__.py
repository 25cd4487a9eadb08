# SPDX-License-Identifier: Apache-2.0
"""Readers of calibration data, and the methods that use it."""

from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod

from quark.onnx.calibration.random_data import RandomDataReader
from quark.onnx.quantization.quant_utils import PowerOfTwoMethod

__all__ = ["CalibrationDataReader", "CalibrationMethod", "PowerOfTwoMethod", "RandomDataReader"]
