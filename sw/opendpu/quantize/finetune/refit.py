# SPDX-License-Identifier: Apache-2.0
"""Weights of a float graph refitted after some of its ops were replaced by others.

Hard-swish is near swish, but not the same, and what it lacks adds up: YOLOv8 with fifty of them
finds other things. Every layer behind a replaced op is refitted to what it gave before, from the
inputs on, by the regression that corrects quantized weights (:mod:`.regression`).
"""

from collections.abc import Collection

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.ops.batching import mixes_samples
from opendpu.quantize.finetune.blocks import LAYERS, Block
from opendpu.quantize.finetune.examples import collect
from opendpu.quantize.finetune.fitting import correction_rows, correction_samples
from opendpu.quantize.finetune.forward import ForwardPass, part_size
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.finetune.regression import best_start
from opendpu.quantize.finetune.rows import as_matrix, as_weights, form_of
from opendpu.quantize.layers import bias_of, has_constant_weights, parameters_of, set_parameters
from opendpu.quantize.progress import Progress
from opendpu.quantize.samples import Samples


def refit(
    graph: Graph,
    before: Graph,
    replaced: Collection[str],
    samples: Samples,
    *,
    batch: int,
    seed: int,
    progress: Progress,
) -> list[str]:
    """Refit the layers behind ``replaced`` ops, in place; return those that came nearer.

    Parameters
    ----------
    graph
        The float graph with other ops.
    before
        The same as it was; its layers have the same names.
    replaced
        Names of the other ops.
    samples
        What is computed; one in four is not fitted to, but tells which weights are better.
    batch, seed
        Samples that are computed at a time at most, and what positions are drawn with.
    progress
        Told which layer it is.
    """
    blocks = [block for node in _behind(graph, replaced) if (block := _block(graph, node))]
    if not blocks:
        return []
    count = correction_samples(before, samples)
    batched = not any(mixes_samples(some, some.outputs) for some in (graph, before))
    size = part_size(before, batch)
    changed = ForwardPass(graph, samples, count, size=size, batched=batched)
    wanted = ForwardPass(before, samples, count, size=size, batched=batched)
    done = []
    try:
        for number, block in enumerate(blocks):
            progress.step("refitting layers", number, len(blocks), block.layer.name)
            rng = np.random.default_rng([seed, number])
            if _fitted(graph, block, changed, wanted, rng):
                done.append(block.layer.name)
    finally:
        changed.close()
        wanted.close()
    return done


def _behind(graph: Graph, names: Collection[str]) -> list[Node]:
    """Return the ops that depend on some others, in order."""
    reached, found = set(names), []
    for node in graph:
        if reached.intersection(node.sources()):
            reached.add(node.name)
            found.append(node)
    return found


def _block(graph: Graph, layer: Node) -> Block | None:
    """Return a layer as what is fitted; none where its weights are not its own, or too many."""
    if layer.kind not in LAYERS or not has_constant_weights(graph, layer):
        return None
    if not correction_rows(form_of(graph, layer)):
        return None
    arguments = parameters_of(layer)
    weights = graph[layer.inputs[arguments.weights][0]]
    bias = [graph[name] for name in layer.inputs.get(arguments.bias, ())]
    if any(len(graph.consumers(constant.name)) > 1 for constant in (weights, *bias)):
        return None
    return Block(layer, weights, bias[0] if bias else None, (), ())


def _fitted(
    graph: Graph, block: Block, changed: ForwardPass, wanted: ForwardPass, rng: np.random.Generator
) -> bool:
    """Give a layer the weights that suit its inputs best; return whether these are others."""
    layer, form = block.layer, form_of(graph, block.layer)
    examples, judged = collect(block, form, changed, wanted, correction_rows(form), rng)
    assert block.weights.value is not None
    shape = block.weights.value.shape
    weights = as_matrix(form, layer, block.weights.value)
    bias = None if block.bias is None else bias_of(graph, layer).ravel().astype(np.float32)
    model = BlockModel(block, form)
    present = error_of(model, judged, weights, bias)
    found, other, error = best_start(model, examples, judged, form, weights, bias, _as_it_is)
    if error >= present:
        return False
    made = as_weights(form, layer, found, shape)
    if block.bias is None or other is None:
        block.weights.value = made.astype(np.float32)
    else:
        set_parameters(graph, layer, made, other.reshape(block.bias.shape))
    return True


def _as_it_is(weights: Array, bias: Array | None) -> tuple[Array, Array | None]:
    return weights, bias
