# SPDX-License-Identifier: Apache-2.0
"""TFLite files into memory: tensors, operators, inputs and outputs; their schema is that of the
package ``tflite``."""

import dataclasses
import pathlib
import struct
from typing import Any

import numpy as np
import tflite

from opendpu.frontend.tflite.sparsity import dense
from opendpu.frontend.whole_file import read_bytes
from opendpu.ir import Array
from opendpu_arch.errors import ModelFormatError

IDENTIFIER = b"TFL3"
"""Bytes 4 to 8 of every file."""
CUSTOM = "CUSTOM"

OTHER = np.dtype(object)
"""Of tensors of text, resources and the like."""
_DTYPES: dict[int, np.dtype[Any]] = {
    tflite.TensorType.FLOAT32: np.dtype(np.float32),
    tflite.TensorType.FLOAT16: np.dtype(np.float16),
    tflite.TensorType.FLOAT64: np.dtype(np.float64),
    tflite.TensorType.COMPLEX64: np.dtype(np.complex64),
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT32: np.dtype(np.int32),
    tflite.TensorType.INT64: np.dtype(np.int64),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.UINT16: np.dtype(np.uint16),
    tflite.TensorType.UINT32: np.dtype(np.uint32),
    tflite.TensorType.UINT64: np.dtype(np.uint64),
    tflite.TensorType.BOOL: np.dtype(np.bool_),
    tflite.TensorType.INT4: np.dtype(np.int8),
}
_DAMAGED = (
    struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError,
)  # fmt: skip
"""What the package raises where offsets lead nowhere."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A tensor of a file.

    Parameters
    ----------
    name
        What the file calls it.
    dims
        Its shape; -1 where a size is open.
    dtype
        Type of the elements as they are stored.
    value
        The elements, where it is a constant.
    scale, zero_point
        ``real = (stored - zero_point) * scale``; empty where elements are what they are.
    axis
        The axis that several scales run along.
    """

    name: str
    dims: tuple[int, ...]
    dtype: np.dtype[Any]
    value: Array | None
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0

    @property
    def is_quantized(self) -> bool:
        """Whether integers stand for real numbers."""
        return bool(self.scale) and self.dtype.kind in "iu"

    def same_scale(self, other: "Tensor") -> bool:
        """Tell whether integers of both stand for the same real numbers."""
        return (self.dtype, self.scale, self.zero_point) == (
            other.dtype, other.scale, other.zero_point
        )  # fmt: skip

    @property
    def real(self) -> Array:
        """The real numbers of a constant, float32."""
        assert self.value is not None, self.name
        if not self.is_quantized:
            return self.value
        along = [1] * self.value.ndim
        if len(self.scale) > 1:
            along[self.axis] = len(self.scale)
        zero = np.array(self.zero_point or (0,), np.float64)
        zero = zero.reshape(along) if len(zero) > 1 else zero.reshape([1] * self.value.ndim)
        scale = np.array(self.scale, np.float64).reshape(along)
        return np.asarray((self.value - zero) * scale, np.float32)


_WIDE_CODE = 10
"""Where a table of an operator's code says where its field ``builtin_code`` is."""
_NO_FIELDS = b"\4\0\4\0\4\0\0\0"
"""A table of a flatbuffer without fields: what says so, and behind it the table."""


@dataclasses.dataclass(frozen=True)
class Dilation:
    """What operators around a convolution make of it: see :mod:`.dilation`.

    Parameters
    ----------
    factors
        Rows and columns from one tap to the next.
    padding
        Rows above and below, columns left and right.
    sequence
        The axis of the feature map that a sequence is; nothing for feature maps.
    """

    factors: tuple[int, ...]
    padding: tuple[tuple[int, int], tuple[int, int]]
    sequence: int | None = None


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of a file: what it is, its tensors by index, and the table with its options.

    Parameters
    ----------
    custom
        The options of an operator that TFLite does not know, as they are.
    version
        Version of the operator.
    dilation
        Of a convolution that stands for operators around it, too, and of the SQUEEZE behind it.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    table: Any
    custom: bytes = b""
    version: int = 1
    dilation: Dilation | None = None

    def options(self, kind: type[Any]) -> Any:
        """Return the options, read as ``kind`` of the schema; defaults where the file has none."""
        found = kind()
        if self.table is None:
            found.Init(_NO_FIELDS, len(_NO_FIELDS) // 2)
        else:
            found.Init(self.table.Bytes, self.table.Pos)
        return found


@dataclasses.dataclass(frozen=True)
class File:
    """A graph of a file: the main one, or one that an operator refers to.

    ``graphs`` of the main one are all, by the numbers that operators have for them.
    """

    name: str
    tensors: list[Tensor]
    operators: list[Operator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    graphs: "tuple[File, ...]" = ()


def read(path: pathlib.Path) -> File:
    """Read a file.

    Raises
    ------
    ModelFormatError
        It cannot be read, is damaged, or is no TFLite file.
    """
    data = read_bytes(path)
    if data[4:8] != IDENTIFIER:
        raise ModelFormatError(
            f"{path} is not a TFLite file: bytes 4 to 8 are {data[4:8]!r}, not {IDENTIFIER!r}"
        )
    try:
        return _parsed(data, path.stem)
    except _DAMAGED as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelFormatError(f"{path} is a damaged TFLite file ({reason})") from None


def _parsed(data: bytes, name: str) -> File:
    model = tflite.Model.GetRootAs(data, 0)
    if not model.SubgraphsLength():
        raise ValueError("it has no graph")
    buffers = [_buffer(model.Buffers(i), data) for i in range(model.BuffersLength())]
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    kinds = [(_kind(code), code.Version()) for code in codes]
    graphs = [
        _graph(model.Subgraphs(i), buffers, kinds, name) for i in range(model.SubgraphsLength())
    ]
    return dataclasses.replace(graphs[0], graphs=tuple(graphs))


def _graph(graph: Any, buffers: list[Array], kinds: list[tuple[str, int]], name: str) -> File:
    tensors = [_tensor(graph.Tensors(i), buffers) for i in range(graph.TensorsLength())]
    operators = []
    for i in range(graph.OperatorsLength()):
        item = graph.Operators(i)
        kind, version = kinds[item.OpcodeIndex()]
        operators.append(
            Operator(
                kind,
                _indices(item.InputsAsNumpy(), tensors, optional=True),
                _indices(item.OutputsAsNumpy(), tensors),
                item.BuiltinOptions(),
                item.CustomOptionsAsNumpy().tobytes() if item.CustomOptionsLength() else b"",
                version,
            )
        )
    inputs, outputs = (
        _indices(part, tensors) for part in (graph.InputsAsNumpy(), graph.OutputsAsNumpy())
    )
    computed = {*inputs, *(index for operator in operators for index in operator.outputs)}
    tensors = [t if i in computed else _with_nothing(t) for i, t in enumerate(tensors)]
    return File((graph.Name() or b"").decode() or name, tensors, operators, inputs, outputs)


def _indices(
    array: Array | int, tensors: list[Tensor], *, optional: bool = False
) -> tuple[int, ...]:  # fmt: skip
    """Return indices of tensors; -1 says that an optional one is not there."""
    found = () if isinstance(array, int) else tuple(int(index) for index in array)
    lowest = -1 if optional else 0
    if any(not lowest <= index < len(tensors) for index in found):
        raise IndexError(f"tensors {list(found)} of {len(tensors)}")
    return found


def _kind(code: Any) -> str:
    """Return the name of an operator; old files have its number in eight bits, some only in 32."""
    number = max(_wide_code(code), code.DeprecatedBuiltinCode())
    name = tflite.BUILTIN_OPCODE2NAME.get(number, f"operator {number}")
    if name == CUSTOM:
        return f"{CUSTOM} {(code.CustomCode() or b'').decode()!r}"
    return str(name)


def _wide_code(code: Any) -> int:
    """Return the number in 32 bits, which the package does not tell where eight hold it."""
    table = code._tab
    place = table.Offset(_WIDE_CODE)
    if not place:
        return 0
    first = table.Pos + place
    return int.from_bytes(table.Bytes[first : first + 4], "little", signed=True)


def _buffer(buffer: Any, data: bytes) -> Array:
    """Return the bytes of a constant; those of large files lie behind the flatbuffer."""
    if buffer.Offset() > 1:
        first, size = buffer.Offset(), buffer.Size()
        if first + size > len(data):
            raise IndexError(f"a buffer of {size} bytes at {first}")
        return np.frombuffer(data, np.uint8, size, first)
    found = buffer.DataAsNumpy()
    return np.zeros(0, np.uint8) if isinstance(found, int) else found


def _tensor(item: Any, buffers: list[Array]) -> Tensor:
    name, kind = (item.Name() or b"").decode(), item.Type()
    dtype = _DTYPES.get(kind, OTHER)
    dims = item.ShapeSignatureAsNumpy()
    dims = item.ShapeAsNumpy() if isinstance(dims, int) else dims
    shape = () if isinstance(dims, int) else tuple(int(size) for size in dims)
    data, value = buffers[item.Buffer()], None
    sparsity = item.Sparsity()
    if data.size and dtype != OTHER:
        if kind == tflite.TensorType.INT4:
            data = _unpacked(data, int(np.prod(shape)) if sparsity is None else 2 * data.size)
        value = data.view(dtype)
        value = value.reshape(shape) if sparsity is None else dense(value, shape, sparsity)
    if value is None and item.IsVariable() and dtype != OTHER:
        value = np.broadcast_to(np.zeros((), dtype), shape)  # what recurrent layers begin with
    made = Tensor(name, shape, dtype, value)
    quantization = item.Quantization()
    if quantization is None or not quantization.ScaleLength():
        return made
    return dataclasses.replace(
        made,
        scale=tuple(float(scale) for scale in quantization.ScaleAsNumpy()),
        zero_point=tuple(
            int(quantization.ZeroPoint(i)) for i in range(quantization.ZeroPointLength())
        ),
        axis=quantization.QuantizedDimension(),
    )


def _with_nothing(tensor: Tensor) -> Tensor:
    """Return a tensor that nobody computes as a constant if it has no elements, as for scalars."""
    if tensor.value is None and 0 in tensor.dims and tensor.dtype != OTHER:
        return dataclasses.replace(tensor, value=np.zeros(tensor.dims, tensor.dtype))
    return tensor


def _unpacked(data: Array, count: int) -> Array:
    """Return numbers of four bits, the first in the lower half of a byte, as bytes."""
    pairs = np.stack([data & 15, data >> 4], axis=-1).ravel()[:count].astype(np.int16)
    return np.where(pairs > 7, pairs - 16, pairs).astype(np.int8)
