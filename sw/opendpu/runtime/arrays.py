# SPDX-License-Identifier: Apache-2.0
"""Arrays of the user against the tensors of a runner: checks and float conversion."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from opendpu.ir.xir_bridge import quantization_of
from opendpu.ops.formats import integers_of, real_numbers
from opendpu.runtime import buffers
from opendpu_arch import numerics
from opendpu_arch.errors import TensorError
from xir import Tensor

Array = npt.NDArray[Any]
Arrays = Sequence[Array] | Mapping[str, Array]
"""Arrays in the order of the tensors, or by tensor name."""


class Slot(Protocol):
    """A tensor that a job takes or gives."""

    @property
    def tensor(self) -> Tensor:
        """The tensor."""
        ...

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names it answers to."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its elements."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Its dimensions."""
        ...


def match_arrays(arrays: Arrays, slots: Sequence[Slot], role: str) -> list[Array]:
    """Return the arrays in the order of ``slots``, each checked; ``role`` is input or output.

    Besides arrays, whatever :func:`opendpu.runtime.buffers.view` takes will do.

    Raises
    ------
    TensorError
        An array is missing or too many, or has a wrong dtype, shape or memory layout.
    """
    if isinstance(arrays, Mapping):
        ordered = _by_name(arrays, slots, role)
    elif isinstance(arrays, np.ndarray) or not isinstance(arrays, Sequence):
        raise TensorError(
            f"{role}s are a {type(arrays).__name__}, but must be a list of arrays or a dict by "
            "name",
            code="VART_TENSOR_INFO_ERROR",
        )
    elif len(arrays) != len(slots):
        raise TensorError(
            f"{len(arrays)} {role}s given, but must be {len(slots)}: {_names(slots)}",
            code="VART_TENSOR_INFO_ERROR",
        )
    else:
        ordered = list(arrays)
    return [
        array if is_plain(array, slot, role) else _checked(array, slot, role)
        for array, slot in zip(ordered, slots, strict=True)
    ]


def is_plain(array: Any, slot: Slot, role: str) -> bool:
    """Tell whether ``array`` can be taken for a tensor as it is, without a look at its details."""
    if type(array) is not np.ndarray or array.dtype != slot.dtype or array.shape != slot.shape:
        return False
    flags = array.flags
    return flags.c_contiguous and (role == "input" or flags.writeable)


def _names(slots: Sequence[Slot]) -> str:
    return ", ".join(slot.tensor.name for slot in slots)


def _by_name(arrays: Mapping[str, Array], slots: Sequence[Slot], role: str) -> list[Array]:
    ordered, used = [], set()
    for slot in slots:
        given = [name for name in (slot.tensor.name, *slot.aliases) if name in arrays]
        if not given:
            raise TensorError(
                f"{role} {slot.tensor.name!r} is missing; needed: {_names(slots)}",
                code="VART_TENSOR_INFO_ERROR",
            )
        ordered.append(arrays[given[0]])
        used.add(given[0])
    if extra := sorted(set(arrays) - used):
        raise TensorError(
            f"unknown {role} {extra[0]!r}; needed: {_names(slots)}", code="VART_TENSOR_INFO_ERROR"
        )
    return ordered


def _checked(value: Any, slot: Slot, role: str) -> Array:
    tensor, own = slot.tensor, slot.dtype
    label = f"{role} {tensor.name!r}"
    array = buffers.view(value, own, label)
    if array.dtype == np.bool_ and own == np.uint8:  # what XIR has in place of truth values
        array = array.view(np.uint8)
    allowed = dict.fromkeys((own, np.dtype(np.float32)))
    if array.dtype not in allowed:
        raise TensorError(
            f"{label} has dtype {array.dtype}, but must be {' or '.join(map(str, allowed))}",
            code="VART_TENSOR_INFO_ERROR",
        )
    if array.shape != slot.shape:
        raise TensorError(
            f"{label} has shape {array.shape}, but must be {slot.shape}",
            code="VART_TENSOR_BUFFER_DIMS_ERROR",
        )
    if not array.flags.c_contiguous:
        raise TensorError(
            f"{label} has strides {array.strides}, but must be C-contiguous; "
            "use numpy.ascontiguousarray",
            code="VART_TENSOR_BUFFER_INVALID",
        )
    if role == "output" and not array.flags.writeable:
        raise TensorError(
            f"{label} is read-only, but must be writeable", code="VART_TENSOR_BUFFER_INVALID"
        )
    if array.dtype != own and not is_quantized(tensor):
        raise TensorError(f"{label} has no fix_point, so float32 cannot be converted to {own}")
    return array


def is_quantized(tensor: Tensor) -> bool:
    """Tell whether a tensor says what real numbers its integers stand for."""
    return tensor.has_attr("fix_point") or tensor.has_attr("scale")


def to_tensor(array: Array, tensor: Tensor) -> Array:
    """Return a checked input array in the element type of its tensor, floats as VART does it."""
    if array.dtype == tensor.data_type.numpy():
        return array
    if tensor.has_attr("scale"):
        return quantized(array, tensor)
    try:
        return float_to_fixed(array, tensor.get_attr("fix_point"), tensor.data_type.numpy())
    except TensorError as error:
        raise TensorError(f"input {tensor.name!r}: {error}") from None


def quantized(array: Array, tensor: Tensor) -> Array:
    """Return a checked input array in the element type of its tensor, floats rounded.

    Unlike :func:`to_tensor` this rounds as the tensor's ``round_mode`` says and saturates, which
    is what the quantizer assumed.
    """
    own = tensor.data_type.numpy()
    if array.dtype == own:
        return array
    if not np.isfinite(array).all():
        raise TensorError(f"input {tensor.name!r}: float32 values are not all finite")
    found = quantization_of(tensor)
    if found is not None and not found.is_power_of_two:
        return integers_of(array, found).astype(own)
    mode = tensor.get_attr("round_mode") if tensor.has_attr("round_mode") else "DPU_ROUND"
    fixed = numerics.quantize(
        array,
        tensor.get_attr("fix_point"),
        bit_width=tensor.data_type.bit_width,
        signed=own.kind == "i",
        round_mode=mode,
    )
    return fixed.astype(own)


def from_tensor(values: Array, tensor: Tensor, array: Array) -> None:
    """Fill a checked output array from values in the element type of its tensor.

    Raises
    ------
    TensorError
        The output has another size with this input.
    """
    if values.size != array.size:
        raise TensorError(
            f"output {tensor.name!r} has shape {values.shape} with this input, but its array has "
            f"{array.shape}; run() gives it as large as it is"
        )
    array[...] = converted(values.reshape(array.shape), tensor, array.dtype)


def converted(values: Array, tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    """Return an output's values, in the element type of its tensor, as those or as real numbers."""
    if dtype == values.dtype:
        return values
    found = quantization_of(tensor)
    if found is not None and not found.is_power_of_two:
        return real_numbers(values, found)
    return fixed_to_float(values, tensor.get_attr("fix_point"))


def float_to_fixed(values: Array, fix_point: int, dtype: np.dtype[Any]) -> Array:
    """Return ``values * 2**fix_point`` as C converts it: toward zero, wrapping, not saturating.

    The wrap goes over 32 bits, as on the Arm cores of the boards: beyond them, values saturate
    first. Values that are not finite raise TensorError.
    """
    scaled = np.trunc(np.ldexp(values.astype(np.float64), fix_point))
    if not np.isfinite(scaled).all():
        raise TensorError("float32 values are not all finite")
    limits = np.iinfo(np.int32)
    return np.clip(scaled, limits.min, limits.max).astype(np.int32).astype(dtype)


def fixed_to_float(values: Array, fix_point: int) -> npt.NDArray[np.float32]:
    """Return ``values * 2**-fix_point``."""
    return np.ldexp(values.astype(np.float32), -fix_point).astype(np.float32)
