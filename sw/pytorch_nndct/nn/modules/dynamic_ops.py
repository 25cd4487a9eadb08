# SPDX-License-Identifier: Apache-2.0
"""Layers of once-for-all networks, by the names that the guide has."""

from opendpu.optimize.dynamic import (
    DynamicBatchNorm2d,
    DynamicConv2d,
    DynamicConvTranspose2d,
    DynamicLinear,
)

__all__ = ["DynamicBatchNorm2d", "DynamicConv2d", "DynamicConvTranspose2d", "DynamicLinear"]
