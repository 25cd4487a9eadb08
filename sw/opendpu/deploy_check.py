# SPDX-License-Identifier: Apache-2.0
"""Deploy check: the integers of a quantized network, its program and its file on one sample.

The reference is the quantized graph in the DPU's arithmetic (:mod:`opendpu.integer`); devices run
what the compiler makes of the graph, and onnxruntime runs the exported file.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx

from opendpu.compiler.pipeline import compile_with_report
from opendpu.export.onnx_qdq import ORDER, channels_first, output_name
from opendpu.export.reference import IntegerReference, computed_fixes, with_outputs
from opendpu.ir import Array, Node, QuantizedGraph
from opendpu.ops.inference import open_session
from opendpu.runtime import GraphRunner
from opendpu.runtime.batch import run_batch
from opendpu_arch.target import Target

DEVICES = ("ref", "iss")
"""Devices that are asked by default."""

FILE = "file"
"""Stands for the exported file."""

TOLERANCE = 1e-5
"""How far real numbers of the CPU may be apart, for their range: the order of sums differs."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """A tensor that differs from the reference.

    Parameters
    ----------
    tensor
        Its name: that of the op that makes it.
    kind, origin
        What that op is, and where it comes from in the user's model.
    differing, elements
        How many numbers differ, and how many there are.
    largest
        The largest difference: in units of the last bit, or of real numbers as they are.
    """

    tensor: str
    kind: str
    origin: str
    differing: int
    elements: int
    largest: float

    def __str__(self) -> str:
        """Return it as a sentence."""
        place = f", {self.origin}" if self.origin else ""
        return (
            f"{self.tensor} ({self.kind}{place}): {self.differing} of {self.elements} numbers "
            f"differ, by {self.largest:g} at most"
        )


@dataclasses.dataclass(frozen=True)
class Checked:
    """What one opinion says.

    Parameters
    ----------
    opinion
        The device, or :data:`FILE`.
    outputs
        Outputs that differ from the reference; none where all agree.
    first
        The first layer that differs, where the outputs do; none where single layers agree, so that
        only their being computed together makes the difference.
    """

    opinion: str
    outputs: tuple[Difference, ...] = ()
    first: Difference | None = None

    @property
    def agrees(self) -> bool:
        """Whether all outputs are the reference's."""
        return not self.outputs

    def __str__(self) -> str:
        """Return it as a sentence."""
        if self.agrees:
            return f"{self.opinion}: agrees"
        if self.first is None:
            return (
                f"{self.opinion}: differs, but no layer does on its own; output {self.outputs[0]}"
            )
        return f"{self.opinion}: differs first at {self.first}"


def deploy_check(
    graph: QuantizedGraph,
    inputs: Mapping[str, Array],
    *,
    target: Target,
    devices: Sequence[str] = DEVICES,
    exported: onnx.ModelProto | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> list[Checked]:
    """Compare the network's integers on one sample; name the first layer that differs.

    Parameters
    ----------
    graph
        The quantized network.
    inputs
        Arrays by input, in the graph's shapes.
    target
        The DPU that it is compiled for.
    devices
        What runs the program.
    exported
        What was written as ONNX, to be run as well.
    show
        Told what is going on.

    Raises
    ------
    UnsupportedError
        A device is unknown, or nothing computes an op.
    """
    given = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
    wanted = IntegerReference(graph).run(given)
    found = []
    for device in devices:
        show(f"checking: {device}")

        def runs(part: QuantizedGraph, device: str = device) -> dict[str, Array]:
            return _on_device(part, given, target, device)

        outputs = _differences(graph, graph.outputs, wanted, runs(graph))
        first = None
        if outputs:
            every = graph.copy()
            every.outputs = computed_fixes(graph)
            first = next(iter(_differences(graph, every.outputs, wanted, runs(every))), None)
        found.append(Checked(device, tuple(outputs), first))
    if exported is not None:
        show("checking: the file")
        results = _of_file(graph, exported, given)
        outputs = _differences(graph, graph.outputs, wanted, results)
        every_one = _differences(graph, computed_fixes(graph), wanted, results) if outputs else []
        found.append(Checked(FILE, tuple(outputs), next(iter(every_one), None)))
    return found


def _differences(
    graph: QuantizedGraph,
    names: Sequence[str],
    wanted: Mapping[str, Array],
    found: Mapping[str, Array],
) -> list[Difference]:
    """Return the tensors that differ, of those that are there, in order."""
    return [
        difference
        for name in names
        if name in wanted and name in found
        for difference in _difference(graph, graph[name], wanted[name], found[name])
    ]


def _difference(
    graph: QuantizedGraph, node: Node, wanted: Array, found: Array
) -> Iterator[Difference]:
    made = np.asarray(found).reshape(wanted.shape)
    if node.kind == "fix":
        zero, scale = node.quantization.zero_point[0], node.quantization.scale[0]
        if made.dtype.kind == "f":
            made = np.rint(made.astype(np.float64) / scale) + zero
        distance = np.abs(made.astype(np.float64) - wanted)
        allowed = 0.0
    else:
        distance = np.abs(made.astype(np.float64) - wanted)
        allowed = TOLERANCE * max(1.0, float(np.abs(wanted).max(initial=0)))
    count = int((~(distance <= allowed)).sum())
    if count:
        op = graph[node.inputs["input"][0]] if node.kind == "fix" else node
        yield Difference(
            output_name(graph, node.name) if node.name in graph.outputs else op.name, op.kind,
            str(op.origin) if op.origin.name else "", count, distance.size, float(distance.max()),
        )  # fmt: skip


def _on_device(
    graph: QuantizedGraph, inputs: Mapping[str, Array], target: Target, device: str
) -> dict[str, Array]:
    """Return the outputs of the compiled graph, by op."""
    compiled = compile_with_report(graph, target).graph
    with GraphRunner(compiled, device=device) as runner:
        results, _ = run_batch(runner, inputs, floats=True)
    shown = {output_name(graph, name): name for name in graph.outputs}
    return {shown.get(name, name): array for name, array in results.items()}


def _of_file(
    graph: QuantizedGraph, model: onnx.ModelProto, inputs: Mapping[str, Array]
) -> dict[str, Array]:
    """Return what a model that :func:`opendpu.export.to_onnx` made gives, by op of the graph."""
    order, first = graph.attrs.get(ORDER, {}), channels_first(model)
    shown = {output_name(graph, name): name for name in graph.outputs}
    made = {value for node in model.graph.node for value in node.output}
    inner = [name for name in computed_fixes(graph) if name in made]
    session = open_session(with_outputs(model, inner))
    feeds = {}
    for name, array in inputs.items():
        axes = order.get(name)
        back = None if axes is None else [axes.index(a) for a in range(len(axes))]
        feeds[name] = array if back is None else np.ascontiguousarray(array.transpose(back))
    names = [str(item.name) for item in session.get_outputs()]
    results = dict(zip(names, session.run(names, feeds), strict=True))
    found = {}
    for name, array in results.items():
        node = shown.get(name, name)
        if name in order:
            array = array.transpose(order[name])
        elif name in first:
            array = array.transpose(0, 2, 3, 1)
        found[node] = array
    return found
