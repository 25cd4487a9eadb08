# SPDX-License-Identifier: Apache-2.0
"""Layers behind each other, computed on all samples at once, with biases corrected on the way.

The mean of what a layer computes is an op of the graph here, and so is the bias that makes up for
it. One session does what otherwise takes one for each layer.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph, Node, NumberFormat, TensorType
from opendpu.ir.types import FLOAT32
from opendpu.ops.formats import fake_quantize
from opendpu.ops.formats.integer import EXACT_BITS
from opendpu.ops.session import Session
from opendpu.quantize.layers import parameters_of

ROOM_BYTES = 1 << 27
"""Size of the float32 results that are alive at a time, for which all samples are computed at once:
so large, fewer sessions save more than larger arrays cost."""


def is_possible(graph: Graph, layers: Iterable[str]) -> bool:
    """Return whether biases of layers are their own, on grids that sessions compute exactly."""
    users = graph.consumer_map()
    for name in layers:
        bias = graph[graph[name].inputs[parameters_of(graph[name]).bias][0]]
        found = bias.type.quantization
        if len(users[bias.name]) > 1:
            return False
        if found and (found.number_format != NumberFormat.INT or found.bits > EXACT_BITS):
            return False
    return True


def corrected(
    graph: Graph,
    nodes: Sequence[str],
    means: Mapping[str, Array],
    keep: Iterable[str],
    given: Mapping[str, Array],
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the biases of layers, and results, after all layers got the means that they should.

    Parameters
    ----------
    graph
        The quantized graph, with plain constants.
    nodes
        The ops to compute, in order, without constants.
    means
        Wanted means of channels, by layer.
    keep
        Ops whose results are returned.
    given
        What the ops read and none of them makes, all samples stacked along the first axis.
    """
    made = Graph(graph.name)
    made.attrs = dict(graph.attrs)
    for name in given:
        made.add(name, "data", graph[name].type)
    for name in dict.fromkeys(s for n in nodes for s in graph[n].sources()):
        if graph[name].value is not None:
            made.nodes[name] = graph[name]
    biases = {}
    for name in nodes:
        if name in means:
            biases[name] = _add_layer(made, graph, graph[name], means[name])
        else:
            made.nodes[name] = graph[name]
    kept = list(keep)
    made.outputs = [*biases.values(), *(name for name in kept if name not in given)]
    results = Session(made, batched=True, channels_first=True).run(given)
    values = {}
    for name, bias in biases.items():
        value, quantization = results[bias].reshape(-1), made[bias].type.quantization
        values[name] = value if quantization is None else fake_quantize(value, quantization)
    return values, {name: given[name] if name in given else results[name] for name in kept}


def _add_layer(made: Graph, graph: Graph, layer: Node, mean: Array) -> str:
    """Add a layer whose bias follows from what it computes; return the name of this bias."""
    arguments = parameters_of(layer)
    shape = (1,) * (len(layer.shape) - 1) + layer.shape[-1:]
    inputs = {arg: names for arg, names in layer.inputs.items() if arg != arguments.bias}
    plain = made.unique(f"{layer.name}:sum")
    made.add(plain, layer.kind, (*layer.shape,), inputs, layer.attrs)
    axes = list(range(len(layer.shape) - 1))
    found = made.add(
        made.unique(f"{layer.name}:mean"), "reduction_mean", shape, {"input": [plain]},
        {"axis": axes, "keep_dims": True},
    )  # fmt: skip
    wanted = made.add(
        made.unique(f"{layer.name}:wanted"), "const", TensorType(shape, FLOAT32),
        value=mean.reshape(shape).astype(np.float32),
    )  # fmt: skip
    bias = made.add(
        made.unique(f"{layer.name}:lacks"), "sub", shape, {"input": [wanted.name, found.name]}
    )
    fix = graph[layer.inputs[arguments.bias][0]]
    if fix.type.quantization is not None:
        grid = fix.type.quantization
        if grid.axis is not None:
            grid = dataclasses.replace(grid, axis=-1)
        bias = made.add_fix(f"{layer.name}:bias", bias.name, grid)
    made.add(layer.name, "add", layer.type, {"input": [plain, bias.name]})
    return bias.name
