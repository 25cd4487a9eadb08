# SPDX-License-Identifier: Apache-2.0
"""What quantization made of a network, for its report: tensor by tensor, layer by layer."""

import dataclasses
import math
from collections.abc import Iterable, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Node, NumberFormat, Quantization, QuantizedGraph
from opendpu.ir.types import FLOAT32
from opendpu.ops.formats import fake_quantize
from opendpu.ops.session import Session
from opendpu.quantize.executor import evaluate
from opendpu.quantize.fitted import first_measured
from opendpu.quantize.layers import parameters_of
from opendpu.quantize.noise import energy, ratio_of, sqnrs
from opendpu.quantize.observers.histogram import Histogram
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.insert import fix_name, with_plain_constants
from opendpu.quantize.remarks import remark
from opendpu.quantize.report import LayerReport, Report, TensorHistogram, TensorReport
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.mask import mask_of
from opendpu.quantize.transforms.response_norm import is_response_norm, map_of

BINS = 256
"""Bins of a histogram in the report, about."""


def measure(
    report: Report,
    reference: Graph,
    graph: Graph,
    quantized: QuantizedGraph,
    groups: ScaleGroups,
    observed: Observed,
    samples: Samples,
    *,
    batch: int,
    fitted: int = 0,
) -> None:
    """Write into a report how every tensor was quantized and what it costs.

    ``reference`` is the network as it came, ``graph`` the float one that ``quantized`` was made of;
    ``fitted`` is how many of the samples, the first ones, it was fitted to.
    """
    report.tensors = [*_results(quantized, groups, observed), *_constants(graph, quantized, groups)]
    start = first_measured(report, samples, fitted)
    names = [name for name in groups.names if graph[name].value is None]
    plain = with_plain_constants(quantized)
    results = [(name, fix_name(name)) for name in names]
    pairs = [
        (name, other)
        for name, other in zip(reference.outputs, quantized.outputs, strict=True)
        if reference[name].type.dtype == FLOAT32
    ]
    found, report.outputs_sqnr = sqnrs(
        [(graph, results), (reference, pairs)], plain, samples, batch=batch,
        start=start, stop=start + report.measured_samples,
    )  # fmt: skip
    weights = {tensor.layer: tensor.sqnr for tensor in report.tensors if tensor.role == "weights"}
    layer_of = {result: layer for layer, result in groups.results.items()}
    report.layers = [
        _layer(graph[layer_of.get(name, name)], name, weights, found[name])
        for name in names
        if graph[name].kind != "data" and name in found
    ]
    for name, _ in pairs:
        if name not in report.outputs_sqnr:
            report.note(f"result {name!r} is not compared: its shape depends on the data")
    report.tabulated = _of_parts(reference, plain, report.tabulated, samples)
    remark(report, graph, groups, observed, samples)


def _layer(
    node: Node, name: str, weights: Mapping[str, float | None], ratio: float | None
) -> LayerReport:
    origin = str(node.origin) if node.origin.name else ""
    return LayerReport(name, node.kind, origin, weights.get(node.name), ratio)


def _of_parts(
    reference: Graph, quantized: Graph, names: Iterable[str], samples: Samples
) -> dict[str, float | None]:
    """Return the signal to noise of ops that became parts, beside them in float.

    Of the first sample, with the same quantized inputs; none where these are not there any more.
    """
    ratios: dict[str, float | None] = dict.fromkeys(names)
    given = {name: [fix_name(source) for source in _sources(reference, name)] for name in ratios}
    there = {
        name: fixes for name, fixes in given.items()
        if quantized.nodes.keys() >= {fix_name(name), *fixes}
    }  # fmt: skip
    keep = list(dict.fromkeys(
        end for name, fixes in there.items() for end in (*fixes, fix_name(name))
    ))  # fmt: skip
    for _, found in evaluate(quantized, keep, samples, batch=1, stop=1):
        for name, fixes in there.items():
            ratios[name] = _of_part(
                reference, name, [found[fix] for fix in fixes], found[fix_name(name)]
            )
    return ratios


def _of_part(reference: Graph, name: str, given: list[Array], made: Array) -> float | None:
    """Return the signal to noise of what parts made of inputs, beside what the op makes of them."""
    sources = _sources(reference, name)
    alone, feeds = Graph(name), {}
    for source, array in zip(sources, given, strict=True):
        shape = reference[source].shape
        if array.size != math.prod(shape):
            return None
        alone.add(source, "data", reference[source].type)
        feeds[source] = array.reshape(shape)
    for node in _behind(reference, sources, name):
        alone.nodes[node.name] = dataclasses.replace(node)
    alone.outputs = [name]
    (wanted,) = Session(alone, keep=[name]).run(feeds).values()
    return ratio_of(energy(wanted), energy(made.reshape(wanted.shape) - wanted))


def _sources(graph: Graph, name: str) -> list[str]:
    """Return what an op reads; of a softmax, the scores before a mask.

    Of lengths over their mean, the map whose channels have them.
    """
    node = graph[name]
    if is_response_norm(graph, node):
        return [map_of(graph, node)]
    mask = mask_of(graph, node) if node.kind == "softmax" else None
    return list(dict.fromkeys(node.inputs["input"])) if mask is None else [mask.scores]


def _behind(graph: Graph, sources: list[str], name: str) -> list[Node]:
    """Return the ops from what reads ``sources`` to ``name``, with their constants, in order."""
    inside, waiting = set[str](), [name]
    while waiting:
        inside.add(waiting.pop())
        read = [s for found in inside for s in graph[found].sources()]
        waiting = [s for s in read if s not in inside and s not in sources]
    return [node for node in graph if node.name in inside]


def _results(
    quantized: QuantizedGraph, groups: ScaleGroups, observed: Observed
) -> list[TensorReport]:
    """Return reports of inputs, results and operands, from the histograms of calibration."""
    found = []
    for name in groups.names:
        seen, made = observed.histograms[name], quantized[fix_name(name)].quantization
        per_channel = len(made.scale) > 1
        noise = 0.0 if per_channel else seen.squared_error(made)
        found.append(TensorReport(
            name=name, role="input" if quantized[name].kind == "data" else "activation", layer=name,
            number_format=str(made.number_format), bits=made.bits, scale=_scale(made),
            minimum=seen.low, maximum=seen.high,
            saturation=0.0 if per_channel or not _scale(made) else seen.saturation(made),
            sqnr=ratio_of(seen.squares(), noise), histogram=_histogram(seen),
        ))  # fmt: skip
    return found


def _constants(graph: Graph, quantized: QuantizedGraph, groups: ScaleGroups) -> list[TensorReport]:
    """Return reports of weights and biases, from their values."""
    found = []
    for layer in groups.results:
        arguments = parameters_of(graph[layer])
        for role, argument in (("weights", arguments.weights), ("bias", arguments.bias)):
            for name in graph[layer].inputs.get(argument, ()):
                value = graph[name].value
                if value is not None and fix_name(name) in quantized.nodes:
                    made = quantized[fix_name(name)].quantization
                    found.append(_constant(name, role, layer, value, made))
    return found


def _constant(name: str, role: str, layer: str, value: Array, made: Quantization) -> TensorReport:
    seen = Histogram(name)
    seen.add(value.reshape(1, -1))
    return TensorReport(
        name=name, role=role, layer=layer, number_format=str(made.number_format), bits=made.bits,
        scale=_scale(made), minimum=seen.low, maximum=seen.high,
        saturation=seen.saturation(made) if len(_scale(made)) == 1 else 0.0,
        sqnr=ratio_of(energy(value), energy(fake_quantize(value, made) - value)),
        histogram=_histogram(seen),
    )  # fmt: skip


def _scale(made: Quantization) -> tuple[float, ...]:
    return made.scale if made.number_format == NumberFormat.INT else ()


def _histogram(seen: Histogram) -> TensorHistogram | None:
    """Return a histogram of the values in about ``BINS`` bins over their range."""
    middles, counts = seen.values()
    if not counts.size:
        return None
    low, high = float(middles[0]), float(middles[-1])
    width = max((high - low) / BINS, 2.0**-seen.point)
    number = math.floor((high - low) / width) + 1
    places = np.minimum(((middles - low) / width).astype(np.int64), number - 1)
    joined = np.bincount(places, weights=counts, minlength=number).astype(np.int64)
    return TensorHistogram(low, low + width * number, tuple(joined.tolist()))
