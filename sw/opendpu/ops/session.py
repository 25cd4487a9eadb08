# SPDX-License-Identifier: Apache-2.0
"""Graphs, or parts of them, computed by onnxruntime."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from opendpu.ir import Array, Graph
from opendpu.ops.boundary import SOURCES
from opendpu.ops.foreign import opsets_of
from opendpu.ops.inference import open_session, reason_of
from opendpu.ops.onnx_builder import OPSET, TO_NCHW, TO_NHWC, OnnxBuilder, Output
from opendpu.ops.operator import operator_of
from opendpu_arch.errors import TensorError, UnsupportedError

if TYPE_CHECKING:
    import onnxruntime

MAP_RANK = 4
"""Axes of a feature map: samples, rows, columns, channels."""
LEAST_OPSET = 13
"""First operator set of which our kernels know the operators."""


class Session:
    """Ops of a graph as one session of onnxruntime.

    Parameters
    ----------
    graph
        Where the ops are.
    nodes
        The ops to compute, in order; all but the inputs if not given.
    keep
        Ops whose results to return; the graph's outputs if not given.
    batched
        Whether samples are stacked along the first axis of the inputs.
    threads
        How many threads compute an op; 0 for as many as there are cores.
    channels_first
        Whether feature maps among the inputs lie in memory as NCHW, as other sessions leave them;
        they are given in the graph's order of axes like all others. Faster, and the same results.
    keep_memory
        Whether the memory of a run stays for the next: faster, but not for many sessions at once.

    Raises
    ------
    UnsupportedError
        An op has no kernel, or onnxruntime refuses the model.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        nodes: Iterable[str] | None = None,
        keep: Sequence[str] | None = None,
        batched: bool = False,
        threads: int = 0,
        channels_first: bool = False,
        keep_memory: bool = True,
    ) -> None:
        inside = _needed(graph, nodes, graph.outputs if keep is None else keep)
        opsets = opsets_of(graph, inside)
        if len(opsets) > 1:
            raise UnsupportedError(
                f"ops of graph {graph.name!r} need the ONNX operator sets "
                f"{', '.join(map(str, sorted(opsets)))} in one session, which is one too many"
            )
        opset = opsets.pop() if opsets else OPSET
        builder = OnnxBuilder(graph, opset=opset, batched=batched)
        known = set(inside)
        self.keep = list(graph.outputs if keep is None else keep)
        self.inputs = _outside(graph, known, self.keep)
        maps = [name for name in self.inputs if len(graph[name].shape) == MAP_RANK]
        self._first = set(maps if channels_first else ())
        for name in self.inputs:
            builder.add_input(name, channels_first=name in self._first)
        for name in inside:
            operator = operator_of(graph[name])
            if operator.emit is None:
                raise UnsupportedError(
                    f"op {name!r} ({graph[name].kind}) has no float kernel, so that it cannot be "
                    "evaluated"
                )
            operator.emit(builder, graph[name])
        self._name = graph.name
        self._outputs = _apart(builder, {n: _output(builder, n, known) for n in self.keep})
        names = dict.fromkeys(o.name for o in self._outputs.values())
        self._names = list(names)
        self._fed = builder.fed
        self._session = _open(builder, self._names, threads, keep_memory)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return the results to keep, by op, in the graph's order of axes.

        Raises
        ------
        TensorError
            An op cannot compute with these inputs: an index out of range, not enough memory.
        """
        feeds = {name: self._fed_as(name, inputs[name]) for name in self.inputs} | self._fed
        try:
            values = self._session.run(self._names, feeds)
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise TensorError(
                f"onnxruntime cannot compute ops of graph {self._name!r} with these inputs: "
                f"{reason_of(error)}"
            ) from error
        found = dict(zip(self._names, values, strict=True))
        return {
            name: found[o.name].transpose(TO_NHWC) if o.channels_first else found[o.name]
            for name, o in self._outputs.items()
        }

    def _fed_as(self, name: str, array: Array) -> Array:
        return array.transpose(TO_NCHW) if name in self._first else array


def _needed(graph: Graph, nodes: Iterable[str] | None, keep: Sequence[str]) -> list[str]:
    """Return the ops to compute, constants that they read included."""
    if nodes is None:
        every, alive = [n for n in graph if n.kind not in SOURCES], set(keep)
        for node in reversed(every):
            if node.name in alive:
                alive.update(node.sources())
        return [node.name for node in every if node.name in alive]
    names = list(nodes)
    read = dict.fromkeys(s for n in names for s in graph[n].sources())
    return [n for n in read if graph[n].value is not None and n not in names] + names


def _outside(graph: Graph, inside: set[str], keep: Sequence[str]) -> list[str]:
    """Return what ops ``inside`` read that is none of them, and inputs of the graph to keep."""
    read = dict.fromkeys(s for name in inside for s in graph[name].sources())
    read |= dict.fromkeys(name for name in keep if graph[name].kind in SOURCES)
    return [name for name in read if name not in inside]


def _output(builder: OnnxBuilder, name: str, inside: set[str]) -> Output:
    """Return an output; inputs and constants leave under another name than they come with."""
    if name in inside and builder.constant(name) is None:
        return builder.output(name)
    return Output(builder.op("Identity", [builder.plain(name)]), False)


def _apart(builder: OnnxBuilder, outputs: dict[str, Output]) -> dict[str, Output]:
    """Return the outputs, those that other operators read as results of their own.

    Where onnxruntime moves transposes behind operators that read an output, it forgets the output.
    """
    read = {name for node in builder.nodes for name in node.input}
    return {
        name: Output(builder.op("Identity", [out.name]), out.channels_first)
        if out.name in read else out
        for name, out in outputs.items()
    }  # fmt: skip


def _open(
    builder: OnnxBuilder, names: list[str], threads: int, keep_memory: bool
) -> "onnxruntime.InferenceSession":
    """Return the session; without optimizations where these make a model of their own invalid."""
    model = builder.model(names)
    failures = []
    for optimized in (True, False):
        try:
            return open_session(
                model, builder.libraries, threads=threads, optimized=optimized,
                keep_memory=keep_memory, packed=not builder.fed,
                integer_kernels=not builder.rounds, weights=builder.large,
            )  # fmt: skip
        except Exception as error:  # onnxruntime has no common base class for its errors
            failures.append(error)
    raise UnsupportedError(
        f"onnxruntime refuses ops of graph {builder.graph.name!r}: {reason_of(failures[-1])}"
    )
