# SPDX-License-Identifier: Apache-2.0
"""Which specification of the configuration holds for each tensor of a graph."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from opendpu.ir import Graph, Node, Quantization
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.scales.template import template_of
from opendpu.quantize.tensor_spec import Override, TensorSpec, has_channels

KEPT = "the configuration keeps it in float; quantizing it would lift it"


@dataclasses.dataclass(frozen=True)
class TensorSpecs:
    """Specifications of tensors: of results and operands by op, of weights and biases by layer."""

    results: Mapping[str, TensorSpec]
    weights: Mapping[str, TensorSpec]
    bias: Mapping[str, TensorSpec]

    def templates(self) -> dict[str, Quantization]:
        """Return quantizations of results and operands that lack their scale only, by op."""
        return {name: template_of(spec) for name, spec in self.results.items()}


def kept_float(graph: Graph, config: QuantizeConfig) -> dict[str, str]:
    """Return the ops that rules of the configuration keep in float, with the reason."""
    found = {}
    for node in graph:
        if node.value is not None or node.kind == "data" or not config.overrides:
            continue
        roles = ("activation", "weights") if is_layer(node) else ("activation",)
        specs = [_spec(config, role, [node]) for role in roles]
        general = [getattr(config, role) for role in roles]
        if specs != general and not any(spec.is_quantized for spec in specs):
            found[node.name] = KEPT
    return found


def specify(
    graph: Graph, groups: ScaleGroups, floating: Collection[str], config: QuantizeConfig
) -> tuple[ScaleGroups, TensorSpecs]:
    """Return the tensors that are quantized, and how.

    Tensors of a group that have different specifications, or scales per channel, become groups of
    their own; those that the configuration leaves in float are left out.
    """
    layer_of = {result: layer for layer, result in groups.results.items()}
    results = {}
    for name in groups.names:
        nodes = [graph[name]]
        if layer_of.get(name, name) != name:
            nodes.append(graph[layer_of[name]])
        role = "input" if graph[name].kind == "data" else "activation"
        spec = _spec(config, role, nodes)
        if role == "activation" and name in floating:  # what the next op reads, not what is kept
            spec = config.activation
        if spec.is_quantized:
            results[name] = spec
    names = [name for name in groups.names if name in results]
    first: dict[tuple[str, TensorSpec], str] = {}
    group = {}
    for name in names:
        alone = results[name].granularity == "per_channel"
        key = (name if alone else groups.group[name], results[name])
        group[name] = first.setdefault(key, name)
    bounds = {
        group[name]: groups.lower_bounds[groups.group[name]]
        for name in names
        if groups.group[name] in groups.lower_bounds and not results[name].obstacles("activation")
    }
    weights, bias = (
        {layer: _of_channels(graph, graph[layer], _spec(config, role, [graph[layer]]), config)
         for layer in groups.results}
        for role in ("weights", "bias")
    )  # fmt: skip
    changed = dataclasses.replace(groups, names=names, group=group, lower_bounds=bounds)
    return changed, TensorSpecs(results, weights, bias)


def _of_channels(graph: Graph, layer: Node, spec: TensorSpec, config: QuantizeConfig) -> TensorSpec:
    """Return the specification of weights or a bias, with the granularity that they can have.

    A target with the extension ``channel`` gives every output channel its own power of two. No
    axis of the weights has the output channels of a depthwise convolution with a multiplier.
    """
    arguments = parameters_of(layer)
    shape = graph[layer.inputs[arguments.weights][0]].shape
    if shape[arguments.outputs] != layer.shape[-1]:
        return dataclasses.replace(spec, granularity="per_tensor")
    if has_channels(config.target) and spec.has_fix_point and not config.deployable():
        return dataclasses.replace(spec, granularity="per_channel")
    return spec


def unmatched(config: QuantizeConfig, graphs: Iterable[Graph]) -> list[Override]:
    """Return the rules of the configuration that are for no op of some graphs."""
    words = [_words([node]) for graph in graphs for node in graph]
    return [
        rule for rule in config.overrides if not any(rule.matches(*called) for called in words)
    ]  # fmt: skip


def _spec(config: QuantizeConfig, role: str, nodes: list[Node]) -> TensorSpec:
    """Return what holds for a tensor of some ops: a result and the layer before it."""
    return config.spec_of(role, *_words(nodes))


def _words(nodes: list[Node]) -> tuple[list[str], list[str]]:
    """Return what the kinds and what the names of some ops are called, here and in the model."""
    kinds = [word for node in nodes for word in (node.kind, node.origin.op_type) if word]
    names = [word for node in nodes for word in (node.name, node.origin.name) if word]
    return kinds, names
