# SPDX-License-Identifier: Apache-2.0
"""PyTorch modules and exported programs as float graphs; needs the extra ``opendpu[torch]``."""

from opendpu.frontend.pytorch.model import (
    Traced,
    as_onnx,
    load_program,
    load_torch,
    program_as_onnx,
    trace,
)
from opendpu.frontend.pytorch.script import load_script

__all__ = [
    "Traced", "as_onnx", "load_program", "load_script", "load_torch", "program_as_onnx", "trace",
]  # fmt: skip
