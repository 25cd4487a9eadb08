# SPDX-License-Identifier: Apache-2.0
"""Fast finetuning: rounding, weights and biases trained layer by layer on calibration samples."""

from opendpu.quantize.finetune.block_fit import Tuned
from opendpu.quantize.finetune.fitting import correct_weights, finetune

__all__ = ["Tuned", "correct_weights", "finetune"]
