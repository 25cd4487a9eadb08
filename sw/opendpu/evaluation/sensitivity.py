# SPDX-License-Identifier: Apache-2.0
"""Which layers deserve more bits: each of them alone quantized, and each of them alone in float.

A layer is its weights, its bias, and the tensor that its result is rounded to. Constants are the
float network's, rounded and no more: corrections of one layer make up for the errors of others, and
would hide what it costs itself.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from opendpu.ir import Array, FloatGraph, Graph, Node, QuantizedGraph
from opendpu.ir.types import FLOAT32
from opendpu.ops import operator_of
from opendpu.quantize.executor import evaluate
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.samples import Samples

SAMPLES = 8
"""Samples that are looked at by default: the network is computed twice a layer on them."""


@dataclasses.dataclass(frozen=True)
class LayerSensitivity:
    """What one layer's quantization does to the network's outputs.

    Parameters
    ----------
    name, kind, origin
        The op with the weights, and where it comes from in the user's model.
    alone_sqnr
        Signal to noise of the outputs, dB, when only this layer is quantized: that of the worst
        output. Infinite where nothing changes.
    gain
        By how many dB the outputs of the network, quantized without corrections, get better when
        this layer stays in float.
    """

    name: str
    kind: str
    origin: str
    alone_sqnr: float
    gain: float


def sensitivity(
    quantized: QuantizedGraph,
    reference: FloatGraph,
    samples: Samples,
    *,
    count: int = SAMPLES,
    show: Callable[[str], None] = lambda text: None,
) -> list[LayerSensitivity]:
    """Return the layers, those first whose quantization costs the outputs most.

    Parameters
    ----------
    quantized
        What the quantizer made.
    reference
        The float graph that it was made from, after all transformations: ops have the same names.
    samples
        Inputs.
    count
        How many of them are looked at.
    show
        Told what is going on.
    """
    layers = [node for node in quantized if is_layer(node) and _fixes(quantized, node)]
    names = [name for name in reference.outputs if reference[name].type.dtype == FLOAT32]
    work = _Work(quantized, reference, names, samples, min(count, samples.count))
    everything = {node.name for node in quantized if node.kind == "fix"}
    base = work.sqnr(everything)
    found = []
    for number, layer in enumerate(layers, start=1):
        show(f"sensitivity: layer {number} of {len(layers)} ({100 * number // len(layers)} %)")
        own = set(_fixes(quantized, layer))
        alone, without = work.sqnr(own), work.sqnr(everything - own)
        found.append(
            LayerSensitivity(
                layer.name, layer.kind, str(layer.origin), alone, _difference(without, base)
            )
        )
    return sorted(found, key=lambda one: (-one.gain, one.alone_sqnr))


class _Work:
    """Evaluates the network with some of its ``fix`` ops."""

    def __init__(
        self,
        quantized: QuantizedGraph,
        reference: FloatGraph,
        outputs: Sequence[str],
        samples: Samples,
        count: int,
    ) -> None:
        self.quantized, self.reference, self.outputs = quantized, reference, outputs
        self.samples, self.count = samples, count
        self.wanted = self._results(reference, outputs)

    def sqnr(self, kept: Collection[str]) -> float:
        """Return the signal to noise of the worst output with only some of the ``fix`` ops."""
        mixed, moved = with_some_fixes(self.quantized, self.reference, kept)
        found = self._results(mixed, [moved[name] for name in self.outputs])
        worst = math.inf
        for wanted, made in zip(self.wanted.values(), found.values(), strict=True):
            noise = float(np.square(made - wanted, dtype=np.float64).sum())
            signal = float(np.square(wanted, dtype=np.float64).sum())
            if noise:
                worst = min(worst, 10 * math.log10(signal / noise) if signal else -math.inf)
        return worst

    def _results(self, graph: Graph, names: Sequence[str]) -> dict[str, Array]:
        parts: dict[str, list[Array]] = {name: [] for name in names}
        for _, results in evaluate(graph, names, self.samples, batch=self.count, stop=self.count):
            for name in names:
                parts[name].append(results[name])
        return {name: np.concatenate(arrays) for name, arrays in parts.items()}


def with_some_fixes(
    quantized: QuantizedGraph, reference: FloatGraph, kept: Collection[str]
) -> tuple[QuantizedGraph, Mapping[str, str]]:
    """Return the network with only some of its ``fix`` ops, and where the result of each op is.

    Constants have the values of the float network.
    """
    made = QuantizedGraph(quantized.name)
    made.attrs = dict(quantized.attrs)
    moved: dict[str, str] = {}
    for node in quantized:
        inputs = {arg: [moved[n] for n in names] for arg, names in node.inputs.items()}
        if node.kind == "fix":
            (source,) = node.inputs["input"]
            moved[node.name] = moved[source]
            if node.name in kept:
                made.add_fix(node.name, moved[source], node.quantization)
                moved[node.name] = moved[source] = node.name
                continue
            continue
        value = node.value
        if value is not None and node.name in reference.nodes:
            value = reference[node.name].value
        made.add(node.name, node.kind, node.type, inputs, node.attrs, value)
        moved[node.name] = node.name
    made.outputs = [moved[name] for name in quantized.outputs]
    return made, moved


def _fixes(graph: QuantizedGraph, layer: Node) -> list[str]:
    """Return the ``fix`` ops of a layer: of its constants, and behind it or its activation."""
    arguments = parameters_of(layer)
    names = [*layer.inputs[arguments.weights], *layer.inputs.get(arguments.bias, ())]
    found = [name for name in names if graph[name].kind == "fix"]
    node = layer
    while True:
        users = graph.consumers(node.name)
        behind = [user.name for user in users if user.kind == "fix"]
        if behind:
            return found + behind
        if len(users) != 1 or users[0].kind not in operator_of(layer).fuses:
            return found
        (node,) = users


def _difference(one: float, other: float) -> float:
    return 0.0 if one == other else one - other
