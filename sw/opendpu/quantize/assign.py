# SPDX-License-Identifier: Apache-2.0
"""Quantizations of all tensors and constants together: those that a DPU can run, and others."""

import dataclasses
from collections.abc import Callable

from opendpu.ir import Graph, Node, Quantization
from opendpu.quantize.layers import bias_of, parameters_of
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.specs import TensorSpecs
from opendpu.quantize.scales.choose import choose_scales
from opendpu.quantize.scales.constants import bias_scale, weight_scales, weights_for_bias
from opendpu.quantize.scales.shifts import make_legal

Refine = Callable[[dict[str, int], dict[str, Quantization]], dict[str, int]]
"""Returns better fix points of results, of these and the quantizations of weights by layer."""


def deployable_scales(
    graph: Graph, groups: ScaleGroups, specs: TensorSpecs, observed: Observed
) -> dict[str, Quantization]:
    """Return quantizations by op or constant, with fix points that the DPU's shifts can hold.

    Raises
    ------
    GraphError
        Ranges so far apart that no shift bridges them.
    """
    return candidates(graph, groups, specs, observed)[0]


def candidates(
    graph: Graph,
    groups: ScaleGroups,
    specs: TensorSpecs,
    observed: Observed,
    refined: Refine | None = None,
) -> list[dict[str, Quantization]]:
    """Return what :func:`deployable_scales` does; before it, if they differ, refined ones."""
    scales = choose_scales(groups, observed, specs.results)
    chosen = {name: found.fix_point for name, found in scales.items()}
    weights = weight_scales(graph, specs.weights)
    templates = specs.templates()
    made: list[dict[str, Quantization]] = []
    for points in (chosen,) if refined is None else (refined(chosen, weights), chosen):
        constants = make_legal(graph, groups, points, weights, specs.bias)
        found = {name: templates[name].at(point) for name, point in points.items()} | constants
        if found not in made:
            made.append(found)
    return made


def free_scales(
    graph: Graph, groups: ScaleGroups, specs: TensorSpecs, observed: Observed
) -> dict[str, Quantization]:
    """Return quantizations of any kind by op or constant, for evaluation and export."""
    chosen = choose_scales(groups, observed, specs.results)
    weights = weight_scales(graph, specs.weights)
    biases: dict[str, Node] = {}
    constants: dict[str, Quantization] = {}
    for name in groups.results:
        layer, arguments = graph[name], parameters_of(graph[name])
        found = weights.get(name)
        for bias in layer.inputs.get(arguments.bias, ()):
            if specs.bias[name].is_quantized:
                biases[bias] = layer
                found = weights_for_bias(
                    bias_of(graph, layer), specs.bias[name], found,
                    chosen.get(layer.inputs["input"][0]),
                )  # fmt: skip
        if found is not None:
            constant = layer.inputs[arguments.weights][0]
            constants[constant] = _wider(found, constants.get(constant, found))
    for bias, layer in biases.items():
        weight = layer.inputs.get(parameters_of(layer).weights, ("",))[0]
        constants[bias] = bias_scale(
            bias_of(graph, layer), specs.bias[layer.name], constants.get(weight),
            chosen.get(layer.inputs["input"][0]),
        )  # fmt: skip
    return chosen | constants


def _wider(one: Quantization, other: Quantization) -> Quantization:
    """Return the quantization of weights that two layers share: none of their biases saturates."""
    if len(one.scale) != len(other.scale):
        return one
    scale = tuple(map(max, one.scale, other.scale))
    return dataclasses.replace(one, scale=scale)
