# SPDX-License-Identifier: Apache-2.0
"""onnxruntime with a DPU: AMD's ``VitisAIExecutionProvider`` for a stock onnxruntime.

>>> import onnxruntime, opendpu.onnxruntime
>>> opendpu.onnxruntime.register()
>>> session = onnxruntime.InferenceSession(
...     "quantized.onnx",
...     providers=["VitisAIExecutionProvider"],
...     provider_options=[{"target": "B4096", "cacheDir": "/tmp/cache", "cacheKey": "mine"}],
... )
"""

from opendpu_arch.extras import needs

with needs("opendpu.onnxruntime"):
    import onnxruntime.capi.onnxruntime_pybind11_state  # noqa: F401

from opendpu.onnxruntime.library import library_path
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu.onnxruntime.registration import register
from opendpu.onnxruntime.session import InferenceSession

__all__ = ["PROVIDER", "InferenceSession", "ProviderOptions", "library_path", "register"]
