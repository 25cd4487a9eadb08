# SPDX-License-Identifier: Apache-2.0
"""Channels whose values are far larger than all others', made smaller where that costs nothing.

One scale has to hold the values of every channel, so a single channel with a large offset takes
bits from all the others. Equalization of weights does not see it, for an offset is in no weight.
But weights that read a channel may grow up to the largest of their layer before that layer's scale
has to change: by that room channels with large values shrink here. It is equalization by the ranges
of values (Meller et al., arXiv 1902.01917) without what that takes from the weights.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from opendpu.ir import Graph
from opendpu.quantize.layers import by_input, weights_of
from opendpu.quantize.transforms.channel_sets import ChannelSet
from opendpu.quantize.transforms.equalize import scale_set

Factors = npt.NDArray[np.float64]

FAR = 2.0
"""How much larger than after it a range must be; less than one bit is not worth the weights."""


def shrink_outliers(
    graph: Graph, sets: Iterable[ChannelSet], ranges: Mapping[str, Factors]
) -> list[str]:
    """Scale down channels with large values, in place; return the layers that make them.

    Parameters
    ----------
    graph
        What is changed; it computes the same.
    sets
        Free sets of its channels.
    ranges
        The largest magnitude of each channel that layers read, by layer.
    """
    done = []
    for one in sets:
        factor = _factor(graph, one, ranges)
        if (factor < 1).any():
            scale_set(graph, one, factor)
            done += one.producers
    return done


def _factor(graph: Graph, one: ChannelSet, ranges: Mapping[str, Factors]) -> Factors:
    """Return what each channel of a set is multiplied with, at most one."""
    values, room = np.zeros(one.size), np.zeros(one.size)
    for name, start in one.consumers:
        part = slice(start, start + one.size)
        values = np.maximum(values, ranges[name][part])
        width = graph[graph[name].inputs["input"][0]].shape[-1]
        rows = np.abs(by_input(graph[name], weights_of(graph, graph[name]), width)).max(axis=1)
        room = np.maximum(room, rows[part] / max(float(rows.max()), np.finfo(np.float32).tiny))
    bound = float((values * room).max())
    if not bound or values.max() < FAR * bound:
        return np.ones(one.size)
    return np.asarray(np.clip(bound / np.maximum(values, bound), room, 1.0))
