# SPDX-License-Identifier: Apache-2.0
"""How kernels compute integers in floating point, to the bit.

A sum of products of integers is exact in float32, in whatever order and grouping it is added up, as
long as no sum of some of the products reaches beyond 2**24; times a power of two it stays so. So a
kernel knows in advance what its sums can be, from the weights and from the range of the input, and
is float32 where that is exact and float64 where it is not.

Results are rounded as the DPU does (:mod:`opendpu_arch.numerics`): ``floor(x + 1/2)``, saturated.
Saturation comes first here, where a convolution does it on the way; the results are the same,
because the bounds are integers.
"""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from opendpu.ir import Array, Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.numerics import RELU6_MAX, saturate

EXACT = 1 << 24
"""Up to here float32 has every integer."""
BYTE = np.arange(-128, 128)
Range = tuple[float, float]


def nonlinear(node: Node) -> str:
    """Return the activation that an op applies before it rounds; ``NONE`` if there is none."""
    return str(node.attrs.get("nonlinear") or "NONE").upper()


def bounds(node: Node, *activations: str) -> tuple[int, int]:
    """Return smallest and largest result, for an op that can have these activations.

    Raises
    ------
    UnsupportedError
        The op has another activation.
    """
    low, high = node.quantization.limits
    function = nonlinear(node)
    if function == "NONE":
        return low, high
    if function not in activations:
        raise UnsupportedError(
            f"op {node.name!r} ({node.kind}): nonlinear is {function!r}, but must be one of "
            f"{', '.join(('NONE', *activations))}"
        )
    if function == "LEAKYRELU":
        return low, high
    return max(low, 0), min(high, RELU6_MAX) if function == "RELU6" else high


class Exact:
    """A value of an ONNX model that is exactly the real number it stands for.

    Parameters
    ----------
    builder
        The model.
    name
        The ONNX value.
    reach
        What no element is below and above.
    bits
        Fractional bits of the elements; negative where they are multiples of a power of two.
    wide
        Whether it is float64.
    """

    def __init__(
        self, builder: OnnxBuilder, name: str, reach: Range, bits: int = 0, *, wide: bool = False
    ) -> None:
        self.builder = builder
        self.name = name
        self.reach = reach
        self.bits = bits
        self.wide = wide

    def number(self, value: Array | float) -> str:
        """Return a constant of the value's type."""
        dtype = np.float64 if self.wide else np.float32
        return self.builder.initializer(np.asarray(value, dtype))

    def widened(self) -> "Exact":
        """Return the same in float64."""
        if self.wide:
            return self
        name = self.builder.op("Cast", [self.name], to=TensorProto.DOUBLE)
        return Exact(self.builder, name, self.reach, self.bits, wide=True)

    def fits(self, reach: Range, bits: int) -> bool:
        """Tell whether float32 has every multiple of ``2**-bits`` in a range."""
        return max(abs(reach[0]), abs(reach[1])) * 2.0**bits <= EXACT

    def shifted(self, right: int) -> "Exact":
        """Return it times ``2**-right``."""
        if not right:
            return self
        name = self.builder.op("Mul", [self.name, self.number(2.0**-right)])
        low, high = (limit * 2.0**-right for limit in self.reach)
        return Exact(self.builder, name, (low, high), self.bits + right, wide=self.wide)

    def times(self, factor: int) -> "Exact":
        """Return it times a positive integer."""
        low, high = (limit * factor for limit in self.reach)
        value = self if self.fits((low, high), self.bits) else self.widened()
        name = value.builder.op("Mul", [value.name, value.number(factor)])
        return Exact(self.builder, name, (low, high), self.bits, wide=value.wide)

    def plus(self, other: "Exact") -> "Exact":
        """Return the sum."""
        reach = (self.reach[0] + other.reach[0], self.reach[1] + other.reach[1])
        bits = max(self.bits, other.bits)
        first, second = self, other
        if first.wide or second.wide or not self.fits(reach, bits):
            first, second = first.widened(), second.widened()
        name = self.builder.op("Add", [first.name, second.name])
        return Exact(self.builder, name, reach, bits, wide=first.wide)

    def plus_constant(self, values: Array | float, bits: int) -> "Exact":
        """Return the sum with constants of so many fractional bits."""
        least, most = float(np.min(values)), float(np.max(values))
        reach, bits = (self.reach[0] + least, self.reach[1] + most), max(self.bits, bits)
        value = self if self.fits(reach, bits) else self.widened()
        name = self.builder.op("Add", [value.name, value.number(values)])
        return Exact(self.builder, name, reach, bits, wide=value.wide)

    def rounded(self, low: int, high: int, *, half_added: bool = False) -> str:
        """Return the integers in float32: halves up, saturated to ``low`` and ``high``."""
        value = self
        if self.bits > 0 and not half_added:
            value = self.plus_constant(0.5, 1)
        name = value.name
        if value.reach[0] < low or value.reach[1] >= high + 1:
            name = value.builder.op("Clip", [name, value.number(low), value.number(high)])
        if value.bits > 0:
            name = value.builder.op("Floor", [name])
        if value.wide:
            name = value.builder.op("Cast", [name], to=TensorProto.FLOAT)
        return name


def carried(builder: OnnxBuilder, node: Node, name: str) -> Exact:
    """Return the integers of a result, as some ONNX value has them."""
    return Exact(builder, name, builder.limits(node.name))


def bind(
    builder: OnnxBuilder, node: Node, value: Exact, *activations: str, channels_first: bool,
    half_added: bool = False,
) -> None:  # fmt: skip
    """Make a value, rounded and saturated, the result of a node."""
    low, high = bounds(node, *activations)
    name = value.rounded(low, high, half_added=half_added)
    builder.bind(node, name, channels_first=channels_first)
    least, most = np.floor(value.reach) if half_added else np.floor(np.add(value.reach, 0.5))
    builder.narrow(node.name, *(int(np.clip(n, low, high)) for n in (least, most)))


def tabulated(builder: OnnxBuilder, node: Node, function: Callable[[Array], Array]) -> None:
    """Emit a function of each int8, as a table of what it makes of all of them.

    ``function`` gets the 256 integers as int64 and returns integers, which then saturate.
    """
    (source,) = node.inputs["input"]
    first = builder.is_first(source)
    value = builder.channels_first(source) if first else builder.plain(source)
    table = saturate(function(BYTE.astype(np.int64)))
    offset = builder.initializer(np.array(-BYTE[0], np.float32))
    index = builder.op("Cast", [builder.op("Add", [value, offset])], to=TensorProto.INT32)
    made = builder.op("Gather", [builder.initializer(table.astype(np.float32)), index])
    builder.bind(node, made, channels_first=first)
    builder.narrow(node.name, int(table.min()), int(table.max()))
