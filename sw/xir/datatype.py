# SPDX-License-Identifier: Apache-2.0
"""Element types of tensors: a kind and a number of bits, written ``XINT8`` or ``FLOAT32``."""

import dataclasses
import enum
import re
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import GraphError


class DataKind(enum.IntEnum):
    """Kinds of element; XINT and XUINT are fixed point, the position is a tensor attribute."""

    INT = 0
    UINT = 1
    XINT = 2
    XUINT = 3
    FLOAT = 4
    BFLOAT = 5
    UNKNOWN = 6


_PATTERN = re.compile(r"([A-Za-z]+?)([0-9]+)")


@dataclasses.dataclass(frozen=True)
class DataType:
    """Type of one element; ``bits`` counts the bits it takes in memory."""

    kind: DataKind
    bits: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the type that ``text`` names, in any case: ``xint8``, ``FLOAT32``.

        Raises
        ------
        GraphError
            The text names no type.
        """
        match = _PATTERN.fullmatch(text)
        if match is None or match[1].upper() not in DataKind.__members__ or int(match[2]) == 0:
            names = ", ".join(kind.name for kind in DataKind)
            raise GraphError(
                f"data type is {text!r}, but must be one of {names} followed by its bits"
            )
        return cls(DataKind[match[1].upper()], int(match[2]))

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Self:
        """Return the type of the elements of ``array``."""
        kinds = {"i": DataKind.INT, "u": DataKind.UINT, "f": DataKind.FLOAT, "b": DataKind.UINT}
        if array.dtype.kind not in kinds:
            raise GraphError(
                f"array has dtype {array.dtype}, but must hold integers, floats or bools"
            )
        return cls(kinds[array.dtype.kind], 8 * array.dtype.itemsize)

    def numpy(self) -> np.dtype[Any]:
        """Return the numpy type with the same memory layout.

        Raises
        ------
        GraphError
            numpy has no such type.
        """
        letters = {
            DataKind.INT: "i",
            DataKind.XINT: "i",
            DataKind.UINT: "u",
            DataKind.XUINT: "u",
            DataKind.FLOAT: "f",
        }
        sizes = (16, 32, 64) if self.kind == DataKind.FLOAT else (8, 16, 32, 64)
        if self.kind not in letters or self.bits not in sizes:
            raise GraphError(f"data type {self} has no numpy dtype")
        return np.dtype(f"{letters[self.kind]}{self.bits // 8}")

    def __str__(self) -> str:
        """Return the name in upper case, as attributes store it."""
        return f"{self.kind.name}{self.bits}"
