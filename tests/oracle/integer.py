# SPDX-License-Identifier: Apache-2.0
"""What the DPU computes for a quantized graph: integers, op by op, from a description of its
arithmetic alone.

Every ``fix`` op closes a group: the ops since the last ``fix`` run on integers with one rounding
in the end. Ops that the DPU does not have are computed in float between two ``fix`` ops, as the
CPU does.
"""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import xir
from opendpu.ir import Graph, Node, Rounding, from_xir
from opendpu_arch.errors import GraphError
from oracle import engines
from oracle.floating import check_inputs, compute, round_by

Array = npt.NDArray[Any]

ACTIVATIONS = ("relu", "relu6", "leaky-relu")
"""Ops that may stand between an engine's accumulator and its rounding."""

CHUNK = 64
"""Samples that are evaluated at a time, so that memory stays small."""

SHAPING = (
    "reshape", "flatten", "squeeze", "transpose", "strided_slice", "concat", "gstiling", "reorg",
    "pixel-shuffle",
)  # fmt: skip
"""Ops that only move elements."""


@dataclasses.dataclass(frozen=True)
class Fixed:
    """Integers and their number of fractional bits: the real value is ``data / 2**point``."""

    data: npt.NDArray[np.int64]
    point: int
    points: npt.NDArray[np.int64] | None = None
    """Of a constant whose output channels have a number each; ``point`` is then the least."""
    axis: int = 0
    """That these are along."""

    def by_channel(self, channels: int) -> npt.NDArray[np.int64]:
        """Return the number for each of so many output channels."""
        found = np.array([self.point]) if self.points is None else self.points
        return np.broadcast_to(found, (channels,))

    def real(self) -> npt.NDArray[np.float32]:
        """Return the float values."""
        if self.points is None:
            return (self.data * 2.0**-self.point).astype(np.float32)
        last = np.moveaxis(self.data, self.axis, -1) * 2.0**-self.points
        return np.moveaxis(last, -1, self.axis).astype(np.float32)


def evaluate(
    graph: Graph | xir.Graph,
    inputs: Mapping[str, Array],
    *,
    keep: Collection[str] | None = None,
) -> dict[str, Array]:
    """Compute a quantized graph as the DPU does.

    Parameters
    ----------
    graph
        Quantized graph: float tensors with ``fix`` ops. Its batch is 1.
    inputs
        One array for each ``data`` op, by name, with any batch size in front. Integers are taken
        as the input's quantized values, floats are quantized by its ``fix``.
    keep
        Names of the ops whose results to return; the outputs if not given.

    Returns
    -------
    int8 arrays for ``fix`` ops and float32 arrays for all others, by op name.

    Raises
    ------
    TensorError
        An input is missing, unknown, or has the wrong shape.
    GraphError
        A ``fix`` that is not of 8 signed bits, or positions that the DPU cannot shift between.
    UnsupportedError
        An op that has no evaluation.
    """
    graph = from_xir(graph) if isinstance(graph, xir.Graph) else graph
    wanted = list(graph.outputs if keep is None else keep)
    heads = check_inputs(graph, inputs)
    integers = {name for name, array in inputs.items() if np.asarray(array).dtype.kind in "iu"}
    count = min((array.shape[0] for array in heads.values()), default=1)
    parts = []
    for start in range(0, max(count, 1), CHUNK):
        chunk = {name: array[start : start + CHUNK] for name, array in heads.items()}
        run = _Run(graph, chunk, integers)
        parts.append([run.result(name) for name in wanted])
    varying = _varying(graph)
    return {
        name: np.concatenate(arrays) if name in varying else arrays[0]
        for name, arrays in zip(wanted, zip(*parts, strict=True), strict=True)
    }


def _varying(graph: Graph) -> set[str]:
    """Return the ops whose results depend on the inputs."""
    found: set[str] = set()
    for node in graph:
        if node.kind == "data" or not found.isdisjoint(node.sources()):
            found.add(node.name)
    return found


class _Run:
    """One evaluation: results so far, by op name."""

    def __init__(self, graph: Graph, heads: Mapping[str, Array], integers: set[str]) -> None:
        self.graph = graph
        self.heads = heads
        self.integers = integers
        self._fixed: dict[str, Fixed] = {}
        self._real: dict[str, Array] = {}
        for node in graph:  # inputs first, so that nothing recurses deeply
            if node.kind == "fix":
                self.fixed(node.name)

    def result(self, name: str) -> Array:
        """Return what :func:`evaluate` gives for an op."""
        if self.graph[name].kind == "fix":
            return self.fixed(name).data.astype(np.int8)
        return self.real(name)

    def real(self, name: str) -> Array:
        """Return the float result of an op, computed from the last ``fix`` ops before it."""
        if name not in self._real:
            node = self.graph[name]
            if node.kind == "fix":
                return self.fixed(name).real()
            if node.kind == "data":
                self._real[name] = self.heads[name]
            elif node.value is not None:
                self._real[name] = node.value
            else:
                given = {arg: [self.real(n) for n in names] for arg, names in node.inputs.items()}
                self._real[name] = compute(node, given)
        return self._real[name]

    def fixed(self, name: str) -> Fixed:
        """Return the integer result of a ``fix`` op."""
        if name not in self._fixed:
            node = self.graph[name]
            if node.quantization.bits != 8 or not node.quantization.signed:
                sign = "signed" if node.quantization.signed else "unsigned"
                raise GraphError(
                    f"fix op {name!r} has {node.quantization.bits} {sign} bits, "
                    "but must have 8 signed bits"
                )
            source = node.inputs["input"][0]
            if node.quantization.axis is not None:
                self._fixed[name] = self._constant(node)
                return self._fixed[name]
            self._fixed[name] = self._close(source, node.fix_point, node.quantization.rounding)
        return self._fixed[name]

    def _constant(self, fix: Node) -> Fixed:
        """Return a constant whose channels have positions of their own."""
        value, axis = self.graph[fix.inputs["input"][0]].value, fix.quantization.axis
        assert value is not None and axis is not None, fix.name
        points = np.array([-int(np.log2(scale)) for scale in fix.quantization.scale])
        last = np.moveaxis(value.astype(np.float64), axis, -1) * 2.0**points
        data = engines.saturate(round_by(last, fix.quantization.rounding))
        return Fixed(np.moveaxis(data, -1, axis), int(points.min()), points, axis)

    def _close(self, name: str, point: int, rounding: Rounding) -> Fixed:
        """Return what an op gives when its result is rounded to ``point`` fractional bits."""
        node = self.graph[name]
        if node.kind == "fix":
            source = self.fixed(name)
            return Fixed(engines.move(source.data, source.point, point), point)
        if node.kind == "data" and name in self.integers:
            return Fixed(self.heads[name].astype(np.int64), point)
        activation: Node | None = None
        if node.kind in ACTIVATIONS:
            before = self.graph[node.inputs["input"][0]]
            if before.kind in engines.FUSING.get(node.kind, ()) and self._ready(before):
                activation, node = node, before
        data = self._engine(node, activation, point, rounding)
        if data is None:
            scaled = self.real(name).astype(np.float64) * 2.0**point
            data = engines.saturate(round_by(scaled, rounding))
        return Fixed(data, point)

    def _ready(self, node: Node) -> bool:
        """Return whether every input of an op is integer."""
        return all(self.graph[name].kind == "fix" for name in node.sources())

    def _engine(
        self, node: Node, activation: Node | None, point: int, rounding: Rounding
    ) -> Array | None:
        """Return the integers that an engine computes, or nothing if there is none for the op."""
        if node.kind == "concat":
            return self._concat(node, point, rounding)
        if not node.sources() or not self._ready(node):
            return None
        given = {arg: [self.fixed(n) for n in names] for arg, names in node.inputs.items()}
        sources = given.get("input", [])
        if not sources:
            return None
        x = sources[0]
        kind = activation.kind if activation else None
        alpha = activation.attrs.get("alpha") if activation else None
        if kind is not None and not engines.has_activation(kind, point, alpha):
            return None
        function = engines.activation(kind, point, alpha)
        match node.kind:
            case layer if layer in engines.LAYERS and self._has_weights(node):
                weights = given["weights"][0] if "weights" in given else sources[1]
                bias = given["bias"][0] if given.get("bias") else None
                total = engines.sums(node, x.data, weights.data)
                if weights.points is not None or (bias and bias.points is not None):
                    channels = total.shape[-1]
                    return engines.layer_by_channel(
                        node.name, total, bias.data if bias else None, x.point,
                        weights.by_channel(channels), bias.by_channel(channels) if bias else None,
                        point, function,
                    )  # fmt: skip
                shifts = engines.layer_shifts(
                    node.name, x.point, weights.point, bias.point if bias else None, point
                )
                return engines.layer(total, bias.data if bias else None, shifts, function)
            case "add":
                return engines.add(
                    [s.data for s in sources], [s.point for s in sources], point, function
                )
            case "mul" if len(sources) == 2:
                return engines.multiply(
                    [s.data for s in sources], [s.point for s in sources], point, function
                )
            case "maxpool2d" | "reduction_max":
                return engines.max_pool(node, x.data, x.point, point)
            case "avgpool2d" | "reduction_mean" if x.data.ndim == 4 and engines.averages(
                node, x.data
            ):
                return engines.average_pool(node, x.data, x.point, point)
            case "relu" | "leaky-relu" if engines.has_activation(
                node.kind, point, node.attrs.get("alpha")
            ):
                return engines.alone(node, x.data, x.point, point)
            case "prelu":
                slope = given["weight"][0]
                return engines.prelu(x.data, slope.data, x.point, slope.point, point)
            case "hard-sigmoid":
                return engines.hard_sigmoid(x.data, x.point, point)
            case shaping if shaping in SHAPING:
                moved = compute(node, {"input": [x.data.astype(np.float32)]})
                return engines.move(moved.astype(np.int64), x.point, point)
            case "pad" if node.attrs["mode"] == "CONSTANT":
                return self._pad(node, x, point)
            case "resize" if node.attrs["mode"] == "NEAREST":
                moved = compute(node, {"input": [x.data.astype(np.float32)]})
                return engines.move(moved.astype(np.int64), x.point, point)
        return None

    def _has_weights(self, node: Node) -> bool:
        """Return whether an op of a layer's kind multiplies by constants, as engines do."""
        if node.kind != "matmul":
            return True
        right = self.graph[node.inputs["input"][1]]
        constant = self.graph[right.inputs["input"][0]].value is not None
        return constant and not node.attrs.get("transpose_a")

    def _concat(self, node: Node, point: int, rounding: Rounding) -> Array | None:
        """Join inputs; one without its own ``fix`` is rounded to the position of the result."""
        parts = [
            engines.move(self.fixed(name).data, self.fixed(name).point, point)
            if self.graph[name].kind == "fix"
            else self._close(name, point, rounding).data
            for name in node.inputs["input"]
        ]
        batch = max(part.shape[0] for part in parts)
        whole = [np.broadcast_to(part, (batch, *part.shape[1:])) for part in parts]
        return np.concatenate(whole, axis=node.attrs["axis"])

    def _pad(self, node: Node, x: Fixed, point: int) -> Array:
        amounts = np.reshape(node.attrs["paddings"], (-1, 2)).tolist()
        values = node.attrs.get("constant_values") or [0.0]
        fill = int(engines.saturate(np.floor(np.array(values[0] * 2.0**x.point + 0.5))))
        return engines.move(np.pad(x.data, amounts, constant_values=fill), x.point, point)
