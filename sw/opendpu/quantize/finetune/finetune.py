# SPDX-License-Identifier: Apache-2.0
"""Finetuning of a quantized graph: block after block, from the inputs on, on the simulated grid."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from opendpu.ir import FloatGraph, Node, QuantizedGraph
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.executor import mixes_samples
from opendpu.quantize.finetune.blocks import Block, find_blocks
from opendpu.quantize.finetune.examples import collect
from opendpu.quantize.finetune.forward import ForwardPass, part_size
from opendpu.quantize.finetune.model import BlockModel, batch_of
from opendpu.quantize.finetune.pytorch import threads, torch_module
from opendpu.quantize.finetune.regression import best_start
from opendpu.quantize.finetune.rows import Form, as_matrix, as_weights, form_of
from opendpu.quantize.finetune.scales import weight_grids
from opendpu.quantize.finetune.train import Trained, train
from opendpu.quantize.finetune.variables import METHODS, Grid
from opendpu.quantize.samples import Samples

ONE_THREAD = 1 << 17
"""Layers with fewer weights are trained by one thread."""


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What became of a block.

    Parameters
    ----------
    layer
        Name of its layer.
    before, after
        Mean squared error of its result on held-out examples.
    kept
        Whether the trained constants stay; otherwise they are what they were.
    """

    layer: str
    before: float
    after: float
    kept: bool


def finetune(
    quantized: QuantizedGraph,
    reference: FloatGraph,
    samples: Samples,
    config: FinetuneConfig,
    *,
    seed: int = 0,
    show: Callable[[str], None] = lambda text: None,
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
        Told what is going on.

    Raises
    ------
    UnsupportedError
        PyTorch is not installed.
    """
    torch_module()
    blocks, _ = find_blocks(quantized, reference)
    if not blocks:
        return []
    count = min(samples.count, config.samples or samples.count)
    batched = not any(mixes_samples(graph, graph.outputs) for graph in (quantized, reference))
    size = part_size(reference, config.batch)
    exact = ForwardPass(quantized, samples, count, size=size, batched=batched)
    floating = ForwardPass(reference, samples, count, size=size, batched=batched)
    clock = _Clock(quantized, blocks, show)
    found = []
    try:
        for number, block in enumerate(blocks):
            clock.begin(number)
            rng = np.random.default_rng([seed, number])
            found.append(_tuned(quantized, reference, block, exact, floating, config, rng, clock))
    finally:
        exact.close()
        floating.close()
    return found


def _tuned(
    quantized: QuantizedGraph, reference: FloatGraph, block: Block, exact: ForwardPass,
    floating: ForwardPass, config: FinetuneConfig, rng: np.random.Generator, clock: "_Clock",
) -> Tuned:  # fmt: skip
    """Train one block and put the result into the graph if it is better."""
    form = form_of(quantized, block.layer)
    examples, judged = (batch_of(e) for e in collect(block, form, exact, floating, rng))
    model = BlockModel(block, form)
    layer = block.layer
    original = reference[reference[layer.name].inputs["weights"][0]].value
    weights = _constant(quantized, block.weights).value
    assert original is not None and weights is not None
    bias = None if block.bias is None else _constant(quantized, block.bias).value
    old = Trained(as_matrix(form, layer, weights), bias, 0.0)
    before = _error(model, judged, old)
    matrix = as_matrix(form, layer, original)
    fix_point = weight_grids(model, examples, block, quantized, matrix, bias)
    grid = _grid(block.weights, fix_point)
    bias_grid = _grid(block.bias or block.weights, (block.bias or block.weights).fix_point)
    matrix, bias = best_start(model, examples, judged, form, matrix, bias, grid, bias_grid)
    variables = METHODS[config.method](matrix, grid, bias, bias_grid)
    with threads(1 if form.terms * form.groups * form.outputs < ONE_THREAD else None):
        made = train(model, variables, examples, judged, config, rng, show=clock.tell)
    kept = made.error < before
    if kept:
        _put(quantized, block, form, made, fix_point)
    return Tuned(layer.name, before, made.error, kept)


def _error(model: BlockModel, judged: object, constants: Trained) -> float:
    torch = torch_module()
    bias = None if constants.bias is None else torch.from_numpy(constants.bias)
    return model.error(judged, torch.from_numpy(np.ascontiguousarray(constants.weights)), bias)


def _grid(fix: Node, fix_point: int) -> Grid:
    return Grid(2.0**-fix_point, *fix.quantization.limits)


def _constant(graph: QuantizedGraph, fix: Node) -> Node:
    return graph[fix.inputs["input"][0]]


def _put(
    graph: QuantizedGraph, block: Block, form: Form, made: Trained, fix_point: int
) -> None:
    """Give a layer other constants, all at once."""
    weights = _constant(graph, block.weights)
    assert weights.value is not None
    value = as_weights(form, block.layer, made.weights, weights.value.shape).astype(np.float32)
    fix = block.weights
    fix.type = fix.type.with_quantization(fix.quantization.at(fix_point))
    weights.value = value
    if block.bias is not None and made.bias is not None:
        _constant(graph, block.bias).value = made.bias.astype(np.float32)


class _Clock:
    """Says how far finetuning is, and how long the rest takes."""

    def __init__(
        self, graph: QuantizedGraph, blocks: list[Block], show: Callable[[str], None]
    ) -> None:
        self._show = show
        self._names = [block.layer.name for block in blocks]
        self._work = [float(np.prod(graph[block.weights.name].shape)) + 1e4 for block in blocks]
        self._start = time.monotonic()
        self._number = 0

    def begin(self, number: int) -> None:
        """Start with a block."""
        self._number = number
        self.tell(0.0)

    def tell(self, part: float) -> None:
        """Say that a part of the block is done."""
        work = sum(self._work[: self._number]) + part * self._work[self._number]
        share = work / sum(self._work)
        text = f"finetuning: layer {self._number + 1} of {len(self._names)}"
        text += f" ({self._names[self._number]}), {100 * share:.0f} %"
        if share > 0.02:
            left = (time.monotonic() - self._start) * (1 - share) / share
            text += f", {int(left) // 60}:{int(left) % 60:02d} left"
        self._show(text)
