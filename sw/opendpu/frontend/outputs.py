# SPDX-License-Identifier: Apache-2.0
"""The outputs of a model: each a node of its own with the output's name."""

from opendpu.frontend.context import Context
from opendpu.frontend.fallback import keep_onnx
from opendpu.frontend.layout import CHANNELS_LAST, Value, plain
from opendpu.frontend.refusal import Refusal
from opendpu.ops.foreign import DYNAMIC_AXES
from opendpu_arch.errors import UnsupportedError


def bind_outputs(
    context: Context, order: dict[str, list[int]], *, channels_last: bool = False
) -> list[str]:
    """Make a node for every output, and return the names of those without axes.

    Which have their axes in another order is noted in ``order``; with ``channels_last`` none has.

    Raises
    ------
    UnsupportedError
        An output is a constant that is no tensor of numbers.
    """
    graph, source = context.graph, context.source
    taken: set[str] = set()
    scalars: list[str] = []
    for name in dict.fromkeys(source.outputs):
        value = context.straight(_value(context, name))
        is_scalar = () in (source.shape(name), value.shape)
        perm = None if channels_last else CHANNELS_LAST.get(len(value.shape))
        if graph[value.node].attrs.get(DYNAMIC_AXES):
            perm, node = None, value.node
        elif perm is not None and value.perm == perm:
            node = context.ordered(value, perm)
        else:
            perm = None
            node = context.ordered(value, plain(len(value.shape)))
        if (
            graph[node].kind in ("data", "const")
            or node in taken
            or (node != name and node in source.outputs)
        ):
            shape, dtype = graph[node].shape, graph[node].type.dtype
            node = context.emit(
                f"{name}_copy", "reshape", shape, {"input": [node]}, {"shape": list(shape)}, dtype
            )
        if name in source.inputs:
            name = node
        elif node != name:
            if name in graph.nodes:
                context.rename(name, graph.unique(f"{name}_inner"))
            context.rename(node, name)
        if perm is not None:
            order[name] = list(perm)
        if is_scalar:
            scalars.append(name)
        taken.add(name)
        graph.outputs.append(name)
    return scalars


def _value(context: Context, name: str) -> Value:
    """Return where an output is; what is real numbers here, but integers in ONNX, is made anew."""
    source, wanted = context.source, context.source.dtype(name)
    if name in context.constants and wanted in (None, context.constants[name].dtype):
        array = context.constants[name]
        if array.dtype.kind not in "fiub":
            raise UnsupportedError(
                f"{source.label}: output {name!r} is a constant of {array.dtype}, but must be a "
                "tensor of integers, floats or bools"
            )
        return Value(context.constant_node(name, array), array.shape, plain(array.ndim))
    value = context.values.get(name)
    if value is not None and wanted in (None, context.graph[value.node].type.dtype):
        return value
    context.values.pop(name, None)
    context.constants.pop(name, None)
    try:
        keep_onnx(context, [source.producers[name]], "its results leave the model as integers")
    except Refusal as reason:
        raise UnsupportedError(f"{source.label}: output {name!r}: {reason}") from None
    return context.values[name]
