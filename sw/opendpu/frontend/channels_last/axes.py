# SPDX-License-Identifier: Apache-2.0
"""Orders of axes: feature maps for ONNX's spatial operators, and back; weights."""

from opendpu.frontend.building import Builder
from opendpu.frontend.refusal import Refusal

TO_FIRST = (0, 3, 1, 2)
TO_LAST = (0, 2, 3, 1)


def ordered(b: Builder, value: str, perm: tuple[int, ...], name: str = "") -> str:
    """Return a value with its axes in another order."""
    if perm == tuple(range(len(perm))):
        return value
    return b.node("Transpose", [value], name or f"{value}/transpose", perm=list(perm))


def channels_first(b: Builder, value: str) -> str:
    """Return an NHWC value as NCHW."""
    return ordered(b, value, TO_FIRST, f"{value}/NCHW")


def channels_last(b: Builder, value: str) -> str:
    """Return an NCHW value as NHWC."""
    return ordered(b, value, TO_LAST, f"{value}/NHWC")


def known_shape(b: Builder, value: str) -> tuple[int, ...]:
    """Return the shape of a value; Refusal if it is not known."""
    shape = b.shape(value)
    if shape is None:
        raise Refusal(f"the shape of {value!r} depends on the data")
    return shape


def feature_map(b: Builder, value: str) -> tuple[int, int, int, int]:
    """Return the shape of an NHWC value; Refusal if it has no four axes."""
    shape = known_shape(b, value)
    if len(shape) != 4:
        raise Refusal(f"{value!r} has shape {list(shape)}, but must be a feature map (NHWC)")
    return shape[0], shape[1], shape[2], shape[3]


def reshaped(b: Builder, value: str, shape: tuple[int, ...], name: str = "") -> str:
    """Return a value in another shape."""
    return b.node("Reshape", [value, b.integers(*shape)], name or f"{value}/reshape")
