# SPDX-License-Identifier: Apache-2.0
"""Quantizing operators of exported ONNX files."""


def load_vai_ops() -> None:
    """Make ready for ONNX files with the operators ``vai::QuantizeLinear`` and its like.

    Our files say as ONNX functions what these compute, so that onnxruntime and
    ``onnxruntime_extensions.PyOrtFunction`` run them as they are: there is nothing to load.
    """
