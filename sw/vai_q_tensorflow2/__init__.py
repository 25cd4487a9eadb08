# SPDX-License-Identifier: Apache-2.0
"""The guide's quantizer for TensorFlow 2 (UG1414, chapter 3), over ours.

Scripts find it where AMD's is: ``tensorflow_model_optimization.quantization.keras`` has
``vitis_quantize`` and ``vitis_inspect``. Needs the extra ``opendpu[tensorflow]``.
"""

from opendpu_arch.extras import needs

with needs("vai_q_tensorflow2", "tensorflow"):
    import tensorflow  # noqa: F401

from vai_q_tensorflow2.inspector import VitisInspector
from vai_q_tensorflow2.network import QuantizedNetwork, quantize_scope
from vai_q_tensorflow2.quantizer import VitisQuantizer

__all__ = ["QuantizedNetwork", "VitisInspector", "VitisQuantizer", "quantize_scope"]
