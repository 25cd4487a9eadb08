# SPDX-License-Identifier: Apache-2.0
"""Networks in the DPU's integers, to the bit, at the speed of onnxruntime."""

from opendpu.integer.subgraph import fixed_graph

__all__ = ["fixed_graph"]
