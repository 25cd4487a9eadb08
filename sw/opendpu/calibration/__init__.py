# SPDX-License-Identifier: Apache-2.0
"""Calibration data as users have it: ``.npz`` files, and folders of images."""

from opendpu.calibration.images import Folder
from opendpu.calibration.preprocessing import Preprocessing
from opendpu.calibration.source import read_calibration

__all__ = ["Folder", "Preprocessing", "read_calibration"]
