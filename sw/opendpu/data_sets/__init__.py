# SPDX-License-Identifier: Apache-2.0
"""Accuracy of networks on whole data sets: float, quantized, and on simulated hardware."""
