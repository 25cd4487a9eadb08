# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch that its ONNX exporter does not convert, or wrongly, and what they are.

Of a function here, onnxscript reads the annotations: attributes have them, tensors have none.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import opset18 as op

from opendpu.frontend.pytorch.decomposed import clamped

SPACE_AXES = 3
"""Axes of an input of ``conv3d`` beside channels and samples."""


def _conv3d(  # type: ignore[no-untyped-def]
    input, weight, bias=None, stride: Sequence[int] = (1, 1, 1), padding: Sequence[int] = (0, 0, 0),
    dilation: Sequence[int] = (1, 1, 1), groups: int = 1,
):  # fmt: skip
    """Make Conv; the exporter's own gives one without a bias the shape ``[channels, 2]`` for it."""
    single = len(input.shape) == SPACE_AXES + 1
    source = op.Unsqueeze(input, _integers([0])) if single else input
    made = op.Conv(
        source, weight, *([] if bias is None else [bias]), group=groups, strides=_each(stride),
        pads=2 * _each(padding), dilations=_each(dilation),
    )  # fmt: skip
    return op.Squeeze(made, _integers([0])) if single else made


def _each(given: int | Sequence[int]) -> list[int]:
    """Return one number an axis; PyTorch takes one for all."""
    numbers = [given] if isinstance(given, int) else list(given)
    return numbers * SPACE_AXES if len(numbers) == 1 else numbers


def _amax(self, dim: Sequence[int] = (), keepdim: bool = False):  # type: ignore[no-untyped-def]
    """Make ReduceMax; the exporter's own needs axes."""
    return op.ReduceMax(self, *_axes(dim), keepdims=int(keepdim))


def _amin(self, dim: Sequence[int] = (), keepdim: bool = False):  # type: ignore[no-untyped-def]
    """Make ReduceMin, likewise."""
    return op.ReduceMin(self, *_axes(dim), keepdims=int(keepdim))


def _squeeze(self, dim: int):  # type: ignore[no-untyped-def]
    """Make Squeeze, or nothing of an axis that has another size than 1, as PyTorch does."""
    size = self.shape[dim] if len(self.shape) else 0
    if isinstance(size, int) and size != 1:
        return op.Identity(self)
    return op.Squeeze(self, _integers([dim]))


def _axes(dim: Sequence[int]) -> list[Any]:
    """Return the axes as inputs of a reduction: none for all."""
    return [_integers(dim)] if dim else []


def _integers(values: Sequence[int]) -> Any:
    return op.Constant(value_ints=list(values))


def repaired() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return functions that make ONNX's operators, by the operator of PyTorch."""
    aten = torch.ops.aten
    return {
        aten.conv3d.default: _conv3d, aten.amax.default: _amax, aten.amin.default: _amin,
        aten.squeeze.dim: _squeeze,
        **clamped(),
    }  # fmt: skip
