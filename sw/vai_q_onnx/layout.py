# SPDX-License-Identifier: Apache-2.0
"""Models that take images as NCHW made ones that take NHWC: ``convert_nchw_to_nhwc``."""

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.model_file import ParsedModel
from vai_q_onnx.calibration import Batch, Reader

ORDER = (0, 2, 3, 1)
"""Axes of NCHW in the order of NHWC."""
BACK = (0, 3, 1, 2)
COLORS = (1, 3, 4)
"""Channels that images have: an input that ends with so many, and only there, is NHWC already."""


def images_of(model: onnx.ModelProto) -> list[str]:
    """Return the inputs of four axes."""
    constants = {item.name for item in model.graph.initializer}
    return [
        item.name for item in model.graph.input
        if item.name not in constants and len(_dims(item)) == len(ORDER)
    ]  # fmt: skip


def is_nhwc(model: onnx.ModelProto, name: str) -> bool:
    """Return whether an input of four axes looks as if its channels were last already."""
    (item,) = (one for one in model.graph.input if one.name == name)
    channels, last = (_dims(item)[axis].dim_value for axis in (1, 3))
    return last in COLORS and channels not in COLORS


def turn(model: onnx.ModelProto, names: Collection[str]) -> None:
    """Let some inputs of four axes be NHWC, in place."""
    turned = []
    for item in model.graph.input:
        if item.name not in names:
            continue
        inside = f"{item.name}_nchw"
        for node in model.graph.node:
            node.input[:] = [inside if one == item.name else one for one in node.input]
        dims = _dims(item)
        sizes = [onnx.TensorShapeProto.Dimension() for _ in ORDER]
        for size, axis in zip(sizes, ORDER, strict=True):
            size.CopyFrom(dims[axis])
        del dims[:]
        dims.extend(sizes)
        turned.append(helper.make_node("Transpose", [item.name], [inside], inside, perm=BACK))
    nodes = [*turned, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def channels_last(model: ParsedModel, reader: Reader | None) -> tuple[ParsedModel, Reader | None]:
    """Return a model that takes images as NHWC, and a reader that gives what another has as NCHW.

    As with AMD's quantizer, inputs that are NHWC already stay, and a model without images does: a
    warning says so.
    """
    names = images_of(model.proto)
    chosen = [name for name in names if not is_nhwc(model.proto, name)]
    if not chosen:
        why = "its images are NHWC already" if names else "no input has four axes"
        warnings.warn(f"convert_nchw_to_nhwc leaves {model.label} as it is: {why}", stacklevel=4)
        return model, reader
    made = onnx.ModelProto()
    made.CopyFrom(model.proto)
    turn(made, chosen)
    turned = None if reader is None else TurnedReader(reader, chosen)
    return model._replace(proto=made), turned


class TurnedReader:
    """Calibration data as NCHW, read as NHWC.

    Parameters
    ----------
    reader
        Whose data it is.
    names
        Inputs that are turned.
    """

    def __init__(self, reader: Reader, names: Collection[str]) -> None:
        self._reader, self._names = reader, names

    def get_next(self) -> Batch | None:
        """Return the next batch, none at the end."""
        batch = self._reader.get_next()
        if batch is None:
            return None
        return {
            name: np.transpose(array, ORDER)
            if name in self._names and np.ndim(array) == len(ORDER) else array
            for name, array in batch.items()
        }  # fmt: skip


def _dims(item: onnx.ValueInfoProto) -> Any:
    return item.type.tensor_type.shape.dim
