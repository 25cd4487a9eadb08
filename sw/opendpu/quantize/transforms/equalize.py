# SPDX-License-Identifier: Apache-2.0
"""Cross-layer equalization: channels get similar ranges, so that one scale suits them all.

Layers that make a set of channels give it factors, and layers that read it take them back; what the
network computes stays the same. With ranges ``r`` of a channel's weights in the layers that make it
and ``q`` in those that read it, geometric means of several, the factor ``sqrt(q / r)`` makes them
equal (Nagel et al., arXiv 1906.04721, section 4.1; there for two layers and ReLU).

Where every output channel has a scale of its own, the weights that make a channel have no say; it
is the channel's own range ``r`` then that the factor weighs against ``q`` (Xiao et al., arXiv
2211.10438, equation 4, with the exponent 1/2).

ReLU6 stops at 6, not at 6 times the factor: a channel that reaches it in the calibration data keeps
its factor of one, and others grow at most until they would.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph
from opendpu.quantize.layers import (
    bias_of,
    by_input,
    by_output,
    scaled_inputs,
    scaled_outputs,
    set_parameters,
    weights_of,
)
from opendpu.quantize.transforms.channel_sets import ChannelSet, find_sets

Factors = npt.NDArray[np.float64]

LEAST = 1 / 256
"""Channels whose weights are smaller than this, against the largest, are left alone."""

ROUNDS = 2
"""How often all sets are visited."""

LIMIT = 6.0
"""Where ReLU6 stops."""

ROOM = 0.9
"""Part of it that a channel may grow to: other data has larger values."""


@dataclasses.dataclass
class Equalized:
    """What took part: layers in order, and of others the reason why not.

    ``factors`` are what the channels were multiplied with that a layer reads, by layer.
    """

    layers: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)
    factors: dict[str, Factors] = dataclasses.field(default_factory=dict)


def equalize(
    graph: Graph,
    largest: Mapping[str, Factors] | None = None,
    *,
    ranges: Mapping[str, Factors] | None = None,
    chosen: Callable[[ChannelSet], bool] = lambda one: True,
    rounds: int = ROUNDS,
) -> Equalized:
    """Scale channels between layers, in place; say which layers took part.

    ``largest`` are the largest values of each channel that ReLU6 ops get, by op; those without keep
    their channels as they are. ``ranges`` are the largest magnitudes of each channel that layers
    read, by layer, where these are what to equalize. Only ``chosen`` sets are scaled.
    """
    sets, done = find_sets(graph), Equalized()
    bounds = {}
    for index, one in enumerate(sets):
        limit = _bound(one, largest or {})
        if limit is None:
            one.fix("it passes a ReLU6 whose values are not known")
        if not one.reason and chosen(one):
            bounds[index] = limit
    seen = None if ranges is None else {name: values.copy() for name, values in ranges.items()}
    for _ in range(rounds):
        for index, limit in bounds.items():
            assert limit is not None
            factor = _balance(graph, sets[index], limit, seen)
            bounds[index] = limit / factor
            for name, start in sets[index].consumers:
                width = graph[graph[name].inputs["input"][0]].shape[-1]
                whole = done.factors.setdefault(name, np.ones(width))
                whole[start : start + len(factor)] *= factor
    part = {name for index in bounds for name in _layers(sets[index])}
    done.layers = [node.name for node in graph if node.name in part]
    for one in sets:
        for name in one.producers:
            if name not in part:
                done.skipped[name] = one.reason or "equalizing it was not better"
    return done


def is_pair(one: ChannelSet) -> bool:
    """Return whether a set is between two layers only, and no ReLU6 on the way."""
    return len(one.producers) == len(one.consumers) == 1 and not one.bounded


def bounded_ops(graph: Graph) -> list[str]:
    """Return the ReLU6 ops whose largest values :func:`equalize` could use."""
    return list(dict.fromkeys(
        name for one in find_sets(graph) if not one.reason for name, _ in one.bounded
    ))  # fmt: skip


def _layers(one: ChannelSet) -> list[str]:
    return [*one.producers, *(name for name, _ in one.consumers)]


def _bound(one: ChannelSet, largest: Mapping[str, Factors]) -> Factors | None:
    """Return the largest factor of each channel; one means that it has to be that."""
    found = np.full(one.size, np.inf)
    for name, start in one.bounded:
        if name not in largest:
            return None
        values = np.maximum(largest[name][start : start + one.size], 1e-12)
        found = np.minimum(found, np.where(values >= LIMIT, 1.0, ROOM * LIMIT / values))
    return np.where(found < 1, 1.0, found)


def _balance(
    graph: Graph, one: ChannelSet, bound: Factors, ranges: Mapping[str, Factors] | None
) -> Factors:
    """Scale a set's channels once, and their ``ranges`` with them; return the factors."""
    views = [] if ranges is None else [
        ranges[name][start : start + one.size] for name, start in one.consumers
    ]  # fmt: skip
    makers = views or [
        _range(by_output(graph[n], weights_of(graph, graph[n]))) for n in one.producers
    ]
    readers = []
    for name, start in one.consumers:
        width = graph[graph[name].inputs["input"][0]].shape[-1]
        rows = by_input(graph[name], weights_of(graph, graph[name]), width)
        readers.append(_range(rows)[start : start + one.size])
    usable = np.all([r > LEAST * r.max() for r in (*makers, *readers)], axis=0)
    made, read = (
        np.exp(np.mean([np.log(np.where(usable, r, 1)) for r in some], axis=0))
        for some in (makers, readers)
    )
    factor = np.where(usable & (bound != 1), np.sqrt(read / made), 1.0)
    factor = np.minimum(factor, np.where(bound == 1, 1.0, bound))
    for view in views:
        view *= factor
    scale_set(graph, one, factor)
    return factor


def scale_set(graph: Graph, one: ChannelSet, factor: Factors) -> None:
    """Multiply a set's channels with a factor each, and undo it in the layers that read them."""
    for name in one.producers:
        layer = graph[name]
        weights = scaled_outputs(layer, weights_of(graph, layer), factor)
        set_parameters(graph, layer, weights, bias_of(graph, layer) * factor)
    for name, start in one.consumers:
        layer = graph[name]
        width = graph[layer.inputs["input"][0]].shape[-1]
        back = np.ones(width)
        back[start : start + one.size] = 1 / factor
        weights = scaled_inputs(layer, weights_of(graph, layer), back)
        set_parameters(graph, layer, weights, bias_of(graph, layer))


def _range(rows: npt.NDArray[np.float32]) -> Factors:
    return np.asarray(np.abs(rows).max(axis=1).astype(np.float64))
