# SPDX-License-Identifier: Apache-2.0
"""Where the readers and methods were in Quark's first releases."""

from quark.onnx.calibration import (
    CalibrationDataReader,
    CalibrationMethod,
    PowerOfTwoMethod,
    RandomDataReader,
)

__all__ = ["CalibrationDataReader", "CalibrationMethod", "PowerOfTwoMethod", "RandomDataReader"]
