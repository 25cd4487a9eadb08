# SPDX-License-Identifier: Apache-2.0
"""One block fitted to what the float network has there, and put into the graph if it is better."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opendpu.ir import Array, FloatGraph, Node, QuantizedGraph
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import collect
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.grids import best_move, grid_of, nearest
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.finetune.regression import best_start
from opendpu.quantize.finetune.rows import as_matrix, as_weights, form_of
from opendpu.quantize.finetune.train import Trained, train
from opendpu.quantize.finetune.variables import METHODS
from opendpu.quantize.journal import packed, unpacked


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
        Whether the new constants stay; otherwise they are what they were.
    """

    layer: str
    before: float
    after: float
    kept: bool

    @property
    def gain(self) -> float:
        """How much nearer to the float network its result came, in dB."""
        least = float(np.finfo(np.float32).tiny)
        return 10 * math.log10(self.before / max(self.after, least)) if self.kept else 0.0


class BlockFit:
    """One block of a quantized graph."""

    def __init__(self, quantized: QuantizedGraph, reference: FloatGraph, block: Block) -> None:
        self.graph = quantized
        self.block = block
        self.form = form_of(quantized, block.layer)
        original = reference[reference[block.layer.name].inputs["weights"][0]].value
        assert original is not None
        self.original = as_matrix(self.form, block.layer, original)
        self._taken: tuple[Trained, int] | None = None

    def run(
        self, exact: ForwardPass, floating: ForwardPass, rows: int, config: FinetuneConfig | None,
        rng: np.random.Generator, show: Callable[[float], None],
    ) -> Tuned:  # fmt: skip
        """Fit the block and put the result into the graph if it is better; train with a config."""
        block, form = self.block, self.form
        examples, judged = collect(block, form, exact, floating, rows, rng)
        model = BlockModel(block, form)
        weights, bias = self._present()
        before = error_of(model, judged, weights, bias)
        moved = best_move(model, examples, block, form, self.graph, self.original, bias)
        grid, bias_grid = grid_of(block.weights, moved, form), grid_of(block.bias or block.weights)

        def rounded(some: Array, other: Array | None) -> tuple[Array, Array | None]:
            return nearest(some, grid), None if other is None else nearest(other, bias_grid)

        start, start_bias, error = best_start(
            model, examples, judged, form, self.original, bias, rounded
        )
        made = Trained(*rounded(start, start_bias), error)
        if config is not None:
            variables = METHODS[config.method](start, grid, start_bias, bias_grid)
            trained = train(block, form, variables, examples, judged, config, rng, show=show)
            made = min(made, trained, key=lambda one: one.error)
        kept = made.error < before
        if kept:
            self._put(made, moved)
        return Tuned(block.layer.name, before, made.error, kept)

    def result(self, tuned: Tuned) -> dict[str, Any]:
        """Return what became of the block, for the journal."""
        found: dict[str, Any] = {"before": float(tuned.before), "after": float(tuned.after)}
        if self._taken is not None:
            made, moved = self._taken
            found |= {"weights": packed(made.weights), "bias": packed(made.bias), "moved": moved}
        return found

    def again(self, known: Mapping[str, Any]) -> Tuned:
        """Put what an earlier run has found into the graph."""
        before, after, kept = known["before"], known["after"], "weights" in known
        if kept:
            weights = unpacked(known["weights"])
            assert weights is not None
            self._put(Trained(weights, unpacked(known["bias"]), after), known["moved"])
        return Tuned(self.block.layer.name, before, after, kept)

    def _constant(self, fix: Node) -> Node:
        return self.graph[fix.inputs["input"][0]]

    def _present(self) -> tuple[Array, Array | None]:
        """Return the constants as they are."""
        weights = self._constant(self.block.weights).value
        assert weights is not None
        bias = None if self.block.bias is None else self._constant(self.block.bias).value
        return as_matrix(self.form, self.block.layer, weights), bias

    def _put(self, made: Trained, moved: int) -> None:
        """Give the layer other constants, and ``moved`` fractional bits more to its weights."""
        block = self.block
        self._taken = made, moved
        weights = self._constant(block.weights)
        assert weights.value is not None
        value = as_weights(self.form, block.layer, made.weights, weights.value.shape)
        fix = block.weights
        points = [point + moved for point in fix.fix_points]
        fix.type = fix.type.with_quantization(fix.quantization.along(points, fix.quantization.axis))
        weights.value = value.astype(np.float32)
        if block.bias is not None and made.bias is not None:
            self._constant(block.bias).value = made.bias.astype(np.float32)
