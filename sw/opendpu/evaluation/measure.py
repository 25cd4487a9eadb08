# SPDX-License-Identifier: Apache-2.0
"""Every quantized tensor and layer measured: the quantized network against the float one."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from opendpu.ir import Array, FloatGraph, Node, QuantizedGraph
from opendpu.ir.types import FLOAT32
from opendpu.ops import SOURCES, operator_of
from opendpu.ops.formats import fake_quantize
from opendpu.quantize.executor import evaluate
from opendpu.quantize.layers import is_layer, parameters_of
from opendpu.quantize.report import LayerReport, Report, TensorHistogram, TensorReport
from opendpu.quantize.samples import Samples

SAMPLES = 8
"""Samples that are looked at by default."""

BINS = 64
"""Bins of a histogram."""


def measure(
    report: Report,
    quantized: QuantizedGraph,
    reference: FloatGraph,
    samples: Samples,
    *,
    count: int = SAMPLES,
    show: Callable[[str], None] = lambda text: None,
) -> Report:
    """Return a report with what can be measured, where the quantizer left it out.

    Parameters
    ----------
    report
        Of the quantizer.
    quantized, reference
        The quantized network, and the float one after all transformations: ops have the same names.
    samples
        Inputs.
    count
        How many of them are looked at.
    show
        Told what is going on.
    """
    count = min(count, samples.count)
    work = _Measured(quantized, reference, samples, count)
    show(f"measuring layers on {count} samples")
    work.energies()
    if not report.tensors:
        show("counting values")
        work.histograms()
    return dataclasses.replace(
        report,
        tensors=report.tensors or [*work.constants(), *work.activations()],
        layers=report.layers or work.layers(),
        outputs_sqnr=report.outputs_sqnr or work.outputs_sqnr(),
        measured_samples=report.measured_samples or count,
    )


@dataclasses.dataclass
class _Tensor:
    """What is added up of one tensor."""

    signal: float = 0.0
    noise: float = 0.0
    """Of the whole quantized network."""
    own: float = 0.0
    """Of its own rounding."""
    low: float = math.inf
    high: float = -math.inf
    outside: int = 0
    size: int = 0
    counts: Array | None = None

    def add(self, wanted: Array, found: Array | None, rounded: Array | None) -> None:
        """Take values in: real ones, those of the quantized network, and those rounded alone."""
        self.signal += _energy(wanted)
        self.low = min(self.low, float(wanted.min(initial=math.inf)))
        self.high = max(self.high, float(wanted.max(initial=-math.inf)))
        self.size += wanted.size
        if found is not None:
            self.noise += _energy(found - wanted)
        if rounded is not None:
            self.own += _energy(rounded - wanted)

    def count(self, values: Array) -> None:
        """Count values in bins between the smallest and the largest."""
        made, _ = np.histogram(values, BINS, self.range())
        self.counts = made if self.counts is None else self.counts + made

    def range(self) -> tuple[float, float]:
        """Return the smallest and largest value, different from each other."""
        return (self.low, self.high) if self.low < self.high else (self.low - 0.5, self.low + 0.5)

    def histogram(self) -> TensorHistogram | None:
        """Return what was counted."""
        if self.counts is None:
            return None
        return TensorHistogram(*self.range(), tuple(int(n) for n in self.counts))


class _Measured:
    """Sums over samples, by tensor."""

    def __init__(
        self, quantized: QuantizedGraph, reference: FloatGraph, samples: Samples, count: int
    ) -> None:
        self.quantized, self.reference = quantized, reference
        self.samples, self.count = samples, count
        self.fixes = [n for n in quantized if n.kind == "fix"]
        self.computed = [n for n in self.fixes if quantized[n.sources()[0]].value is None]
        self.outputs = [n for n in reference.outputs if reference[n].type.dtype == FLOAT32]
        self.tensors: dict[str, _Tensor] = {}
        self.ends = {name: _Tensor() for name in self.outputs}

    def energies(self) -> None:
        """Run both networks, and add up signals and noises."""
        names = list(dict.fromkeys([*(n.sources()[0] for n in self.computed), *self.outputs]))
        behind = {n.sources()[0]: n.name for n in self.computed}
        ends = dict(zip(self.reference.outputs, self.quantized.outputs, strict=True))
        found = list(dict.fromkeys([behind.get(n) or ends[n] for n in names]))
        self.tensors = {node.name: _Tensor() for node in self.computed}
        runs = zip(self._run(self.reference, names), self._run(self.quantized, found), strict=True)
        for wanted, made in runs:
            for node in self.computed:
                (source,) = node.sources()
                tensor, value = self.tensors[node.name], wanted[source]
                tensor.add(value, made[node.name], _rounded(value, node))
                tensor.outside += _outside(value, node)
            for name in self.outputs:
                self.ends[name].add(wanted[name], made[behind.get(name) or ends[name]], None)

    def histograms(self) -> None:
        """Run the float network once more, and count values between the limits that are known."""
        names = [node.sources()[0] for node in self.computed]
        for results in self._run(self.reference, names):
            for node in self.computed:
                self.tensors[node.name].count(results[node.sources()[0]])

    def constants(self) -> list[TensorReport]:
        """Return what became of weights, biases and other constants."""
        roles = _roles(self.quantized)
        found = []
        for node in self.fixes:
            (source,) = node.sources()
            stored = self.quantized[source].value
            if stored is None:
                continue
            real = self.reference[source].value if source in self.reference.nodes else stored
            assert real is not None
            tensor = _Tensor()
            tensor.add(real, None, stored)
            tensor.outside = _outside(real, node)
            tensor.count(real)
            role, layer = roles.get(node.name, ("activation", source))
            found.append(_tensor_report(node, source, role, layer, tensor))
        return found

    def activations(self) -> list[TensorReport]:
        """Return what became of computed tensors."""
        found = []
        for node in self.computed:
            (source,) = node.sources()
            role = "input" if self.quantized[source].kind in SOURCES else "activation"
            found.append(_tensor_report(node, source, role, source, self.tensors[node.name]))
        return found

    def layers(self) -> list[LayerReport]:
        """Return the results of the quantized network against those of the float one."""
        weights = {
            layer.name: _of_weights(self.quantized, self.reference, layer)
            for layer in self.quantized
            if is_layer(layer)
        }
        found = []
        for node in self.computed:
            op = self.quantized[node.sources()[0]]
            if op.kind in SOURCES:
                continue
            layer = _layer_of(self.quantized, op)
            tensor = self.tensors[node.name]
            origin = str(op.origin) if op.origin.name else ""
            found.append(
                LayerReport(
                    op.name, op.kind if layer is None else layer.kind, origin,
                    None if layer is None else weights[layer.name],
                    _ratio(tensor.signal, tensor.noise),
                )
            )  # fmt: skip
        return found

    def outputs_sqnr(self) -> dict[str, float | None]:
        """Return signal to noise by output."""
        return {name: _ratio(one.signal, one.noise) for name, one in self.ends.items()}

    def _run(
        self, graph: FloatGraph | QuantizedGraph, names: Sequence[str]
    ) -> Iterator[dict[str, Array]]:
        for _, results in evaluate(graph, names, self.samples, batch=1, stop=self.count):
            yield results


def _tensor_report(node: Node, source: str, role: str, layer: str, tensor: _Tensor) -> TensorReport:
    made = node.quantization
    return TensorReport(
        name=source, role=role, layer=layer, number_format=str(made.number_format), bits=made.bits,
        scale=made.scale if made.number_format == "int" else (), minimum=tensor.low,
        maximum=tensor.high, saturation=tensor.outside / max(tensor.size, 1),
        sqnr=_ratio(tensor.signal, tensor.own), histogram=tensor.histogram(),
    )  # fmt: skip


def _rounded(values: Array, fix: Node) -> Array:
    return fake_quantize(values, fix.quantization)


def _outside(values: Array, fix: Node) -> int:
    """Return how many values lie beyond what integers can stand for, by half a step or more."""
    made = fix.quantization
    if made.number_format != "int":
        return 0
    low, high = made.limits
    shape = [-1 if axis == made.axis else 1 for axis in range(values.ndim)]
    scale = np.array(made.scale).reshape(shape if len(made.scale) > 1 else [1] * values.ndim)
    zero = np.array(made.zero_point)
    zero = zero.reshape(shape if zero.size > 1 else [1] * values.ndim)
    scaled = values / scale + zero
    return int(np.count_nonzero((scaled < low - 0.5) | (scaled >= high + 0.5)))


def _roles(graph: QuantizedGraph) -> dict[str, tuple[str, str]]:
    """Return role and layer of the ``fix`` behind each weight and bias."""
    found = {}
    for node in graph:
        if is_layer(node):
            arguments = parameters_of(node)
            for arg, role in ((arguments.weights, "weights"), (arguments.bias, "bias")):
                for name in node.inputs.get(arg, ()):
                    found[name] = (role, node.name)
    return found


def _of_weights(graph: QuantizedGraph, reference: FloatGraph, layer: Node) -> float | None:
    """Return the signal to noise of a layer's weights."""
    fix = graph[layer.inputs[parameters_of(layer).weights][0]]
    if fix.kind != "fix":
        return None
    (source,) = fix.sources()
    stored = graph[source].value
    real = reference[source].value if source in reference.nodes else None
    if stored is None or real is None:
        return None
    return _ratio(_energy(real), _energy(stored - real))


def _layer_of(graph: QuantizedGraph, op: Node) -> Node | None:
    """Return the layer that makes a result: the op itself, or the one before its activation."""
    if is_layer(op):
        return op
    before = [graph[name] for name in op.inputs.get("input", ())]
    if len(before) == 1 and is_layer(before[0]) and op.kind in operator_of(before[0]).fuses:
        return before[0]
    return None


def _energy(array: Array) -> float:
    return float(np.square(array, dtype=np.float64).sum())


def _ratio(signal: float, noise: float) -> float | None:
    if not noise:
        return None
    return 10 * math.log10(signal / noise) if signal else -math.inf
