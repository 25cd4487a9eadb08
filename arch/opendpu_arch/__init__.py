# SPDX-License-Identifier: Apache-2.0
"""The contract of the DPU: instructions, targets, registers, memory layout, arithmetic, errors."""
