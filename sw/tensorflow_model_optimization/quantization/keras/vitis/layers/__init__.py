# SPDX-License-Identifier: Apache-2.0
"""Layers of AMD's quantizer for TensorFlow 2."""
