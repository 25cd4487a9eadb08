# SPDX-License-Identifier: Apache-2.0
"""Element types of tensors: a kind and a number of bits, written ``XINT8`` or ``FLOAT32``."""

import enum
import re
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from opendpu_arch.errors import GraphError
from xir.arguments import expect


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

_LETTERS = {"INT": "i", "XINT": "i", "UINT": "u", "XUINT": "u", "FLOAT": "f"}
_NUMPY = {
    (DataKind[name], bits): np.dtype(f"{letter}{bits // 8}")
    for name, letter in _LETTERS.items()
    for bits in ((16, 32, 64) if letter == "f" else (8, 16, 32, 64))
}


class DataType:
    """Type of one element, from its name (``DataType("xint8")``, any case) or its two parts.

    Raises
    ------
    GraphError
        The text names no type, or there is no such kind.
    """

    Type = DataKind
    INT: ClassVar = DataKind.INT
    UINT: ClassVar = DataKind.UINT
    XINT: ClassVar = DataKind.XINT
    XUINT: ClassVar = DataKind.XUINT
    FLOAT: ClassVar = DataKind.FLOAT
    BFLOAT: ClassVar = DataKind.BFLOAT
    UNKNOWN: ClassVar = DataKind.UNKNOWN

    def __init__(self, type: DataKind | str = DataKind.UNKNOWN, bit_width: int = 0) -> None:
        parts = _parse(type) if isinstance(type, str) else (type, bit_width)
        self.type, self.bit_width = parts

    @property
    def type(self) -> DataKind:
        """The kind of element; can be set."""
        return self._type

    @type.setter
    def type(self, value: DataKind) -> None:
        try:
            self._type = DataKind(value)
        except ValueError:
            names = ", ".join(f"{int(kind)} ({kind.name})" for kind in DataKind)
            raise GraphError(
                f"kind of a data type is {value!r}, but must be one of {names}",
                code="XIR_INVALID_DATA_TYPE",
            ) from None

    @property
    def bit_width(self) -> int:
        """The bits that an element takes in memory; can be set."""
        return self._bit_width

    @bit_width.setter
    def bit_width(self, value: int) -> None:
        self._bit_width = expect(value, int, "bits of a data type")

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> Self:
        """Return the type of the elements of ``array``; booleans are UINT8."""
        expect(array, np.ndarray, "array")
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
        found = _NUMPY.get((self.type, self.bit_width))
        if found is None:
            raise GraphError(f"data type {self.to_string()} has no numpy dtype")
        return found

    def to_string(self) -> str:
        """Return the name in upper case, as attributes store it."""
        return f"{self.type.name}{self.bit_width}"

    def __str__(self) -> str:
        """Return the name in lower case and quotes, as PyXIR prints it."""
        return f"'{self.to_string().lower()}'"

    def __repr__(self) -> str:
        """Return what PyXIR shows."""
        return f"<xir.DataType {self}>"

    def __eq__(self, other: object) -> bool:
        """Return whether kind and bits are the same."""
        return isinstance(other, DataType) and self.to_string() == other.to_string()

    def __hash__(self) -> int:
        """Return the hash of kind and bits."""
        return hash((self.type, self.bit_width))


def _parse(text: str) -> tuple[DataKind, int]:
    match = _PATTERN.fullmatch(text)
    if match is None or match[1].upper() not in DataKind.__members__ or int(match[2]) == 0:
        names = ", ".join(kind.name for kind in DataKind)
        raise GraphError(
            f"data type is {text!r}, but must be one of {names} followed by its bits",
            code="XIR_INVALID_DATA_TYPE",
        )
    return DataKind[match[1].upper()], int(match[2])
