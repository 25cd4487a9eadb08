# SPDX-License-Identifier: Apache-2.0
"""Pairs that round every channel of a feature map at a scale of its own, as NNCF writes them.

In front of a depthwise convolution that costs a CPU nothing. The DPU has one scale a tensor: the
layer before takes the difference into its weights, and the depthwise layer takes it back, so all
integers stay what they are. Where there is no layer before, or zero points differ, the pair is
arithmetic on real numbers, which the CPU computes.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, attributes_of, with_origin
from opendpu.frontend.model_file import constants_of_nodes, reads
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

CHANNELS = 1
"""The axis of feature maps in ONNX that channels are along."""
LAYERS = ("Conv", "ConvTranspose")


@dataclasses.dataclass(frozen=True)
class Rounded:
    """A pair on a computed tensor, with a scale for each channel."""

    quantize: onnx.NodeProto
    dequantize: onnx.NodeProto
    scale: Array
    zero: Array

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer."""
        found = np.iinfo(self.zero.dtype)
        return int(found.min), int(found.max)


def of_one_scale(
    nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], outputs: Sequence[str]
) -> list[onnx.NodeProto]:
    """Return nodes whose computed tensors have one scale each; ``constants`` get new ones."""
    uses = collections.Counter([*(name for node in nodes for name in reads(node)), *outputs])
    rewriting = _Rewriting(nodes, constants, uses)
    replaced: dict[int, list[onnx.NodeProto]] = {}
    for node in nodes:
        pair = rewriting.pair(node)
        if pair is not None:
            replaced |= rewriting.shared(pair) or rewriting.in_real_numbers(pair)
    return [made for node in nodes for made in replaced.get(id(node), [node])]


class _Rewriting:
    """Rewrites pairs of a model; parameters are those of :class:`DefUse`, and its weights."""

    def __init__(
        self, nodes: Sequence[onnx.NodeProto], constants: dict[str, Array], uses: Mapping[str, int]
    ) -> None:
        self._graph, self._constants = DefUse(nodes, uses), constants
        self._known = {**constants, **constants_of_nodes(nodes)}

    def pair(self, node: onnx.NodeProto) -> Rounded | None:
        """Return the pair that a node ends, if it is of a computed tensor with several scales."""
        if node.op_type != "DequantizeLinear" or node.domain not in DEFAULT_DOMAINS:
            return None
        if not (node.input and node.output):
            return None
        before = self._graph.made(node.input[0], "QuantizeLinear")
        given = [self._known.get(name) for name in node.input[1:]]
        if before is None or len(given) != 2 or not before.input:
            return None
        if before.input[0] in self._known:
            return None
        scale, zero = given
        same = list(before.input[1:]) == list(node.input[1:])
        if scale is None or zero is None or not same or scale.ndim != 1 or scale.size < 2:
            return None
        fits = zero.shape == scale.shape and zero.dtype in (np.int8, np.uint8)
        along = {int(attributes_of(one).get("axis", 1)) for one in (before, node)} == {CHANNELS}
        positive = bool(np.all(scale > 0) and np.all(np.isfinite(scale)))
        return Rounded(before, node, scale, zero) if fits and along and positive else None

    def shared(self, pair: Rounded) -> dict[int, list[onnx.NodeProto]] | None:
        """Return nodes by the ``id`` of those they stand for, if layers can take the scales."""
        layer, between = self._layer_before(pair)
        users = self._graph.readers.get(pair.dequantize.output[0], [])
        alone = self._graph.uses[pair.dequantize.output[0]] == len(users)
        stored = self._graph.uses[pair.quantize.output[0]] == 1
        if layer is None or not (alone and stored) or len(set(pair.zero.tolist())) != 1:
            return None
        common = pair.scale.max()
        factor = common.astype(np.float64) / pair.scale
        made = {id(layer): self._times(layer, factor)}
        for user in users:
            if not self._is_depthwise(user, pair):
                return None
            made[id(user)] = self._times(user, 1 / factor, inputs=True)
        if any(nodes is None for nodes in made.values()):
            return None
        grid = [self._constant(pair, "scale", common), self._constant(pair, "zero", pair.zero[0])]
        for node, source in (
            (pair.quantize, pair.quantize.input[0]),
            (pair.dequantize, pair.dequantize.input[0]),
        ):
            made[id(node)] = [_like(node, [source, *grid], axis=None)]
        if between is not None and between.op_type == "Clip":  # its upper end is the integers'
            made[id(between)] = [
                with_origin(
                    helper.make_node("Relu", between.input[:1], between.output, between.name),
                    between,
                )
            ]
        return {key: nodes for key, nodes in made.items() if nodes is not None}

    def _layer_before(self, pair: Rounded) -> tuple[onnx.NodeProto | None, onnx.NodeProto | None]:
        """Return the layer whose result is rounded, and the activation between."""
        node = self._graph.producers.get(pair.quantize.input[0])
        between = None
        if node is not None and self._scales_with_its_input(node, pair):
            between, node = node, self._graph.producers.get(node.input[0])
        names = [one.output[0] for one in (between, node) if one is not None]
        if node is None or any(self._graph.uses[name] != 1 for name in names):
            return None, None
        return (node, between) if node.op_type in LAYERS else (None, None)

    def _scales_with_its_input(self, node: onnx.NodeProto, pair: Rounded) -> bool:
        """Tell whether an activation of a multiple is that multiple, as far as integers show."""
        if node.op_type == "Relu":
            return True
        if node.op_type != "Clip" or len(node.input) != 3:
            return False
        low, high = (self._known.get(name) for name in node.input[1:])
        if low is None or high is None or low.size != 1 or high.size != 1 or float(low) != 0:
            return False
        ends = np.rint(np.float32(high) / pair.scale.astype(np.float32)) + pair.zero
        return bool(np.all(ends >= pair.limits[1]))

    def _is_depthwise(self, node: onnx.NodeProto, pair: Rounded) -> bool:
        groups = int(attributes_of(node).get("group", 1))
        given = node.input[0] == pair.dequantize.output[0]
        return node.op_type in LAYERS and given and groups == pair.scale.size

    def _times(
        self, layer: onnx.NodeProto, factor: Array, *, inputs: bool = False
    ) -> list[onnx.NodeProto] | None:
        """Return a layer whose results, or inputs, are multiplied by a factor a channel.

        What rounds its weights rounds them to the same integers. None where they are not known.
        """
        groups = int(attributes_of(layer).get("group", 1))
        weights = self._multiplied(layer, 1, factor, groups)
        bias = (
            self._multiplied(layer, 2, factor, 1)
            if len(layer.input) > 2 and layer.input[2] and not inputs
            else ([], layer.input[2] if len(layer.input) > 2 else "")
        )
        if weights is None or bias is None:
            return None
        given = [layer.input[0], weights[1], *([bias[1]] if bias[1] else [])]
        return [*weights[0], *bias[0], _like(layer, given)]

    def _multiplied(
        self, layer: onnx.NodeProto, index: int, factor: Array, groups: int
    ) -> tuple[list[onnx.NodeProto], str] | None:
        """Return nodes that make a constant input times a factor a channel, and its name."""
        name, label = layer.input[index], f"{layer.output[0]}/{index}"
        rank, axis = (1, 0) if index == 2 else (4, 0)
        if layer.op_type == "ConvTranspose" and index == 1 and groups == 1:
            axis = 1
        chain = self._chain(name)
        if chain is None:
            return None
        values = self._known[chain[0].input[0] if chain else name]
        if values.ndim != rank or values.shape[axis] != factor.size:
            return None
        if not chain:
            return [], self._keep(f"{label}/multiplied", _along(values, factor, axis))
        made, source = [], chain[0].input[0]
        if chain[0].op_type == "QuantizeLinear":
            source = self._keep(f"{label}/multiplied", _along(values, factor, axis))
        old = self._known[chain[0].input[1]]
        scales = (np.broadcast_to(old.ravel(), factor.shape) * factor).astype(old.dtype)
        scale = self._keep(f"{label}/scale", scales)
        zero = None
        if len(chain[0].input) > 2 and chain[0].input[2]:
            zeros = self._known[chain[0].input[2]].ravel()
            zero = self._keep(f"{label}/zeros", np.broadcast_to(zeros, factor.shape).copy())
        for number, node in enumerate(chain):
            given = [source, scale, *([zero] if zero else [])]
            source = f"{label}/step{number}"
            again = helper.make_node(node.op_type, given, [source], f"{label}/{node.op_type}")
            again.attribute.extend(a for a in node.attribute if a.name != "axis")
            again.attribute.append(helper.make_attribute("axis", axis))
            made.append(with_origin(again, node))
        return made, source

    def _chain(self, name: str) -> list[onnx.NodeProto] | None:
        """Return what makes a constant: nothing, DequantizeLinear, or a pair; None if none does."""
        if name in self._known:
            return []
        chain: list[onnx.NodeProto] = []
        for kind in ("DequantizeLinear", "QuantizeLinear"):
            node = self._graph.made(name, kind)
            if node is None or node.domain not in DEFAULT_DOMAINS:
                return None
            if chain and list(chain[0].input[1:]) != list(node.input[1:]):
                return None
            scales = [self._known.get(given) for given in node.input[1:] if given]
            if any(found is None or found.ndim > 1 for found in scales):
                return None
            chain.insert(0, node)
            if node.input[0] in self._known:
                return chain
            name = node.input[0]
        return None

    def in_real_numbers(self, pair: Rounded) -> dict[int, list[onnx.NodeProto]]:
        """Return a pair as arithmetic, by the ``id`` of the node that ends it."""
        name = pair.dequantize.output[0]
        made: list[onnx.NodeProto] = []

        def op(kind: str, *given: str) -> str:
            result = f"{name}/{kind}{len(made)}"
            node = helper.make_node(kind, given, [result], result)
            made.append(with_origin(node, pair.dequantize))
            return result

        def number(label: str, value: Array) -> str:
            return self._keep(f"{name}/{label}", value)

        steps = number("steps", _channels(pair.scale))
        centre = number("centre", _channels(pair.zero.astype(np.float32)))
        ends = [number(f"end{end}", np.array(end, np.float32)) for end in pair.limits]
        integers = op("Add", op("Round", op("Div", pair.quantize.input[0], steps)), centre)
        op("Mul", op("Sub", op("Min", op("Max", integers, ends[0]), ends[1]), centre), steps)
        made[-1].output[0] = name
        return {id(pair.dequantize): made}

    def _constant(self, pair: Rounded, label: str, value: Array) -> str:
        return self._keep(f"{pair.dequantize.output[0]}/{label}", np.asarray(value))

    def _keep(self, name: str, value: Array) -> str:
        self._constants[name] = self._known[name] = value
        return name


def _like(node: onnx.NodeProto, given: Sequence[str], **changed: None) -> onnx.NodeProto:
    """Return a node with other inputs, without some of its attributes."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.input[:], made.attribute[:]
    made.input.extend(given)
    made.attribute.extend(a for a in node.attribute if a.name not in changed)
    return made


def _along(values: Array, factor: Array, axis: int) -> Array:
    shape = [1] * values.ndim
    shape[axis] = factor.size
    made: Array = (values * factor.reshape(shape)).astype(values.dtype)
    return made


def _channels(values: Array) -> Array:
    """Return a number a channel as feature maps take it, [C, 1, 1]."""
    made: Array = values.reshape(-1, 1, 1)
    return made
