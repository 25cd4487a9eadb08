# SPDX-License-Identifier: Apache-2.0
"""Signal to noise: what one network gives, beside what another gives instead."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ops.batching import mixes_samples
from opendpu.quantize.executor import chunk_size, evaluate
from opendpu.quantize.samples import Samples
from opendpu.quantize.set_aside import set_aside

SAMPLES = 8
"""Samples that layers and outputs are measured on, at most."""

PART = 1 << 16
"""Values whose squares are added at a time."""

FEWEST_SQUARES = 1e-30
"""Sum of squares up to which float32 may have lost most of it: to zero, or to few bits."""

MUCH_WEIGHTS = 1 << 26
"""Bytes of constants beyond which networks are computed one after the other."""

Comparison = tuple[Graph, Sequence[tuple[str, str]]]
"""A graph, and pairs of one of its ops and that of another graph which gives the same instead."""


def sqnrs(
    compared: Sequence[Comparison],
    other: Graph,
    samples: Samples,
    *,
    batch: int,
    start: int = 0,
    stop: int = SAMPLES,
) -> list[dict[str, float | None]]:
    """Return the signal of ops of several graphs to what those of another give instead, in dB.

    None stands for no noise. Ops whose shape depends on the data, so that there is nothing to
    compare, are left out. The other graph is computed once for all, and at most two at a time.
    Samples are those from ``start`` to ``stop``.
    """
    others = list(dict.fromkeys(second for _, pairs in compared for _, second in pairs))
    wanted_of = [list(dict.fromkeys(name for name, _ in pairs)) for _, pairs in compared]
    both = [(graph, names) for (graph, _), names in zip(compared, wanted_of, strict=True)]
    every = (*both, (other, others))
    mixed = any(mixes_samples(graph, names) for graph, names in every)
    size = 1 if mixed else min(batch, *(chunk_size(graph, names) for graph, names in every))
    sums = [Energies(pairs) for _, pairs in compared]
    passes = []
    for number, (graph, names) in enumerate(both):
        one = evaluate(graph, names, samples, batch=size, start=start, stop=stop)
        weights = sum(node.value.nbytes for node in graph if node.value is not None)
        passes.append(set_aside(one) if number or weights > MUCH_WEIGHTS else one)
    for _, found in evaluate(other, others, samples, batch=size, start=start, stop=stop):
        for energies, one in zip(sums, passes, strict=True):
            if energies.pairs:
                energies.add(next(one)[1], found)
        del found  # so that the next ones take their room
    return [energies.ratios() for energies in sums]


def sqnr(
    graph: Graph,
    other: Graph,
    pairs: Sequence[tuple[str, str]],
    samples: Samples,
    *,
    batch: int,
    stop: int = SAMPLES,
) -> dict[str, float | None]:
    """Return what :func:`sqnrs` does, for one graph."""
    (found,) = sqnrs([(graph, pairs)], other, samples, batch=batch, stop=stop)
    return found


class Energies:
    """Signal and noise of pairs of results, added up over samples."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._signal = {name: 0.0 for name, _ in pairs}
        self._noise = dict(self._signal)
        self._uneven: set[str] = set()

    def add(self, wanted: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        """Compare the results of some samples."""
        for name, second in self.pairs:
            if found[second].shape != wanted[name].shape:
                self._uneven.add(name)
                continue
            noise, signal = noise_and_signal(found[second], wanted[name])
            self._signal[name] += signal
            self._noise[name] += noise

    def ratios(self) -> dict[str, float | None]:
        """Return signal to noise by name of the first op, in dB; None stands for no noise."""
        return {
            name: ratio_of(self._signal[name], self._noise[name])
            for name in self._signal
            if name not in self._uneven
        }


def noise_and_signal(found: Array, wanted: Array) -> tuple[float, float]:
    """Return the energies of a difference and of what is wanted.

    Where both are the same infinity, as in masks of attention, nothing is compared.
    """
    with np.errstate(invalid="ignore"):
        noise, signal = _energy_between(found, wanted), energy(wanted)
    if math.isfinite(noise) and math.isfinite(signal):
        return noise, signal
    kept = np.isfinite(wanted) | (found != wanted)
    return energy(found[kept] - wanted[kept]), energy(wanted[np.isfinite(wanted)])


def energy(array: Array) -> float:
    """Return the sum of squares: pairwise in float32 part by part, then in float64.

    All in float64 where float32 does not hold the squares, neither the largest nor any at all.
    """
    flat = np.ravel(array, order="K")
    parts = [flat[i : i + PART] for i in range(0, flat.size, PART)]
    with np.errstate(over="ignore"):
        found = sum(float(np.square(part).sum()) for part in parts)
    if math.isfinite(found) and found > FEWEST_SQUARES:
        return found
    return sum(float(np.square(part, dtype=np.float64).sum()) for part in parts)


def _energy_between(one: Array, other: Array) -> float:
    """Return the :func:`energy` of a difference; part by part where both lie in memory alike."""
    if one.strides != other.strides or one.size <= PART:
        return energy(one - other)
    first, second = np.ravel(one, order="K"), np.ravel(other, order="K")
    starts = range(0, first.size, PART)
    return sum(energy(first[i : i + PART] - second[i : i + PART]) for i in starts)


def ratio_of(signal: float, noise: float) -> float | None:
    """Return signal to noise in dB; None stands for no noise."""
    if not noise:
        return None
    return -math.inf if not signal or math.isinf(noise) else 10 * math.log10(signal / noise)
