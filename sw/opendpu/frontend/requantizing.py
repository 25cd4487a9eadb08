# SPDX-License-Identifier: Apache-2.0
"""ONNX models that are quantized with scales that the DPU does not compute with, without them.

A pair of QuantizeLinear and DequantizeLinear says which numbers a tensor can hold. Of the float
network that is left, or the one with powers of two instead, quantizers rely on two things that a
pair did: they leave out ReLU and ReLU6 in front of one whose range begins at 0 or ends at 6.
"""

import enum
import math
from collections.abc import Iterable, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import with_origin, without_unread
from opendpu.frontend.qdq_pairs import Pair, Pairs
from opendpu.ir import Array, Graph, Node
from opendpu.ops.quantizing import DEQUANTIZE, FIX_NEURON, LARGEST, NNDCT, NNDCT_HALF_UP, QUANTIZE

RELU6, NEAR = 6.0, 0.02
"""End of ReLU6, and how far from it a range may end; integers do not hold it exactly."""
NONNEGATIVE = frozenset((
    "Abs", "ArgMax", "ArgMin", "Exp", "HardSigmoid", "Relu", "Shape", "Sigmoid", "Size", "Softmax",
    "Softplus", "Sqrt",
))  # fmt: skip
"""Operators without negative results."""
MOVING = frozenset((
    "AveragePool", "Cast", "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather",
    "GlobalAveragePool", "GlobalMaxPool", "Identity", "Max", "MaxPool", "Pad", "ReduceMax",
    "ReduceMean", "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
    "Unsqueeze", "Upsample",
))  # fmt: skip
"""Operators whose results are between the least and the largest number that they are given."""
GROWING = frozenset(("Add", "Mul", "ReduceSum"))
"""Operators without negative results where they are given none."""
TAKING = frozenset(("Add", "Concat", "Max", "Mul", "Pad"))
"""Of these, those that take numbers from constants; others have only sizes and places there."""


LEFT = (
    "{count} operators quantize with scales that the target does not compute with, the first "
    "{first!r}: they cut the network and stay on the CPU (--requantize takes them out)"
)


class Requantize(enum.StrEnum):
    """What becomes of a file whose scales the DPU does not compute with."""

    NO = "no"
    """They stay: the DPU computes what it can."""
    DATA = "data"
    """The float network of its weights, to be quantized with samples."""
    RANGES = "ranges"
    """A quantized network: every range in the file gets the power of two that holds it."""

    @classmethod
    def chosen(cls, *, wanted: bool, has_samples: bool) -> "Requantize":
        """Return what becomes of a file where its scales may change, or may not."""
        if not wanted:
            return cls.NO
        return cls.DATA if has_samples else cls.RANGES


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
    pairs = Pairs(nodes, constants)
    found = _found(nodes, pairs)
    if all(pair.is_dpus for pair in found.values()):
        return list(nodes)
    rewriting = _Rewriting(constants, pairs.known, set(inputs))
    made: list[onnx.NodeProto] = []
    for node in nodes:
        pair = found.get(id(node))
        if pair is None:
            rewriting.follow(node)
            made.append(node)
        elif pair.stored is not None:
            constants[node.output[0]] = pair.stored
        else:
            made += rewriting.replaced(node, pair, rounds=mode is Requantize.RANGES)
    return without_unread(made, outputs, _is_half)


def has_other_scales(nodes: Sequence[onnx.NodeProto], constants: dict[str, Array]) -> bool:
    """Return whether some pairs have scales that the DPU does not compute with."""
    return not all(pair.is_dpus for pair in _found(nodes, Pairs(nodes, constants)).values())


def quantized_ranges(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Array]
) -> dict[str, tuple[float, float]]:
    """Return the range of each computed tensor that a pair rounds."""
    found = _found(nodes, Pairs(nodes, constants)).values()
    return {pair.source: pair.range for pair in found if pair.stored is None}


def left_quantizers(graph: Graph) -> list[Node]:
    """Return operators that quantize with scales that are not the DPU's; they are the CPU's."""
    kinds = (*QUANTIZE, *DEQUANTIZE)
    return [node for node in graph if node.reason and node.origin.op_type in kinds]


def _found(nodes: Sequence[onnx.NodeProto], pairs: Pairs) -> dict[int, Pair]:
    """Return the pairs of a model by the identity of the node that ends each."""
    return {id(node): pair for node in nodes if (pair := pairs.at(node)) is not None}


def _is_half(node: onnx.NodeProto) -> bool:
    """Return whether a node may be what is left of a pair."""
    return node.op_type in QUANTIZE or node.op_type == "Clip"


class _Rewriting:
    """Puts something else in the place of pairs, in the order of the nodes.

    Parameters
    ----------
    constants
        Weights by name, to which new constants are added.
    known
        These, and constants that nodes make.
    inputs
        Names of the model's inputs, whose range says nothing of a ReLU.
    """

    def __init__(
        self, constants: dict[str, Array], known: dict[str, Array], inputs: set[str]
    ) -> None:
        self._constants, self._known, self._inputs = constants, known, inputs
        self._nonnegative: set[str] = set()
        self._below_six: set[str] = set()
        """Tensors of which it is known; of these, those without numbers over 6."""

    def follow(self, node: onnx.NodeProto) -> None:
        """Note what is known of a node's results."""
        given = [name for name in node.input if name and name not in self._known]
        taken = [name for name in node.input if name in self._known and node.op_type in TAKING]
        positive = all((self._known[name] >= 0).all() for name in taken if self._is_real(name))
        moves = node.op_type in MOVING and bool(given) and positive
        grows = node.op_type in GROWING and bool(given) and positive
        low, high = self._clip(node)
        if (
            node.op_type in NONNEGATIVE
            or low >= 0
            or ((moves or grows) and self._nonnegative.issuperset(given))
        ):
            self._nonnegative.update(node.output)
        if high <= RELU6 or (moves and not taken and self._below_six.issuperset(given)):
            self._below_six.update(node.output)

    def _is_real(self, name: str) -> bool:
        return self._known[name].dtype.kind in "fiub"

    def _clip(self, node: onnx.NodeProto) -> tuple[float, float]:
        """Return the bounds of a Clip, as far as they are known."""
        if node.op_type != "Clip":
            return -math.inf, math.inf
        given = {item.name: item.f for item in node.attribute}
        for name, index in (("min", 1), ("max", 2)):
            bound = self._known.get(node.input[index]) if len(node.input) > index else None
            if bound is not None and bound.size == 1:
                given[name] = float(bound.ravel()[0])
        return given.get("min", -math.inf), given.get("max", math.inf)

    def replaced(self, node: onnx.NodeProto, pair: Pair, *, rounds: bool) -> list[onnx.NodeProto]:
        """Return what stands for a pair: the ReLU that it was, and a rounding if wanted."""
        output, value = node.output[0], pair.source
        low, high = pair.range
        made: list[onnx.NodeProto] = []

        def op(op_type: str, *given: str, domain: str = "") -> str:
            name = f"{output}/{op_type.lower()}"
            step = helper.make_node(op_type, [value, *given], [name], name, domain=domain)
            made.append(with_origin(step, node))
            return name

        if low >= 0 and value not in self._inputs:
            six = abs(high - RELU6) <= NEAR * RELU6
            self._nonnegative.add(output)
            if six or value in self._below_six:
                self._below_six.add(output)
            if six and not (value in self._below_six and value in self._nonnegative):
                value = op("Clip", *self._numbers(output, 0.0, RELU6))
            elif value not in self._nonnegative:
                value = op("Relu")
        if rounds:
            factor = math.ldexp(1.0, pair.fix_point)
            names = self._numbers(output, float(LARGEST), factor)
            method = self._constant(f"{output}/method", np.array([NNDCT_HALF_UP], np.int64))
            value = op(FIX_NEURON, *names, method, domain=NNDCT)
        if not made:
            value = op("Identity")
        made[-1].output[0] = output
        return made

    def _numbers(self, output: str, *numbers: float) -> list[str]:
        return [
            self._constant(f"{output}/number{at}", np.array(number, np.float32))
            for at, number in enumerate(numbers)
        ]

    def _constant(self, name: str, value: Array) -> str:
        while name in self._known:
            name += "_"
        self._constants[name] = self._known[name] = value
        return name
