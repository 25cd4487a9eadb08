# SPDX-License-Identifier: Apache-2.0
"""The integers of every tensor of a quantized graph, as the DPU has them."""

from collections.abc import Mapping

import onnx
from onnx import helper

from opendpu.export.forms import form_of
from opendpu.export.quantized_builder import QuantizedBuilder
from opendpu.integer import IntegerNetwork
from opendpu.ir import Array, Graph, Node, Quantization, QuantizedGraph
from opendpu.ops import SOURCES
from opendpu.ops.foreign import opsets_of
from opendpu.ops.inference import open_session
from opendpu.ops.onnx_builder import OPSET, TO_NHWC
from opendpu.quantize.tensor_spec import DPU_BITS
from opendpu_arch.errors import UnsupportedError


def computed_fixes(graph: Graph) -> list[str]:
    """Return the ``fix`` ops behind computed tensors, in order."""
    return [n.name for n in graph if n.kind == "fix" and graph[n.sources()[0]].value is None]


def constant_fixes(graph: Graph) -> list[str]:
    """Return the ``fix`` ops behind constants, in order."""
    return [n.name for n in graph if n.kind == "fix" and graph[n.sources()[0]].value is not None]


class IntegerReference:
    """The integers of every tensor of a quantized graph.

    What the DPU runs comes from :class:`opendpu.integer.IntegerNetwork`, and is to the bit what it
    computes; the rest, and networks that no DPU runs, from the operators of the exported file.

    Parameters
    ----------
    graph
        What a quantizer made.
    """

    def __init__(self, graph: QuantizedGraph) -> None:
        self.graph = graph
        opset = next(iter(opsets_of(graph, graph.nodes)), OPSET)
        self._builder = QuantizedBuilder(
            graph, form_of("native"), opset=opset, batched=False, exact=True, pairs=False,
            simulate=True,
        )  # fmt: skip
        for node in graph:
            if node.kind in SOURCES:
                self._builder.add_input(node.name)
            else:
                self._builder.add(node)
        self.integers = computed_fixes(graph)
        """Quantized tensors, by their ``fix``."""
        self.floats = [n.name for n in graph if _stays_float(graph, n)]
        """Ops whose results are not quantized."""
        self._values = {name: self._integers(name) for name in self.integers}
        self._values |= {name: self._builder.plain(name) for name in self.floats}
        names = list(dict.fromkeys(self._values.values()))
        self._session = open_session(self._builder.model(names), self._builder.libraries)
        self._names = names
        self._network = _network(graph, self.integers)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return integers by ``fix`` and real numbers by float op, in the graph's order of axes.

        ``inputs`` are arrays by input, in the graph's shapes.
        """
        given = {item.name: inputs[item.name] for item in self._builder.inputs}
        found = dict(zip(self._names, self._session.run(self._names, given), strict=True))
        results = {name: found[value] for name, value in self._values.items()}
        if self._network is None:
            return results
        heads = {n.tensor_name for n in self._network.graph if n.kind in SOURCES}
        exact = self._network.run({name: inputs[name] for name in heads})
        return results | exact

    def _integers(self, name: str) -> str:
        """Return the ONNX value of the integers of a tensor in the graph's order of axes."""
        found = self._builder.integers_of(name)
        if found is None:
            kind = self.graph[name].quantization.number_format.value
            raise UnsupportedError(f"op {name!r}: {kind} has no integers to compare or write")
        if found.channels_first:
            return self._builder.op("Transpose", [found.name], perm=list(TO_NHWC))
        return found.name


def _network(graph: QuantizedGraph, fixes: list[str]) -> IntegerNetwork | None:
    """Return what computes as many of some tensors as the DPU has; none if it runs nothing."""
    if not all(_is_of_dpu(graph[name].quantization) for name in (*fixes, *constant_fixes(graph))):
        return None
    every = IntegerNetwork(graph)
    shapes = {name: every.graph[node].shape for name, node in every.tensors.items()}
    kept = [name for name in fixes if shapes.get(name) == graph[name].shape]
    return IntegerNetwork(graph, keep=kept) if kept else None


def _is_of_dpu(found: Quantization) -> bool:
    """Return whether the DPU has tensors like this; narrower ones are int8 on a coarser grid."""
    return found.is_power_of_two and found.signed and found.bits <= DPU_BITS


def _stays_float(graph: Graph, node: Node) -> bool:
    """Return whether an op computes something that nobody quantizes."""
    if node.kind in (*SOURCES, "fix") or node.value is not None:
        return False
    users = graph.consumers(node.name)
    return node.name in graph.outputs or not any(user.kind == "fix" for user in users)


def with_outputs(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """Return a model with more of its values as outputs."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {item.name for item in made.graph.output}
    made.graph.output.extend(
        helper.make_empty_tensor_value_info(name) for name in names if name not in known
    )
    return made
