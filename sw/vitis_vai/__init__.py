# SPDX-License-Identifier: Apache-2.0
"""The guide's WeGO for TensorFlow: from a quantized model to a function whose work a DPU does.

``from tensorflow.compiler import vitis_vai`` of unchanged scripts works under
``python -m vitis_vai script.py``; others import this module. Needs the extra
``opendpu[tensorflow]``.
"""

from opendpu_arch.extras import needs

with needs("vitis_vai", "tensorflow"):
    import tensorflow  # noqa: F401

from vitis_vai import enums, wrap_conversion
from vitis_vai.graph import create_wego_graph
from vitis_vai.model import create_wego_model
from vitis_vai.quantization import quantize
from vitis_vai.target import DeviceInfo, get_target_info

__all__ = [
    "DeviceInfo",
    "create_wego_graph",
    "create_wego_model",
    "enums",
    "get_target_info",
    "quantize",
    "wrap_conversion",
]
