# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs with corrected biases and weights, and which of two ways to one is better."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from opendpu.ir import FloatGraph, Quantization, QuantizedGraph
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.corrections.bias import correct_biases, sample_count
from opendpu.quantize.corrections.judge import Judge, is_gain
from opendpu.quantize.corrections.trials import fitted_count
from opendpu.quantize.finetune import correct_weights
from opendpu.quantize.finetune.examples import held_out
from opendpu.quantize.journal import NOTHING, Journal
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.insert import insert
from opendpu.quantize.progress import Progress
from opendpu.quantize.samples import Samples
from opendpu.quantize.work import network_work

WORK = 2e10
"""What a network may take on all samples, in multiply-accumulates or what takes as long, if it is
corrected in two ways."""

CERTAIN = 1.0
"""Standard errors that the mean gain of a held-out sample has to have for refined scales."""

NOT_KEPT = "refined scales were not kept: samples held out come no nearer with them"

FEWEST = 16
"""Samples that are needed to tell which of two ways is better."""


@dataclasses.dataclass(frozen=True)
class Correction:
    """How graphs are corrected that were quantized with different scales.

    Parameters
    ----------
    graph
        The float graph.
    samples, config
        Calibration samples, and what is to be done.
    observed
        What calibration has seen.
    progress, show
        Told what is going on.
    journal
        Has what an earlier run has done.
    """

    graph: FloatGraph
    samples: Samples
    config: QuantizeConfig
    observed: Observed
    progress: Progress
    show: Callable[[str], None]
    journal: Journal = NOTHING

    def biases(
        self, scales: Mapping[str, Quantization], journal: Journal | None = None
    ) -> QuantizedGraph:
        """Return the graph with some scales, and its biases corrected where that is asked for."""
        made = insert(self.graph, scales)
        if self.config.bias_correction:
            count = min(self.samples.count, sample_count(self.graph))
            (journal or self.journal).changing(
                "correcting biases", made,
                lambda _note: correct_biases(
                    made, self.observed.means, self.samples, count, self.progress
                ),
            )  # fmt: skip
        return made

    def best(
        self, ways: Sequence[Mapping[str, Quantization]], note: Callable[[str], None]
    ) -> QuantizedGraph:
        """Return the graph with scales that are refined, or with those before, all corrected.

        What refinement gains before weights are corrected may be less than what it keeps the
        correction from gaining: coarser scales cannot be made up for. So the results themselves
        judge, on samples that nothing is fitted to, where this is no more than a little work.
        """
        if len(ways) < 2 or self.samples.count < FEWEST or self._work() > WORK:
            return self._whole(ways[0], note, self.journal)
        journals = [self.journal.part(name) for name in ("refined scales", "chosen scales")]
        known = self.journal.known("judging refined scales")
        if known is not None:
            best = int(known["best"])
            if best:
                note(NOT_KEPT)
            return self._whole(ways[best], note, journals[best])
        notes: list[list[str]] = [[] for _ in ways]
        made = [
            self._whole(way, found.append, journal)
            for way, found, journal in zip(ways, notes, journals, strict=True)
        ]
        chosen = held_out(fitted_count(self.samples))
        judge = Judge(self.graph, self.samples.chosen(chosen))
        refined, plain = (judge.errors(one) for one in made)
        best = 0 if is_gain(refined, plain, CERTAIN) else 1
        self.journal.keep("judging refined scales", best=best)
        if best:
            note(NOT_KEPT)
        for text in notes[best]:
            note(text)
        return made[best]

    def _whole(
        self, scales: Mapping[str, Quantization], note: Callable[[str], None], journal: Journal
    ) -> QuantizedGraph:
        made = self.biases(scales, journal)
        if self.config.weight_correction:
            journal.changing(
                "correcting weights", made,
                lambda tell: correct_weights(
                    made, self.graph, self.samples, batch=self.config.batch,
                    seed=self.config.seed, show=self.show, note=tell, journal=journal,
                ), note,
            )  # fmt: skip
        return made

    def _work(self) -> float:
        return self.samples.count * network_work(self.graph)
