# SPDX-License-Identifier: Apache-2.0
"""Which tensors are quantized, which share a scale, and where their ``fix`` ops stand."""
