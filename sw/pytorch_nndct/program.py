# SPDX-License-Identifier: Apache-2.0
"""Quantized networks computed as the compiled program computes them, to the bit."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opendpu.compiler.pipeline import partition_settled
from opendpu.export.onnx_qdq import ORDER, output_name
from opendpu.frontend.pytorch.batch import stacked
from opendpu.ir import SCALARS, Array, Graph, Node, QuantizedGraph
from opendpu.ops.batching import mixes_samples
from opendpu.ops.session import Session
from opendpu.quantize.executor import chunk_size
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.numerics import quantize
from opendpu_arch.target import Target

DEFAULT_TARGET = "DPUCZDX8G_ISA1_B4096"
"""The DPU that decides what runs where, if nobody says another: the usual one of the boards."""


class IntegerNetwork:
    """A quantized graph, compiled as far as numbers depend on it, and run in onnxruntime.

    What the DPU takes is computed with its integers, the rest as the runner's CPU does. A graph
    that no DPU runs, because of its number formats, is computed as the quantizer simulates it.

    Parameters
    ----------
    quantized
        From the quantizer.
    target
        The DPU; results differ between targets only where one leaves more to the CPU.
    """

    def __init__(self, quantized: QuantizedGraph, target: Target | None = None) -> None:
        self.quantized = quantized
        self.target = target
        self.deployable = True
        graph: Graph = quantized
        try:
            chosen = target or Target.from_name(DEFAULT_TARGET)
            graph = partition_settled(quantized, chosen).graph
        except UnsupportedError:  # says why to those who compile
            self.deployable = False
        self._graph = graph
        self._order = quantized.attrs.get(ORDER, {})
        self.batched = not mixes_samples(graph, graph.outputs)
        self._session = Session(graph, batched=self.batched)
        self._heads = [node for node in graph if node.kind in ("data", "data-fix")]
        self._size = chunk_size(graph, [n.name for n in graph if n.value is None])
        self._names = [output_name(quantized, name) for name in quantized.outputs]
        self._scalars = frozenset(quantized.attrs.get(SCALARS, ()))

    def run(
        self,
        inputs: Mapping[str, Array],
        count: int | None,
        show: Callable[[str], None] = lambda text: None,
    ) -> list[Array]:
        """Return the outputs, in order, in the layout of the user's model.

        Parameters
        ----------
        inputs
            By name, in the layout of the user's model.
        count
            How many samples are stacked along the first axis; nothing if the arrays are one
            evaluation of the graph.
        show
            Told how many samples are done.
        """
        given = {node.name: self._given(node.name, inputs[node.name]) for node in self._heads}
        if count is None:
            return self._shaped(self._outputs(self._session.run(given)), 1)
        parts = []
        size = self._size if self.batched else 1
        for start in range(0, count, size):
            part = {name: array[start : start + size] for name, array in given.items()}
            parts.append(self._outputs(self._session.run(part)))
            show(f"{min(start + size, count)} of {count} samples")
        joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
        return self._shaped(joined, count)

    def results(self) -> list[tuple[tuple[int, ...], Array]]:
        """Return the shape of each output in the user's layout, and an element of its type."""
        found = []
        for name, shown in zip(self._graph.outputs, self._names, strict=True):
            node = self._graph[name]
            axes = list(self._order.get(shown, range(len(node.shape))))
            dtype = np.dtype(np.float32) if node.type.is_fixed else node.type.dtype
            shape = tuple(node.shape[axes.index(axis)] for axis in range(len(axes)))
            shape = () if shown in self._scalars else shape
            found.append((shape, np.zeros(1, dtype)))
        return found

    def arranged(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return inputs in the graph's layout and types."""
        heads = [node for node in self.quantized if node.kind == "data"]
        return {node.name: self._arranged(node, inputs[node.name]) for node in heads}

    def _given(self, name: str, array: Array) -> Array:
        """Return an input in the graph's layout; what the DPU reads as its integers."""
        node = self._graph[name]
        if node.type.is_fixed:
            floats = self._arranged(self.quantized[name], array)
            return quantize(floats, node.fix_point).astype(node.type.dtype)
        return self._arranged(node, array)

    def _arranged(self, node: Node, array: Array) -> Array:
        """Return an input in the graph's layout and type."""
        axes = self._order.get(node.name)
        array = array.transpose(axes) if axes is not None else array
        return np.ascontiguousarray(array.reshape(array.shape or (1,)), dtype=node.type.dtype)

    def _outputs(self, results: Mapping[str, Array]) -> list[Array]:
        found = []
        for name, shown in zip(self._graph.outputs, self._names, strict=True):
            node, array = self._graph[name], results[name]
            if node.type.is_fixed:
                array = array.astype(np.float32) * np.float32(math.ldexp(1.0, -node.fix_point))
            axes = self._order.get(shown)
            found.append(array if axes is None else array.transpose(np.argsort(axes)))
        return found

    def _shaped(self, arrays: Sequence[Array], count: int) -> list[Array]:
        """Return the results of samples, one after the other, in the user's shapes."""
        shapes = [shape for shape, _ in self.results()]
        found = [stacked(array, s, count) for array, s in zip(arrays, shapes, strict=True)]
        return [
            array if shape or count != 1 else array.reshape(())
            for array, shape in zip(found, shapes, strict=True)
        ]
