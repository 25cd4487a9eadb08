# SPDX-License-Identifier: Apache-2.0
"""Orders of axes: feature maps for ONNX's spatial operators, and back; weights."""

from opendpu.frontend.building import Builder
from opendpu.frontend.refusal import Refusal


def ordered(b: Builder, value: str, perm: tuple[int, ...], name: str = "") -> str:
    """Return a value with its axes in another order."""
    if perm == tuple(range(len(perm))):
        return value
    return b.node("Transpose", [value], name or f"{value}/transpose", perm=list(perm))


def to_first(rank: int) -> tuple[int, ...]:
    """Return the order of axes that moves channels from the end behind the batch."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """Return the order of axes that moves channels from behind the batch to the end."""
    return (0, *range(2, rank), 1)


def channels_first(b: Builder, value: str) -> str:
    """Return a value with channels last (NHWC, NDHWC) as one with channels first."""
    return ordered(b, value, to_first(len(known_shape(b, value))), f"{value}/NCHW")


def channels_last(b: Builder, value: str) -> str:
    """Return a value with channels first (NCHW, NCDHW) as one with channels last."""
    return ordered(b, value, to_last(len(known_shape(b, value))), f"{value}/NHWC")


def known_shape(b: Builder, value: str) -> tuple[int, ...]:
    """Return the shape of a value; Refusal if it is not known."""
    shape = b.shape(value)
    if shape is None:
        raise Refusal(f"the shape of {value!r} depends on the data")
    return shape


def volume(b: Builder, value: str, places: int) -> tuple[int, ...]:
    """Return the shape of a value with so many axes between batch and channels; Refusal else."""
    shape = known_shape(b, value)
    if len(shape) != places + 2:
        raise Refusal(
            f"{value!r} has shape {list(shape)}, but must be "
            f"{'a feature map (NHWC)' if places == 2 else f'of {places + 2} axes'}"
        )
    return shape


def feature_map(b: Builder, value: str) -> tuple[int, int, int, int]:
    """Return the shape of an NHWC value; Refusal if it has no four axes."""
    batch, height, width, channels = volume(b, value, 2)
    return batch, height, width, channels


def reshaped(b: Builder, value: str, shape: tuple[int, ...], name: str = "") -> str:
    """Return a value in another shape."""
    return b.node("Reshape", [value, b.integers(*shape)], name or f"{value}/reshape")
