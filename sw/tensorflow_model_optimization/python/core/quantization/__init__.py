# SPDX-License-Identifier: Apache-2.0
"""Where scripts for AMD's quantizer for TensorFlow 2 find it too."""
