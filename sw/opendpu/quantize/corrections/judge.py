# SPDX-License-Identifier: Apache-2.0
"""How near quantized networks come to the float one, sample by sample, and what is no chance."""

from collections.abc import Collection

import numpy as np

from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.ops.batching import mixes_samples
from opendpu.quantize.corrections.trials import level_ends
from opendpu.quantize.executor import evaluate
from opendpu.quantize.finetune.guard import last_fixes
from opendpu.quantize.placement.insert import with_plain_constants
from opendpu.quantize.samples import Samples


def is_gain(errors: Array, others: Array, certain: float) -> bool:
    """Return whether errors of samples are below others of theirs, and not by chance.

    The mean gain of a sample has to be ``certain`` times its own standard error.
    """
    gains = others - errors
    if len(gains) == 1:
        return bool(gains[0] > 0)
    return bool(
        gains.sum() > 0 and gains.mean() * np.sqrt(len(gains)) >= certain * gains.std(ddof=1)
    )


def level(array: Array, name: str, names: Collection[str]) -> Array:
    """Return what counts of a result, or of its error: differences of channels for some names."""
    return array - array.mean(axis=-1, keepdims=True) if name in names else array


class Judge:
    """The float network's last results that are quantized, on some samples.

    Parameters
    ----------
    graph
        The float graph.
    samples
        What is computed.
    """

    def __init__(self, graph: FloatGraph, samples: Samples) -> None:
        self._graph, self._samples = graph, samples
        self._wanted: dict[str, Array] = {}

    def errors(self, made: QuantizedGraph) -> Array:
        """Return the squared error of each sample's results, by the energy of all samples'."""
        ends = {name: fix.inputs["input"][0] for name, fix in last_fixes(made).items()}
        sources = list(dict.fromkeys(ends.values()))
        differences = level_ends(self._graph, sources)
        if not self._wanted:
            self._wanted = self._results(self._graph, sources)
        found, errors = self._results(made, list(ends)), np.zeros(self._samples.count)
        for name, source in ends.items():
            wanted = level(self._wanted[source], source, differences)
            noise = np.square(level(found[name], source, differences) - wanted, dtype=np.float64)
            energy = float(np.square(wanted, dtype=np.float64).sum())
            errors += noise.reshape(len(errors), -1).sum(axis=1) / (energy or 1.0)
        return errors

    def _results(self, graph: FloatGraph | QuantizedGraph, names: list[str]) -> dict[str, Array]:
        parts: dict[str, list[Array]] = {name: [] for name in names}
        count = self._samples.count
        computed = with_plain_constants(graph)
        join = np.stack if mixes_samples(computed, names) else np.concatenate
        for _, results in evaluate(computed, names, self._samples, batch=count):
            for name in names:
                parts[name].append(results[name])
        return {name: join(arrays) for name, arrays in parts.items()}
