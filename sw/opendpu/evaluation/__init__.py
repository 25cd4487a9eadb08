# SPDX-License-Identifier: Apache-2.0
"""What quantization costs, and where: for people who want to do something about it."""

from opendpu.evaluation.advice import advice
from opendpu.evaluation.page import page
from opendpu.evaluation.sensitivity import LayerSensitivity, sensitivity

__all__ = ["LayerSensitivity", "advice", "page", "sensitivity"]
