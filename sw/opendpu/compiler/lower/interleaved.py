# SPDX-License-Identifier: Apache-2.0
"""Enlarged rows of few channels: all their phases as channels of one convolution.

A depthwise convolution for each phase writes every ``factor``-th pixel. Where these have few
channels, SAVE takes a burst for a few bytes, and most of the time is its. As output channels of one
layer on the array the phases of a row lie side by side, so that SAVE writes whole rows; the kernels
of the array are mostly zeros then, of which instructions leave out what they can.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from opendpu.compiler.layers import (
    BlockwiseConvLayer,
    Feature,
    Int8Array,
    Window,
    channel_groups,
    kernel_parts,
)
from opendpu.compiler.layers.cost import alu_cycles, feature_cycles
from opendpu.compiler.limits import MAX_CHANNEL_GROUPS
from opendpu_arch.target import Target


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnPhase:
    """Every ``factor``-th result of a row; ``pad`` inputs of the first one are before the map.

    Where that is negative, so many columns come before the first one that it meets.
    """

    weights: Int8Array
    """HWC."""
    pad: int


def interleaved(
    fields: Mapping[str, Any], phases: Sequence[ColumnPhase], source: Feature, made: Feature,
    rows: Window, target: Target,
) -> BlockwiseConvLayer | None:  # fmt: skip
    """Return a layer that makes all ``phases`` of rows, if it is faster than one for each.

    Parameters
    ----------
    fields
        Those of a layer of one phase, without window and weights.
    source, made
        The input, and the result of one phase.
    rows
        Its rows.
    """
    channels = made.channels * len(phases)
    if -(-channels // target.channel_parallel) > MAX_CHANNEL_GROUPS:
        return None
    window, weights, met = _joined(phases, rows)
    per_channel = {
        name: np.tile(fields[name], len(phases))
        for name in ("bias", "shifts")
        if fields.get(name) is not None
    }
    parallel = target.channel_parallel
    layer = BlockwiseConvLayer(
        **{**fields, **per_channel}, window=window, weights=weights, parallel=parallel,
        parts=kernel_parts(met, window, parallel),
    )  # fmt: skip
    whole = dataclasses.replace(made, name=layer.output, channels=channels)
    together = layer.total_cycles({source.name: source, layer.output: whole}, target)
    together = max(together, feature_cycles(whole, target.channel_parallel))
    return layer if together < cycles_apart(phases, made, rows, target) else None


def cycles_apart(phases: Sequence[ColumnPhase], made: Feature, rows: Window, target: Target) -> int:
    """Return the cycles of a depthwise layer for each of ``phases``, which makes ``made``."""
    groups = channel_groups(made, target)
    computed = sum(
        -(-made.height // target.alu_pixel_parallel)
        * alu_cycles(made.width, groups, dataclasses.replace(rows, kernel_w=p.weights.shape[1]))
        for p in phases
    )
    saved = feature_cycles(made, target.channel_parallel, len(phases) * made.channels)
    return max(computed, len(phases) * saved)


def _joined(
    phases: Sequence[ColumnPhase], rows: Window
) -> tuple[Window, Int8Array, np.ndarray[Any, Any]]:
    """Return the window that all phases meet, OHWI weights, and which of these are not left out."""
    pad = max(0, *(phase.pad for phase in phases))
    width = pad + max(phase.weights.shape[1] - phase.pad for phase in phases)
    height, _, channels = phases[0].weights.shape
    weights = np.zeros((len(phases), channels, height, width, channels), np.int8)
    met = np.zeros(weights.shape, np.bool_)
    every = np.arange(channels)
    for number, phase in enumerate(phases):
        first = pad - phase.pad
        columns = slice(first, first + phase.weights.shape[1])
        weights[number, every, :, columns, every] = np.moveaxis(phase.weights, 2, 0)
        met[number, every, :, columns, every] = True
    shape = (-1, height, width, channels)
    window = dataclasses.replace(rows, kernel_w=width, pad_left=pad)
    return window, weights.reshape(shape), met.reshape(shape)
