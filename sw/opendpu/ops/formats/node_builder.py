# SPDX-License-Identifier: Apache-2.0
"""What the formats need of whoever collects ONNX nodes."""

from collections.abc import Sequence
from typing import Any, Protocol

from opendpu.ir import Array


class NodeBuilder(Protocol):
    """Takes ONNX nodes and constants; :class:`opendpu.ops.onnx_builder.OnnxBuilder` is one."""

    def op(self, op_type: str, inputs: Sequence[str], **attrs: Any) -> str:
        """Add a node with one output; return its name."""

    def reduced(self, op_type: str, value: str, axes: Sequence[int], keepdims: int = 1) -> str:
        """Add a reduction along axes, as the operator set has it; return its name."""

    def initializer(self, value: Array) -> str:
        """Add a constant; return its name."""

    def integers(self, values: Sequence[int]) -> str:
        """Add an int64 constant; return its name."""
