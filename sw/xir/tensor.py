# SPDX-License-Identifier: Apache-2.0
"""Tensors: what an op produces."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Optional

from opendpu_arch.errors import GraphError
from xir.attrs import Attrs
from xir.datatype import DataType

if TYPE_CHECKING:
    from xir.op import Op


class Tensor(Attrs):
    """Name, dimensions and element type of an op's result; layout is NHWC.

    Raises
    ------
    GraphError
        A dimension is not a positive integer.
    """

    def __init__(self, name: str, dims: Iterable[int], data_type: DataType | str) -> None:
        super().__init__()
        self._name = name
        self._producer: Op | None = None
        self.reset(dims, data_type)

    def reset(self, dims: Iterable[int], data_type: DataType | str) -> None:
        """Give the tensor other dimensions and another element type."""
        values = [int(dim) for dim in dims]
        if any(not 0 <= dim < 2**32 for dim in values):
            raise GraphError(
                f"tensor {self._name!r} has dimensions {values}, but each must be in 0..2^32-1"
            )
        self._dims = values
        self._data_type = DataType.parse(data_type) if isinstance(data_type, str) else data_type

    def _owner(self) -> str:
        return f"tensor {self._name!r}"

    def __repr__(self) -> str:
        """Return name, dimensions and type."""
        return f"xir.Tensor{{name: {self._name}, shape: {self._dims}, type: {self.dtype}}}"

    @property
    def name(self) -> str:
        """Name, unique in its graph."""
        return self._name

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._dims)

    @property
    def dims(self) -> list[int]:
        """Dimensions, NHWC."""
        return list(self._dims)

    @property
    def dtype(self) -> str:
        """Element type in lower case, as PyXIR gives it: ``xint8``, ``float32``."""
        return str(self._data_type).lower()

    @property
    def data_type(self) -> DataType:
        """Element type."""
        return self._data_type

    @property
    def producer(self) -> Optional["Op"]:
        """The op whose result this is."""
        return self._producer

    def rename(self, name: str) -> "Tensor":
        """Change the name."""
        self._name = name
        return self

    def get_element_num(self) -> int:
        """Return the number of elements."""
        return math.prod(self._dims)

    def get_data_size(self) -> int:
        """Return the number of bytes, dense."""
        return (self.get_element_num() * self._data_type.bits + 7) // 8

    def clone(self) -> "Tensor":
        """Return a copy that no op produces."""
        copy = Tensor(self._name, self._dims, self._data_type)
        copy.set_attrs(self)  # type: ignore[arg-type]
        return copy
