# SPDX-License-Identifier: Apache-2.0
"""Whether a whole network came nearer to the float one; if not, its constants are put back."""

from collections.abc import Sequence

import numpy as np

from opendpu.ir import Array, FloatGraph, Node, QuantizedGraph
from opendpu.ir.types import FLOAT32
from opendpu.ops.session import Session
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.noise import noise_and_signal
from opendpu.quantize.placement.insert import with_plain_constants
from opendpu.quantize.samples import Samples


class Guard:
    """Remembers the constants of blocks, and how far the network's results are from the float ones.

    Parameters
    ----------
    quantized, reference
        The graph that changes, and the float one.
    blocks
        What changes of it.
    samples
        What to measure on.
    chosen
        Numbers of the samples that count: those that nothing is fitted to.
    """

    def __init__(
        self, quantized: QuantizedGraph, reference: FloatGraph, blocks: Sequence[Block],
        samples: Samples, chosen: Sequence[int],
    ) -> None:  # fmt: skip
        self._graph, self._samples, self._chosen = quantized, samples, chosen
        self._ends = {
            name: node.inputs["input"][0]
            for name, node in last_fixes(quantized).items()
            if node.inputs["input"][0] in reference.nodes
        }
        self.inner = len(self._ends)
        for name, other in zip(reference.outputs, quantized.outputs, strict=True):
            if other not in self._ends and reference[name].type.dtype == FLOAT32:
                self._ends[other] = name
        floating = Session(reference, keep=list(dict.fromkeys(self._ends.values())))
        self._wanted = [floating.run(samples.single(index)) for index in chosen]
        del floating  # and its weights, before there is another session
        self._kept = [
            (node, node.value, node.type) for block in blocks for node in self._constants(block)
        ]
        self.before = self.errors()

    def errors(self) -> Array:
        """Return the squared error of each result, by its energy: quantized ones, then others.

        Where the data decide the shape, so that there is nothing to compare, it is 0.
        """
        session = Session(with_plain_constants(self._graph), keep=list(self._ends))
        noise, signal = np.zeros(len(self._ends)), np.zeros(len(self._ends))
        for index, wanted in zip(self._chosen, self._wanted, strict=True):
            found = session.run(self._samples.single(index))
            for number, (name, source) in enumerate(self._ends.items()):
                if found[name].shape != wanted[source].shape:
                    continue
                found_noise, found_signal = noise_and_signal(found[name], wanted[source])
                noise[number] += found_noise
                signal[number] += found_signal
        return noise / np.maximum(signal, np.finfo(np.float32).tiny)

    def is_better(self) -> bool:
        """Return whether the results are nearer to the float ones now than they were.

        That holds for the last tensors that are quantized, and for what the CPU makes of them.
        """
        inner, outer = np.split(self.errors(), [self.inner])
        before, outer_before = np.split(self.before, [self.inner])
        return bool(inner.sum() < before.sum() and outer.sum() <= outer_before.sum())

    def restore(self) -> None:
        """Put all constants back."""
        for node, value, made in self._kept:
            node.value, node.type = value, made

    def _constants(self, block: Block) -> list[Node]:
        fixes = [fix for fix in (block.weights, block.bias) if fix is not None]
        return [*fixes, *(self._graph[fix.inputs["input"][0]] for fix in fixes)]


def last_fixes(graph: QuantizedGraph) -> dict[str, Node]:
    """Return the ``fix`` ops of computed tensors behind which no other is, by name."""
    users, leads, found = graph.consumer_map(), set(), {}
    for node in reversed(graph.nodes.values()):
        behind = any(user.name in leads for user in users[node.name])
        if node.kind == "fix" and graph[node.inputs["input"][0]].value is None:
            leads.add(node.name)
            if not behind:
                found[node.name] = node
        elif behind:
            leads.add(node.name)
    return dict(reversed(found.items()))
