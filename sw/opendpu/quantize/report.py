# SPDX-License-Identifier: Apache-2.0
"""What the quantizer did and what it cost, for people and for JSON."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Array, Graph
from opendpu.ir.types import FLOAT32
from opendpu.quantize.executor import evaluate
from opendpu.quantize.samples import Samples


@dataclasses.dataclass
class Report:
    """What a quantization did.

    Parameters
    ----------
    samples
        How many samples it was calibrated with.
    substituted
        Activations that were replaced, by name.
    substitution_sqnr
        Signal to noise in dB that this made of each output of the float network; none where an
        output is the same.
    floating
        Ops that stay in float.
    notes
        What was left out, what looks wrong, and what to try: a sentence each.
    """

    samples: int = 0
    substituted: Sequence[str] = ()
    substitution_sqnr: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    floating: Sequence[str] = ()
    notes: list[str] = dataclasses.field(default_factory=list)

    def note(self, text: str) -> None:
        """Add a sentence."""
        self.notes.append(text)

    def lines(self) -> list[str]:
        """Return the report as lines of text, without what is as usual."""
        found = []
        if self.substituted:
            count = len(self.substituted)
            found.append(f"activations replaced by hard ones: {count}; signal to noise of that:")
            for name, ratio in self.substitution_sqnr.items():
                text = "unchanged" if ratio is None else f"{ratio:.1f} dB"
                found.append(f"  output {name}: {text}")
        return found + [f"note: {text}" for text in self.notes]


def sqnr_of(graph: Graph, other: Graph, samples: Samples, *, batch: int) -> dict[str, float | None]:
    """Return the signal of each float output of a graph to what another gives instead, in dB."""
    names = [name for name in graph.outputs if graph[name].type.dtype == FLOAT32]
    signal, noise = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    runs = [evaluate(g, names, samples, batch=batch) for g in (graph, other)]
    for (_, wanted), (_, found) in zip(*runs, strict=True):
        for name in names:
            signal[name] += _energy(wanted[name])
            noise[name] += _energy(found[name] - wanted[name])
    return {name: _ratio(signal[name], noise[name]) for name in names}


def _energy(array: Array) -> float:
    return float(np.square(array, dtype=np.float64).sum())


def _ratio(signal: float, noise: float) -> float | None:
    if not noise:
        return None
    return 10 * math.log10(signal / noise) if signal else -math.inf
