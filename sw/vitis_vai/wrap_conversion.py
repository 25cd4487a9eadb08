# SPDX-License-Identifier: Apache-2.0
"""Where AMD's WeGO for TensorFlow 1 has its enumerations."""

from vitis_vai.enums import AccuracyMode

__all__ = ["AccuracyMode"]
