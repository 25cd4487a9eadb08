# SPDX-License-Identifier: Apache-2.0
"""What a tensor is: shape, element type, and how its numbers are quantized."""

import dataclasses
import enum
import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from opendpu_arch.errors import GraphError

FLOAT32 = np.dtype(np.float32)
INT8 = np.dtype(np.int8)


class Rounding(enum.StrEnum):
    """How a number between two integers becomes one; the first three names are XIR's."""

    DPU_ROUND = "DPU_ROUND"
    """To the nearest, halves up: -2.5 becomes -2."""
    STD_ROUND = "STD_ROUND"
    """To the nearest, halves away from zero, as ``std::round``."""
    PY3_ROUND = "PY3_ROUND"
    """To the nearest, halves to even, as ONNX and Python 3."""
    HALF_DOWN = "HALF_DOWN"
    """To the nearest, halves down: 2.5 becomes 2."""
    FLOOR = "FLOOR"
    """Down."""
    CEIL = "CEIL"
    """Up."""
    TOWARD_ZERO = "TOWARD_ZERO"
    """Fractions are cut off."""
    AWAY_FROM_ZERO = "AWAY_FROM_ZERO"
    """To the integer that is farther from zero."""


XIR_ROUNDINGS = (Rounding.DPU_ROUND, Rounding.STD_ROUND, Rounding.PY3_ROUND)
"""Those that XIR's ``round_mode`` has."""

MOST_BITS, MOST_FRACTIONAL_BITS = 64, 1000
"""Of an integer, and of one before or behind its point: what its scale can be a number for."""


class NumberFormat(enum.StrEnum):
    """What stands for real numbers."""

    INT = "int"
    """Integers with a scale."""
    FLOAT16 = "float16"
    """IEEE 754 binary16."""
    BFLOAT16 = "bfloat16"
    """The upper half of binary32."""
    BFP16 = "bfp16"
    """Block floating point: 8 numbers share an exponent of 8 bits, each has 7 bits and a sign."""
    MX6 = "mx6"
    """As ``mx9``, with 4 bits and a sign."""
    MX9 = "mx9"
    """Shared microexponents: 16 numbers share an exponent of 8 bits, 2 of them a bit that may
    lower it by one, each has 7 bits and a sign (Rouhani et al., arXiv 2302.08007)."""


@dataclasses.dataclass(frozen=True)
class Quantization:
    """What stands for real numbers: integers, ``real = (integer - zero_point) * scale``, or others.

    Parameters
    ----------
    scale
        One for the tensor, or one for each index along ``axis``; a single 1 where the format is
        not ``int``.
    zero_point
        As many as there are scales, or one.
    axis
        The axis that ``scale`` runs along; none for one scale a tensor.
    bits, signed
        Integers are in ``-2**(bits - 1) .. 2**(bits - 1) - 1``, or ``0 .. 2**bits - 1``.
    rounding
        How a real number becomes an integer; it saturates afterwards.
    narrow
        Whether the smallest signed integer is left out.
    number_format
        ``int``, or a format without scale, whose bits and rounding it says itself.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...] = (0,)
    axis: int | None = None
    bits: int = 8
    signed: bool = True
    rounding: Rounding = Rounding.DPU_ROUND
    narrow: bool = False
    number_format: NumberFormat = NumberFormat.INT

    @classmethod
    def power_of_two(
        cls,
        fix_point: int,
        *,
        bits: int = 8,
        signed: bool = True,
        rounding: Rounding | str = Rounding.DPU_ROUND,
    ) -> "Quantization":
        """Return the quantization with ``fix_point`` fractional bits: scale ``2**-fix_point``.

        Raises
        ------
        GraphError
            The rounding is none that XIR has, or no number has so many bits.
        """
        if rounding not in XIR_ROUNDINGS:
            raise GraphError(
                f"round_mode is {str(rounding)!r}, but must be one of {', '.join(XIR_ROUNDINGS)}",
                code="XCOM_UNSUPPORT_ROUND_MODE",
            )
        if not (1 <= bits <= MOST_BITS and abs(fix_point) <= MOST_FRACTIONAL_BITS):
            raise GraphError(
                f"bit_width is {bits} and fix_point {fix_point}, but must be in 1..{MOST_BITS} and "
                f"in -{MOST_FRACTIONAL_BITS}..{MOST_FRACTIONAL_BITS}"
            )
        return cls(
            (math.ldexp(1.0, -fix_point),), bits=bits, signed=signed, rounding=Rounding(rounding)
        )

    @classmethod
    def powers_of_two(
        cls,
        fix_points: Iterable[int],
        axis: int,
        *,
        bits: int = 8,
        signed: bool = True,
        rounding: Rounding | str = Rounding.DPU_ROUND,
    ) -> "Quantization":
        """Return the quantization with so many fractional bits for each index along ``axis``.

        Where all are the same, that is the one of :meth:`power_of_two`.

        Raises
        ------
        GraphError
            The rounding is none that XIR has.
        """
        points = tuple(int(point) for point in fix_points)
        made = cls.power_of_two(points[0], bits=bits, signed=signed, rounding=rounding)
        return made.along(points, axis)

    @functools.cached_property
    def is_power_of_two(self) -> bool:
        """Whether one power of two is the scale and zero stands for zero, as the DPU needs."""
        return self.number_format == NumberFormat.INT and (
            len(self.scale) == 1 and not any(self.zero_point) and self.axis is None
        ) and self.scale[0] > 0 and math.frexp(self.scale[0])[0] == 0.5  # fmt: skip

    @property
    def fix_point(self) -> int:
        """Fractional bits, as XIR counts them; GraphError if the scale is no power of two."""
        if not self.is_power_of_two:
            raise GraphError(f"{self} has no fix_point: its scale is no single power of two")
        return 1 - math.frexp(self.scale[0])[1]

    def same_grid(self, other: "Quantization") -> bool:
        """Return whether the same integers stand for the same real numbers."""
        return dataclasses.replace(self, rounding=other.rounding) == other

    @functools.cached_property
    def are_powers_of_two(self) -> bool:
        """Whether every scale is a power of two and zero stands for zero, in all channels."""
        return self.number_format == NumberFormat.INT and not any(self.zero_point) and all(
            scale > 0 and math.frexp(scale)[0] == 0.5 for scale in self.scale
        )  # fmt: skip

    @functools.cached_property
    def fix_points(self) -> tuple[int, ...]:
        """Fractional bits for each index along ``axis``, or a single number; GraphError as above.

        Where a single one is needed, see :attr:`fix_point`.
        """
        if not self.are_powers_of_two:
            raise GraphError(f"{self} has no fix_points: its scales are no powers of two")
        return tuple(1 - math.frexp(scale)[1] for scale in self.scale)

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest integer."""
        if self.signed:
            return self.narrow - (1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    def at(self, fix_point: int) -> "Quantization":
        """Return the same with another number of fractional bits."""
        return _at(self, fix_point)

    def along(self, fix_points: Iterable[int], axis: int | None) -> "Quantization":
        """Return the same with fractional bits for each index along an axis; one if all agree."""
        points = tuple(fix_points)
        if len(set(points)) == 1:
            return self.at(points[0])
        scale = tuple(math.ldexp(1.0, -point) for point in points)
        return dataclasses.replace(self, scale=scale, zero_point=(0,), axis=axis)


@functools.lru_cache(maxsize=4096)  # quantizers ask for the same ones thousands of times
def _at(quantization: Quantization, fix_point: int) -> Quantization:
    return dataclasses.replace(
        quantization, scale=(math.ldexp(1.0, -fix_point),), zero_point=(0,), axis=None
    )


@dataclasses.dataclass(frozen=True)
class TensorType:
    """Shape (feature maps NHWC), element type and quantization of a tensor.

    With a ``quantization``, elements of an integer type are integers, and those of a float type
    real numbers that integers stand for.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = FLOAT32
    quantization: Quantization | None = None

    @classmethod
    def of(cls, shape: "TensorType | Iterable[int]") -> "TensorType":
        """Return a type as it is, or that of float32 numbers in a shape."""
        return shape if isinstance(shape, TensorType) else cls(tuple(int(n) for n in shape))

    @classmethod
    def int8(cls, shape: Iterable[int], fix_point: int) -> "TensorType":
        """Return the type of the DPU's tensors: int8 with ``fix_point`` fractional bits."""
        return cls(tuple(shape), INT8, Quantization.power_of_two(fix_point))

    @property
    def is_fixed(self) -> bool:
        """Whether elements are integers that stand for real numbers."""
        return self.quantization is not None and self.dtype.kind in "iu"

    def with_shape(self, shape: Iterable[int]) -> "TensorType":
        """Return the type in another shape."""
        return dataclasses.replace(self, shape=tuple(shape))

    def with_quantization(self, quantization: Quantization | None) -> "TensorType":
        """Return the type with another quantization."""
        return dataclasses.replace(self, quantization=quantization)


@dataclasses.dataclass(frozen=True)
class Origin:
    """The place in the user's model that an op comes from.

    Parameters
    ----------
    name
        Name of the node in the model, or of its first output where it has none.
    op_type
        Its operator there: ``Conv`` of ONNX, ``torch.nn.Conv2d``.
    line
        Source line, ``file.py:12``, where the model says it.
    """

    name: str = ""
    op_type: str = ""
    line: str = ""

    def __str__(self) -> str:
        """Return ``Conv 'stem/conv' (net.py:12)``, as far as it is known."""
        text = f"{self.op_type} {self.name!r}" if self.op_type else repr(self.name)
        return f"{text} ({self.line})" if self.line else text


UNKNOWN = Origin()
"""The origin of what no model says."""
