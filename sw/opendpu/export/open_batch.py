# SPDX-License-Identifier: Apache-2.0
"""Whether a quantized file takes any number of samples, as the model that it was made of does."""

from collections.abc import Mapping, Sequence

import onnx

from opendpu.frontend.binding import OPEN, Sizes
from opendpu.ir import Graph
from opendpu.ops.batching import mixes_samples

BATCH = "N"
"""What :func:`opendpu.export.to_onnx` calls an axis of any number of samples."""


def keeps_open_batch(source: onnx.ModelProto, graph: Graph, sizes: Sizes | None = None) -> bool:
    """Tell whether the first axis of every input stays open.

    It does where the model leaves it open, nobody gives a size for it, and the graph, which is that
    of one sample, computes every sample by itself.

    Parameters
    ----------
    source
        The model; its weights are not looked at.
    graph
        What was made of it.
    sizes
        What the user gives instead of the model's own.
    """
    constants = {item.name for item in source.graph.initializer}
    inputs = [item for item in source.graph.input if item.name not in constants]
    given = sizes or {}
    return (
        bool(inputs)
        and all(_is_open(item, given) for item in inputs)
        and not mixes_samples(graph, graph.outputs)
    )


def name_batch(made: onnx.ModelProto, source: onnx.ModelProto) -> None:
    """Give the open first axis of a quantized model's tensors the name that it has in the model."""
    own = {item.name: item for item in source.graph.input}
    names = {
        own[item.name].type.tensor_type.shape.dim[0].dim_param
        for item in made.graph.input
        if item.name in own
    }
    if len(names) != 1 or not all(names):
        return
    for item in (*made.graph.input, *made.graph.output):
        dims = item.type.tensor_type.shape.dim
        if dims and dims[0].dim_param == BATCH:
            dims[0].dim_param = next(iter(names))


def _is_open(item: onnx.ValueInfoProto, sizes: Mapping[str, Sequence[int] | int]) -> bool:
    """Tell whether an input may hold any number of samples."""
    dims = item.type.tensor_type.shape.dim
    if not dims or dims[0].HasField("dim_value") or dims[0].dim_param in sizes:
        return False
    shape = sizes.get(item.name, sizes.get("", ()))
    return isinstance(shape, int) or not shape or shape[0] == OPEN
