# SPDX-License-Identifier: Apache-2.0
"""WeGO-Torch: PyTorch programs whose supported parts run on the DPU, AMD's interface.

Importing it lets ``torch.jit.load`` read quantized TorchScript modules, and compiled ones.
"""

from opendpu_arch.extras import needs

with needs("wego_torch", "torch"):
    import onnxscript  # noqa: F401
    import torch  # noqa: F401

from wego_torch.compiling import compile
from wego_torch.messages import WegoError
from wego_torch.options import (
    AccuracyMode,
    CompileOptions,
    DataType,
    DebugOptions,
    DynamoCompileOptions,
    InputMeta,
    OptimizeOptions,
    PartitionOptions,
)
from wego_torch.quantizing import quantize
from wego_torch.target import TargetInfo, get_target_info, version

__version__ = "3.5.0"
"""The version of AMD's package whose interface this is."""

__all__ = [
    "AccuracyMode",
    "CompileOptions",
    "DataType",
    "DebugOptions",
    "DynamoCompileOptions",
    "InputMeta",
    "OptimizeOptions",
    "PartitionOptions",
    "TargetInfo",
    "WegoError",
    "compile",
    "get_target_info",
    "quantize",
    "version",
]
