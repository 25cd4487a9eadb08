# SPDX-License-Identifier: Apache-2.0
"""Dilated convolutions, which some converters write as three operators and more.

SPACE_TO_BATCH_ND puts every n-th pixel into an image of its own, a convolution without padding
goes over these, and BATCH_TO_SPACE_ND puts the pixels back. Padding and crops are those of the
convolution together. One along a sequence has reshapes around it, which add and drop an axis.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tflite

from opendpu.frontend.tflite.file import Dilation, File, Operator

_OPTIONS = {
    "CONV_2D": tflite.Conv2DOptions, "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
}  # fmt: skip
_SEQUENCE, _FEATURE_MAP = 3, 4
"""Axes of what is spread."""
_ADDS_AXIS, _DROPS_AXIS = ("RESHAPE", "EXPAND_DIMS"), ("RESHAPE", "SQUEEZE")


def joined(file: File) -> list[Operator]:
    """Return the operators of a graph, those of a dilated convolution as one."""
    if not any(operator.kind == "BATCH_TO_SPACE_ND" for operator in file.operators):
        return file.operators
    makers = {index: operator for operator in file.operators for index in operator.outputs}
    readers: dict[int, int] = dict.fromkeys(file.outputs, 1)
    for operator in file.operators:
        for index in operator.inputs:
            readers[index] = readers.get(index, 0) + 1
    made: dict[int, list[Operator]] = {}
    gone: set[int] = set()
    for operator in file.operators:
        found = _chain(file, operator, makers, readers)
        if found is not None:
            parts, made[id(operator)] = found
            gone.update(id(part) for part in parts)
    return [
        operator
        for old in file.operators
        for operator in made.get(id(old), () if id(old) in gone else (old,))
    ]


def _chain(
    file: File, last: Operator, makers: Mapping[int, Operator], readers: Mapping[int, int]
) -> tuple[list[Operator], list[Operator]] | None:
    """Return the operators that a BATCH_TO_SPACE_ND ends, and those that do the same."""
    if last.kind != "BATCH_TO_SPACE_ND":
        return None

    def before(operator: Operator, *kinds: str) -> Operator | None:
        """Return what makes the first input, if it is of these kinds and nobody else reads it."""
        found = makers.get(operator.inputs[0])
        alone = found is not None and all(readers[index] == 1 for index in found.outputs)
        return found if found is not None and alone and found.kind in kinds else None

    parts = [last]
    sequence = len(file.tensors[last.outputs[0]].dims) == _SEQUENCE
    for kinds in (
        _DROPS_AXIS if sequence else (), tuple(_OPTIONS), _ADDS_AXIS if sequence else (),
        ("SPACE_TO_BATCH_ND",),
    ):  # fmt: skip
        if kinds:
            found = before(parts[-1], *kinds)
            if found is None:
                return None
            parts.append(found)
    (convolution,) = (part for part in parts if part.kind in _OPTIONS)
    dilation = _dilation(file, parts[-1], convolution, last)
    if dilation is None or not _keeps_scale(file, parts):
        return None
    outputs = convolution.outputs if sequence else last.outputs
    whole = dataclasses.replace(
        convolution, inputs=(parts[-1].inputs[0], *convolution.inputs[1:]), outputs=outputs,
        dilation=dilation,
    )  # fmt: skip
    if not sequence:
        return parts, [whole]
    return parts, [whole, Operator("SQUEEZE", outputs, last.outputs, None, dilation=dilation)]


def _dilation(
    file: File, first: Operator, convolution: Operator, last: Operator
) -> Dilation | None:
    """Return what the operators around a convolution mean for it, if they mean a dilation."""
    given: Any = convolution.options(_OPTIONS[convolution.kind])
    numbers = [
        file.tensors[operator.inputs[index]].value for operator in (first, last) for index in (1, 2)
    ]
    plain = (
        given.StrideH() == given.StrideW() == 1
        and given.DilationHFactor() == given.DilationWFactor() == 1
        and given.Padding() == tflite.Padding.VALID
    )
    if not plain or any(number is None for number in numbers):
        return None
    blocks, pads, others, crops = (np.asarray(number, np.int64) for number in numbers)
    padding = pads - crops
    if blocks.tolist() != others.tolist() or padding.min() < 0:
        return None
    shape = file.tensors[convolution.inputs[0]].dims
    if (
        len(file.tensors[last.outputs[0]].dims) == _SEQUENCE
        and blocks.size == 1
        and 1 in shape[1:3]
    ):
        at = 2 if shape[1] == 1 else 1
        blocks = np.array([1, blocks[0]] if at == 2 else [blocks[0], 1])
        none = np.zeros((1, 2), np.int64)
        padding = np.concatenate([none, padding] if at == 2 else [padding, none])
        return Dilation(tuple(blocks.tolist()), _pairs(padding), at)
    if len(shape) != _FEATURE_MAP or blocks.size != 2:
        return None
    return Dilation(tuple(blocks.tolist()), _pairs(padding))


def _pairs(padding: np.ndarray[Any, np.dtype[np.int64]]) -> tuple[tuple[int, int], tuple[int, int]]:
    (top, bottom), (left, right) = padding.tolist()
    return (top, bottom), (left, right)


def _keeps_scale(file: File, parts: list[Operator]) -> bool:
    """Tell whether operators that move data have results of their input's scale."""
    return all(
        file.tensors[part.inputs[0]].same_scale(file.tensors[part.outputs[0]])
        for part in parts
        if part.kind not in _OPTIONS
    )
