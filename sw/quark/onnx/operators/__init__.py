# SPDX-License-Identifier: Apache-2.0
"""Operators of quantized files, see :mod:`.custom_ops`."""
