# SPDX-License-Identifier: Apache-2.0
"""Operators of AMD's quantized models."""
