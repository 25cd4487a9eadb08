# SPDX-License-Identifier: Apache-2.0
"""Layers: ops with trained weights, and their weights and bias channel by channel."""

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops import Parameters, operator_of


def is_layer(node: Node) -> bool:
    """Return whether an op has trained weights."""
    return operator_of(node).parameters is not None


def parameters_of(layer: Node) -> Parameters:
    """Return what the weights of a layer are."""
    found = operator_of(layer).parameters
    assert found is not None, layer.kind
    return found


def weights_of(graph: Graph, layer: Node) -> Array:
    """Return the weights of a layer, which are constant."""
    value = graph[layer.inputs[parameters_of(layer).weights][0]].value
    assert value is not None
    return value


def has_constant_weights(graph: Graph, layer: Node) -> bool:
    """Return whether weights and bias of a layer are constants."""
    arguments = parameters_of(layer)
    names = [*layer.inputs[arguments.weights], *layer.inputs.get(arguments.bias, ())]
    return all(graph[name].value is not None for name in names)


def bias_of(graph: Graph, layer: Node) -> Array:
    """Return the bias of a layer as float64, zeros if it has none."""
    names = layer.inputs.get(parameters_of(layer).bias)
    if not names:
        return np.zeros(layer.shape[-1])
    value = graph[names[0]].value
    assert value is not None
    return value.astype(np.float64)


def set_parameters(graph: Graph, layer: Node, weights: Array, bias: Array) -> None:
    """Give a layer other weights and another bias; the old constants stay for other users."""
    arguments, added = parameters_of(layer), False
    for arg, array in ((arguments.weights, weights), (arguments.bias, bias)):
        old = layer.inputs.get(arg, [])
        if old and len(graph.consumers(old[0])) == 1:
            constant = graph[old[0]]
            constant.value = array.astype(np.float32)
            constant.type = constant.type.with_shape(array.shape)
        else:
            layer.inputs[arg] = [graph.add_const(f"{layer.name}_{arg}", array).name]
            added = True
    if added:
        graph.sort()


def by_output(layer: Node, weights: Array) -> Array:
    """Return the weights as a row for each output channel."""
    first = np.moveaxis(weights, parameters_of(layer).outputs, 0)
    return first.reshape(layer.shape[-1], -1)


def by_input(layer: Node, weights: Array, channels: int) -> Array:
    """Return the weights as a row for each of the input's ``channels``."""
    arguments = parameters_of(layer)
    if arguments.inputs is None:
        return np.moveaxis(weights, arguments.outputs, 0).reshape(channels, -1)
    return np.moveaxis(weights.reshape(weights.shape[0], -1, channels), -1, 0).reshape(channels, -1)


def scaled_outputs(layer: Node, weights: Array, factor: Array) -> Array:
    """Return float32 weights times a factor for each output channel."""
    axis = parameters_of(layer).outputs
    first = np.moveaxis(weights, axis, 0)
    made = first.reshape(factor.size, -1) * factor.astype(np.float32)[:, None]
    return np.moveaxis(made.reshape(first.shape), 0, axis)


def scaled_inputs(layer: Node, weights: Array, factor: Array) -> Array:
    """Return float32 weights times a factor for each input channel."""
    arguments, single = parameters_of(layer), factor.astype(np.float32)
    if arguments.inputs is None:
        return scaled_along(weights, arguments.outputs, single)
    return (weights.reshape(weights.shape[0], -1, factor.size) * single).reshape(weights.shape)


def scaled_along(array: Array, axis: int, factor: Array) -> Array:
    """Return an array times a factor for each index along an axis."""
    shape = [1] * array.ndim
    shape[axis] = factor.size
    return np.asarray(array * factor.reshape(shape))
