# SPDX-License-Identifier: Apache-2.0
"""ONNX models that are quantized with scales that the DPU does not compute with, without them.

A pair of QuantizeLinear and DequantizeLinear says which numbers a tensor can hold. Of the float
network that is left, or the one with powers of two instead, quantizers rely on two things that a
pair did: they leave out ReLU and ReLU6 in front of one whose range begins at 0 or ends at 6.
"""

import dataclasses
import enum
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.def_use import with_origin
from opendpu.frontend.model_file import reads
from opendpu.ir import Array
from opendpu.ops.quantizing import (
    DEQUANTIZE,
    FIX_NEURON,
    LARGEST,
    NNDCT,
    NNDCT_HALF_UP,
    QUANTIZE,
)

RELU6, NEAR = 6.0, 0.02
"""End of ReLU6, and how far from it a range may end; integers do not hold it exactly."""
NONNEGATIVE = frozenset((
    "Abs", "ArgMax", "ArgMin", "Exp", "HardSigmoid", "Relu", "Shape", "Sigmoid", "Size", "Softmax",
    "Softplus", "Sqrt",
))  # fmt: skip
"""Operators without negative results."""
KEEPING = frozenset((
    "Add", "AveragePool", "Cast", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten",
    "Gather", "GlobalAveragePool", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Mul", "Pad",
    "ReduceMax", "ReduceMean", "ReduceSum", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze", "Upsample",
))  # fmt: skip
"""Operators without negative results where no operand, constants aside, has negative numbers."""


class Requantize(enum.StrEnum):
    """What becomes of a file whose scales the DPU does not compute with."""

    NO = "no"
    """They stay: the DPU computes what it can."""
    DATA = "data"
    """The float network of its weights, to be quantized with samples."""
    RANGES = "ranges"
    """A quantized network: every range in the file gets the power of two that holds it."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """Scale, zero point and limits of integers; ``axis`` counts where there is a scale a channel.

    Parameters
    ----------
    scale, zero
        Scalars, or arrays of one axis.
    low, high
        The least and the largest integer.
    axis
        That of the tensor which the scales are along.
    """

    scale: Array
    zero: Array
    low: int
    high: int
    axis: int

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest real number."""
        scale, zero = float(self.scale.max()), int(np.ravel(self.zero)[0])
        return (self.low - zero) * scale, (self.high - zero) * scale

    @property
    def is_dpus(self) -> bool:
        """Whether the DPU computes with it: 8 bits, one power of two, zero stands for zero."""
        one = self.scale.size == 1 and self.high - self.low <= 2 * LARGEST + 1
        centre = 0 if self.low < 0 else LARGEST + 1
        return one and int(np.ravel(self.zero)[0]) == centre and _is_power(float(self.scale.max()))

    @property
    def point(self) -> int:
        """Fractional bits at which 8 bits hold the range."""
        if self.is_dpus:
            return 1 - math.frexp(float(self.scale.max()))[1]
        return math.floor(math.log2((LARGEST + 0.5) / max(map(abs, self.range))))

    def integers(self, real: Array) -> Array:
        """Return real numbers as integers, halves to even."""
        scale, zero = (self._spread(numbers, real) for numbers in (self.scale, self.zero))
        return np.asarray(np.clip(np.rint(real / scale) + zero, self.low, self.high))

    def real(self, integers: Array) -> Array:
        """Return what integers stand for."""
        scale, zero = (self._spread(numbers, integers) for numbers in (self.scale, self.zero))
        limited = np.clip(integers.astype(np.float64), self.low, self.high)
        return np.asarray((limited - zero) * scale, np.float32)

    def _spread(self, numbers: Array, like: Array) -> Array:
        shape = [1] * like.ndim
        if numbers.size > 1:
            shape[self.axis if like.ndim > 1 else 0] = numbers.size
        return np.reshape(numbers.astype(np.float64), shape)


def requantized(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], inputs: Iterable[str],
    outputs: Iterable[str], mode: Requantize,
) -> list[onnx.NodeProto]:  # fmt: skip
    """Return nodes without pairs whose scales are not the DPU's; constants take what was stored.

    A model that the DPU computes with as it is keeps its pairs.

    Parameters
    ----------
    nodes
        Those of a model, in order.
    constants
        Weights by name; what pairs make of some is added.
    inputs, outputs
        Names of the model's own.
    mode
        Whether pairs become nothing, or roundings with a power of two.
    """
    model = _Model(nodes, constants, set(inputs))
    pairs = {id(node): pair for node in nodes if (pair := model.pair(node)) is not None}
    if all(pair.is_dpus for pair in pairs.values()):
        return list(nodes)
    made: list[onnx.NodeProto] = []
    for node in nodes:
        pair = pairs.get(id(node))
        if pair is None:
            model.follow(node)
            made.append(node)
        elif pair.stored is not None:
            constants[node.output[0]] = pair.stored
        else:
            made += model.replaced(node, pair, rounds=mode is Requantize.RANGES)
    return _without_unread(made, outputs)


def has_other_scales(nodes: Sequence[onnx.NodeProto], constants: dict[str, Array]) -> bool:
    """Return whether some pairs have scales that the DPU does not compute with."""
    model = _Model(nodes, constants, set())
    return not all(pair.is_dpus for node in nodes if (pair := model.pair(node)) is not None)


def quantized_ranges(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Array]
) -> dict[str, tuple[float, float]]:
    """Return the range of each computed tensor that a pair rounds."""
    model = _Model(nodes, constants, set())
    pairs = [pair for node in nodes if (pair := model.pair(node)) is not None]
    return {pair.source: pair.grid.range for pair in pairs if pair.stored is None}


def _without_unread(
    nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]
) -> list[onnx.NodeProto]:
    """Return nodes without those halves of pairs whose integers nobody reads any more."""
    uses = Counter(name for node in nodes for name in reads(node))
    uses.update(outputs)
    kept = []
    for node in reversed(nodes):
        half = node.op_type in QUANTIZE or node.op_type == "Clip"
        if half and not any(uses[name] for name in node.output):
            uses.subtract(reads(node))
        else:
            kept.append(node)
    return kept[::-1]


@dataclasses.dataclass(frozen=True)
class _Pair:
    """What is rounded, and how; the numbers where they are known."""

    source: str
    grid: Grid
    stored: Array | None

    @property
    def is_dpus(self) -> bool:
        """Whether the DPU computes with it; biases of 32 bits get others anyway.

        It saturates at the ends of 8 bits, so that fewer would take a minimum and a maximum.
        """
        if self.stored is not None:
            return self.grid.is_dpus or self.grid.high > 2 * LARGEST + 1
        return self.grid.is_dpus and self.grid.high - self.grid.low == 2 * LARGEST + 1


class _Model:
    """What is known of tensors while nodes are gone through, in order."""

    def __init__(
        self, nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], inputs: set[str]
    ) -> None:
        self.constants, self.known = constants, dict(constants)
        for node in nodes:
            if node.op_type == "Constant" and len(node.attribute) == 1:
                value = helper.get_attribute_value(node.attribute[0])
                if isinstance(value, onnx.TensorProto):
                    value = numpy_helper.to_array(value)
                self.known[node.output[0]] = np.asarray(value)
        self.producers = {name: node for node in nodes for name in node.output}
        self.inputs = inputs
        self.nonnegative: set[str] = set()

    def pair(self, node: onnx.NodeProto) -> _Pair | None:
        """Return what DequantizeLinear ends; nothing where that, or its scale, is not known."""
        if node.op_type not in DEQUANTIZE or node.domain == NNDCT:
            return None
        before, limits = node.input[0], (-math.inf, math.inf)
        clip = self.producers.get(before)
        if clip is not None and clip.op_type == "Clip" and before not in self.known:
            bounds = [self.known.get(name) for name in clip.input[1:]]
            if len(bounds) != 2 or any(bound is None for bound in bounds):
                return None
            limits = (float(np.max(bounds[0])), float(np.min(bounds[1])))  # type: ignore[arg-type]
            before = clip.input[0]
        stored = self.known.get(before)
        grid = self._grid(node, stored, limits)
        if grid is None:
            return None
        if stored is not None:
            return _Pair(before, grid, grid.real(stored))
        quantize = self.producers.get(before)
        if quantize is None or quantize.op_type not in QUANTIZE or quantize.domain == NNDCT:
            return None
        source = quantize.input[0]
        real = self.known.get(source)
        return _Pair(source, grid, None if real is None else grid.real(grid.integers(real)))

    def _grid(
        self, node: onnx.NodeProto, stored: Array | None, limits: tuple[float, float]
    ) -> Grid | None:
        scale = self.known.get(node.input[1])
        zero_name = node.input[2] if len(node.input) > 2 else ""
        zero = self.known.get(zero_name) if zero_name else None
        if scale is None or scale.ndim > 1 or (zero_name and zero is None):
            return None
        if not scale.size or not np.isfinite(scale).all() or (scale <= 0).any():
            return None
        if zero is None:
            zero = np.zeros(scale.shape, np.uint8 if stored is None else stored.dtype)
        if zero.dtype.kind not in "iu":
            return None  # integers of 4 bits, floats of 8: as the model has them
        kind = np.iinfo(zero.dtype)
        low, high = max(float(kind.min), limits[0]), min(float(kind.max), limits[1])
        axes = [item.i for item in node.attribute if item.name == "axis"]
        return Grid(scale, zero, int(low), int(high), int(axes[0]) if axes else 1)

    def follow(self, node: onnx.NodeProto) -> None:
        """Note whether a node has no negative results."""
        given = [name for name in node.input if name and name not in self.known]
        fixed = [name for name in node.input if name in self.known]
        kept = node.op_type in KEEPING and self.nonnegative.issuperset(given) and all(
            self.known[name].dtype.kind not in "fiub" or not (self.known[name] < 0).any()
            for name in (fixed if node.op_type in ("Add", "Concat", "Max", "Mul", "Pad") else ())
        )  # fmt: skip
        if node.op_type in NONNEGATIVE or (kept and given) or self._is_clip(node):
            self.nonnegative.update(node.output)

    def _is_clip(self, node: onnx.NodeProto) -> bool:
        if node.op_type != "Clip":
            return False
        low = self.known.get(node.input[1]) if len(node.input) > 1 else None
        old = [item.f for item in node.attribute if item.name == "min"]
        return (low is not None and bool((low >= 0).all())) or any(value >= 0 for value in old)

    def replaced(self, node: onnx.NodeProto, pair: _Pair, *, rounds: bool) -> list[onnx.NodeProto]:
        """Return what stands for a pair: the ReLU that it was, and a rounding if wanted."""
        output, value = node.output[0], pair.source
        low, high = pair.grid.range
        made: list[onnx.NodeProto] = []

        def op(op_type: str, *given: str, domain: str = "") -> str:
            name = f"{output}/{op_type.lower()}"
            step = helper.make_node(op_type, [value, *given], [name], name, domain=domain)
            made.append(with_origin(step, node))
            return name

        if low >= 0 and value not in self.inputs:
            six = abs(high - RELU6) <= NEAR * RELU6
            if six:
                value = op("Clip", *self._numbers(output, 0.0, RELU6))
            elif value not in self.nonnegative:
                value = op("Relu")
        if rounds:
            factor = math.ldexp(1.0, pair.grid.point)
            names = self._numbers(output, float(LARGEST), factor)
            method = self._constant(f"{output}/method", np.array([NNDCT_HALF_UP], np.int64))
            value = op(FIX_NEURON, *names, method, domain=NNDCT)
        if not made:
            value = op("Identity")
        made[-1].output[0] = output
        if low >= 0 and value not in self.inputs:
            self.nonnegative.add(output)
        return made

    def _numbers(self, output: str, *numbers: float) -> list[str]:
        return [
            self._constant(f"{output}/number{at}", np.array(number, np.float32))
            for at, number in enumerate(numbers)
        ]

    def _constant(self, name: str, value: Array) -> str:
        while name in self.known:
            name += "_"
        self.constants[name] = self.known[name] = value
        return name


def _is_power(scale: float) -> bool:
    return math.frexp(scale)[0] == 0.5
