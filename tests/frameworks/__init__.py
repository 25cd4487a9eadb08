# SPDX-License-Identifier: Apache-2.0
"""Fixtures of tests of several packages that need PyTorch or TensorFlow."""
