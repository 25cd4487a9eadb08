# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as files: ``.xmodel``, ONNX, TorchScript."""
