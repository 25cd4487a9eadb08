# SPDX-License-Identifier: Apache-2.0
"""Networks in the DPU's integers, to the bit, at the speed of onnxruntime.

:class:`IntegerNetwork` computes a quantized graph on samples; :func:`fixed_graph` reads what a
compiled subgraph computes. The kernels are those of :mod:`opendpu.ops.fixed`.
"""

from opendpu.integer.network import IntegerNetwork
from opendpu.integer.subgraph import fixed_graph

__all__ = ["IntegerNetwork", "fixed_graph"]
