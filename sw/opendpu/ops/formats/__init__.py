# SPDX-License-Identifier: Apache-2.0
"""Number formats: what remains of real numbers in them, in numpy and as ONNX nodes.

Both compute in float32 and give the same bits. Every step is exact but for the division by a scale
that is no power of two, which ONNX's ``QuantizeLinear`` has too.
"""

import numpy as np

from opendpu.ir import Array, NumberFormat, Quantization
from opendpu.ops.formats import block, floating, integer
from opendpu.ops.formats.node_builder import NodeBuilder

__all__ = [
    "BLOCK_FORMATS", "along", "are_dpu_bytes", "emit_dpu_bytes", "emit_fake_quantize",
    "emit_integers", "emit_real", "fake_quantize", "integers_of", "real_numbers",
]  # fmt: skip

along = integer.along
are_dpu_bytes, emit_dpu_bytes = integer.are_dpu_bytes, integer.emit_dpu_bytes
emit_integers = integer.emit_integers
emit_real = integer.emit_real
integers_of, real_numbers = integer.integers_of, integer.real_numbers
BLOCK_FORMATS = tuple(block.LAYOUTS)
"""Formats whose numbers depend on their neighbours along the last axis."""


def fake_quantize(array: Array, quantization: Quantization) -> Array:
    """Return float32 numbers as they are after quantization: rounded, saturated, real numbers."""
    values = np.asarray(array, np.float32)
    kind = quantization.number_format
    if kind == NumberFormat.INT:
        return integer.fake_quantize(values, quantization)
    if kind in block.LAYOUTS:
        return block.fake_quantize(values, block.LAYOUTS[kind])
    return floating.fake_quantize(values, kind)


def emit_fake_quantize(
    builder: NodeBuilder,
    value: str,
    quantization: Quantization,
    rank: int,
    *,
    channels_first: bool,
) -> str:
    """Add the nodes that do the same; return the name of the result.

    ``rank`` is that of the value; if ``channels_first``, its last axis of four is the second, which
    block floating point does not take.
    """
    kind = quantization.number_format
    if kind == NumberFormat.INT:
        made = integer.emit_scaled(
            builder, value, quantization, rank, channels_first=channels_first
        )
        return integer.emit_real(builder, made, quantization, rank, channels_first=channels_first)
    if kind in block.LAYOUTS:
        return block.emit(builder, value, block.LAYOUTS[kind], rank)
    return floating.emit(builder, value, kind)
