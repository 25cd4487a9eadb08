# SPDX-License-Identifier: Apache-2.0
"""Constants of a quantized graph fitted block after block, from the inputs on."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from opendpu.ir import FloatGraph, Graph, QuantizedGraph
from opendpu.ops.batching import mixes_samples
from opendpu.ops.cost import macs
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.finetune.block_fit import BlockFit, Tuned
from opendpu.quantize.finetune.blocks import find_blocks
from opendpu.quantize.finetune.clock import Clock
from opendpu.quantize.finetune.examples import advance, held_out
from opendpu.quantize.finetune.forward import ForwardPass, part_size
from opendpu.quantize.finetune.guard import Guard
from opendpu.quantize.finetune.pytorch import torch_module
from opendpu.quantize.finetune.regression import work_of
from opendpu.quantize.finetune.rows import Form, form_of
from opendpu.quantize.journal import NOTHING, Journal
from opendpu.quantize.progress import silent
from opendpu.quantize.samples import Samples

ROWS = 1 << 14
"""Positions of a block's result, of all samples together, that training looks at."""

CORRECTION_ROWS = 1 << 12
"""The same for correction alone, at least."""

DEPTHWISE_ROWS = 1 << 10
"""The same for layers with an equation of a few terms for each channel, which need no more."""

FEWEST_ROWS = 4
"""Positions that are needed for each term of a sum."""

CORRECTION_WORK = 3e10
"""Multiply-accumulates that the equations of a layer may take; larger layers stay as they are."""

PASS_WORK = 4e10
"""Multiply-accumulates of the network on all samples of correction together, at most."""

GOOD_ERROR = 10**-2.5
"""Squared error of the network's results, by their energy, below which nothing is corrected: 25 dB
of signal to noise, where rounding is all that is left."""

FIRST_PART = 4
"""One in so many layers is corrected before it is asked whether the others shall be, too."""

FEWEST_LAYERS = 10
"""Layers of that part that are needed to ask; correcting fewer takes little time."""

LEAST_GAIN = 0.15
"""Mean gain of these layers, in dB on held-out examples, below which correction ends: what is left
is rounding, which no weights make up for."""

SAMPLES = (16, 256)
"""Least and most samples of correction, as far as there are so many."""


def finetune(
    quantized: QuantizedGraph,
    reference: FloatGraph,
    samples: Samples,
    config: FinetuneConfig,
    *,
    seed: int = 0,
    show: Callable[[str], None] = silent,
    note: Callable[[str], None] = silent,
    journal: Journal = NOTHING,
) -> list[Tuned]:
    """Train the constants of a quantized graph, in place.

    Each block's result is brought near the float network's, given what the quantized blocks before
    it compute. Weights and biases end on grids that the DPU's shifts can hold, so that the compiled
    program computes what was measured. A block that gets no better on samples that were held out
    keeps its constants. The same seed gives the same result on the same machine. When interrupted,
    the graph is whole: the blocks before are tuned, the others untouched.

    Parameters
    ----------
    quantized
        What to train.
    reference
        The float graph that it was made from, after all transformations: ops have the same names.
    samples
        Calibration samples; no labels.
    config
        Method, steps and samples.
    seed
        Of what is random: positions that are looked at, and batches.
    show
        Told what is going on: layer, percentage, time left.
    note
        Told what was left out.
    journal
        Has the blocks that an earlier run has trained.

    Raises
    ------
    UnsupportedError
        PyTorch is not installed.
    """
    torch_module()
    count = min(samples.count, config.samples or samples.count)
    return _each(
        quantized, reference, samples, count, config, seed, "finetuning", show, note, journal
    )


def correct_weights(
    quantized: QuantizedGraph,
    reference: FloatGraph,
    samples: Samples,
    *,
    batch: int = 32,
    seed: int = 0,
    show: Callable[[str], None] = silent,
    note: Callable[[str], None] = silent,
    journal: Journal = NOTHING,
) -> list[Tuned]:
    """Let the weights of a quantized graph make up for what quantization did before them, in place.

    As :func:`finetune`, but by regression in closed form (:mod:`.regression`) instead of training:
    seconds, and without PyTorch. Nothing is done where the network's results are near the float
    ones anyway. How many samples and layers take part is bounded by their work.
    """
    count = correction_samples(reference, samples)
    config = FinetuneConfig(batch=batch)
    return _each(
        quantized, reference, samples, count, config, seed, "correcting weights", show, note,
        journal,
    )  # fmt: skip


def correction_samples(graph: Graph, samples: Samples) -> int:
    """Return how many samples the weights of a float graph are corrected with."""
    work = sum(macs(node, graph) for node in graph)
    least, most = SAMPLES
    return min(samples.count, max(least, min(most, int(PASS_WORK / max(work, 1)))))


def _each(
    quantized: QuantizedGraph, reference: FloatGraph, samples: Samples, count: int,
    config: FinetuneConfig, seed: int, what: str, show: Callable[[str], None],
    note: Callable[[str], None], journal: Journal,
) -> list[Tuned]:  # fmt: skip
    """Fit every block; train it too if that is ``what`` is done."""
    blocks, left = find_blocks(quantized, reference)
    trains = what == "finetuning"
    if not trains:
        large = [b for b in blocks if not correction_rows(form_of(quantized, b.layer))]
        left |= {b.layer.name: "its equations would take too long" for b in large}
        blocks = [b for b in blocks if b not in large]
    if not blocks:
        return []
    batched = not any(mixes_samples(graph, graph.outputs) for graph in (quantized, reference))
    guard = Guard(quantized, reference, blocks, samples, held_out(count))
    if not trains and guard.before[: guard.inner].max(initial=0.0) < GOOD_ERROR:
        return []
    if left:
        name, reason = next(iter(left.items()))
        note(f"{what} left out {len(left)} layers, for example {name!r}: {reason}")
    size = part_size(reference, config.batch)
    exact = ForwardPass(quantized, samples, count, size=size, batched=batched)
    floating = ForwardPass(reference, samples, count, size=size, batched=batched)
    clock = Clock(what, [(b.layer.name, float(np.prod(quantized[b.weights.name].shape)))
                         for b in blocks], show)  # fmt: skip
    found = []
    try:
        for number, block in enumerate(blocks):
            clock.begin(number)
            rng = np.random.default_rng([seed, number])
            fit = BlockFit(quantized, reference, block)
            rows = ROWS if trains else correction_rows(fit.form)
            step = f"{what}: {block.layer.name}"
            if known := journal.known(step):
                advance(block, exact, floating)
                found.append(fit.again(known))
            else:
                found.append(
                    fit.run(exact, floating, rows, config if trains else None, rng, clock.tell)
                )
                journal.keep(step, **fit.result(found[-1]))
            if not trains and _gains_nothing(found, len(blocks)):
                break
    finally:
        exact.close()
        floating.close()
    if failure := _failure(found, len(blocks), guard):
        guard.restore()
        note(f"{what} {failure}, so that constants stay as they were")
        found = [dataclasses.replace(one, kept=False) for one in found]
    return found


def _gains_nothing(found: Sequence[Tuned], layers: int) -> bool:
    """Return whether the first part of all layers is done, and gained too little."""
    part = layers // FIRST_PART
    if len(found) != part or part < FEWEST_LAYERS:
        return False
    return sum(one.gain for one in found) < LEAST_GAIN * part


def _failure(found: Sequence[Tuned], layers: int, guard: Guard) -> str:
    """Return why new constants are not kept; nothing if they are."""
    if len(found) < layers:
        mean = sum(one.gain for one in found) / len(found)
        return f"ended behind {len(found)} of {layers} layers, which came {mean:.2f} dB nearer"
    return "" if guard.is_better() else "brought the network's results no nearer"


def correction_rows(form: Form) -> int:
    """Return how many rows correction looks at; 0 where the equations take too long."""
    least = CORRECTION_ROWS if form.groups == 1 or form.outputs > 1 else DEPTHWISE_ROWS
    rows = max(least, FEWEST_ROWS * form.terms)
    return rows if work_of(form, rows) <= CORRECTION_WORK else 0
