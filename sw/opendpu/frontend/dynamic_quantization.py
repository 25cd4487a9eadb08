# SPDX-License-Identifier: Apache-2.0
"""Networks that quantize while they run, as onnxruntime's ``quantize_dynamic`` writes them, as the
float networks they were made of.

A tensor goes through ``DynamicQuantizeLinear``, then an operator on integers, then the product of
both scales: the operator on real numbers is put there again, with weights that are what the
integers stand for. The DPU's scales do not change while it runs, so such a network is quantized
like any float network; the rounding that the file would do while it runs is left out.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import DefUse, with_origin, without_unread
from opendpu.frontend.model_file import reads
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

MICROSOFT = "com.microsoft"
ON_INTEGERS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""Operators on integers, and their counterparts on real numbers."""
QUANTIZER = "DynamicQuantizeLinear"
LSTM_INPUTS = 8
"""Inputs of an LSTM; behind them its form on integers has scales and zero points of weights."""
Shape = tuple[int, ...]


def in_float(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> tuple[list[onnx.NodeProto], int]:
    """Return the nodes without quantization while they run, and how many operators this changed.

    Results inside a replaced part must have no other reader; ``shape_of`` says the shape of a
    float32 tensor. ``constants`` gets the weights as real numbers, ``add_floats`` what else is new.
    """
    search = _Search(DefUse(nodes, uses), constants, shape_of, add_floats, _quantizers(nodes))
    replaced: dict[int, list[onnx.NodeProto]] = {}
    dropped: set[int] = set()
    for node in nodes:
        found = search.at(node)
        if found is not None:
            replaced[id(found.nodes[-1])] = found.made
            dropped.update(id(inner) for inner in found.nodes[:-1])
    if not replaced:
        return list(nodes), 0
    kept = [
        made for node in nodes if id(node) not in dropped for made in replaced.get(id(node), [node])
    ]

    def has_lost_its_readers(node: onnx.NodeProto) -> bool:
        """Return whether that may be so: quantizers, and products of scales."""
        return node.op_type in (QUANTIZER, "Mul") and any(uses[name] for name in node.output)

    outputs = uses - Counter(name for node in nodes for name in reads(node))
    return without_unread(kept, outputs, has_lost_its_readers), len(replaced)


def _quantizers(nodes: Sequence[onnx.NodeProto]) -> dict[str, onnx.NodeProto]:
    """Return the quantizers by each of their results: integers, scale, zero point."""
    return {
        name: node
        for node in nodes
        if node.op_type == QUANTIZER and node.domain in DEFAULT_DOMAINS and len(node.output) == 3
        for name in node.output
    }


@dataclasses.dataclass
class _Part:
    """The nodes of a part, the last one at the end, and what stands for them."""

    nodes: list[onnx.NodeProto]
    made: list[onnx.NodeProto]


@dataclasses.dataclass
class _Search:
    links: DefUse
    constants: MutableMapping[str, Array]
    shape_of: Callable[[str], Shape | None]
    add_floats: Callable[[str, Shape], None]
    quantizers: dict[str, onnx.NodeProto]

    def at(self, node: onnx.NodeProto) -> _Part | None:
        """Return the part that begins with a node."""
        if node.domain in DEFAULT_DOMAINS and node.op_type in ON_INTEGERS:
            return self._on_integers(node)
        if node.domain in DEFAULT_DOMAINS and node.op_type == "DequantizeLinear":
            return self._back(node)
        if node.domain == MICROSOFT and node.op_type == "DynamicQuantizeLSTM":
            return self._lstm(node)
        if node.domain == MICROSOFT and node.op_type == "DynamicQuantizeMatMul":
            weights = self._real(node, 1, _at(node, 3), self.constants.get(node.input[2]))
            return self._biased(node, [node.input[0], weights], _at(node, 4))
        if node.domain == MICROSOFT and node.op_type == "MatMulIntegerToFloat":
            return self._product(node)
        return None

    def _on_integers(self, node: onnx.NodeProto) -> _Part | None:
        """Return an operator on integers, the conversion to real numbers and the scales."""
        op_type = ON_INTEGERS[node.op_type]
        cast = self.links.only_reader(node.output[0], "Cast")
        scaled = self.links.only_reader(cast.output[0], "Mul") if cast is not None else None
        shape = self.shape_of(scaled.output[0]) if scaled is not None else None
        if cast is None or scaled is None or not shape:
            return None
        (scale,) = [name for name in scaled.input if name != cast.output[0]] or [""]
        leaves = self._factors(scale)
        sources = [self._source(node, at, _at(node, at + 2)) for at in (0, 1)]
        wanted = [s.output[1] for s in sources if s is not None]
        found = [name for name in leaves if name not in self.constants]
        if not wanted or sorted(wanted) != sorted(found):
            return None
        factor = np.ones(1, np.float32)
        for name in leaves:
            if name in self.constants:
                factor = factor * self.constants[name].astype(np.float32)
        inputs = [s.input[0] if s is not None else "" for s in sources]
        constant = [at for at, s in enumerate(sources) if s is None]
        by_weights = _by_weights(factor, op_type, shape)
        if constant:
            (at,) = constant
            if by_weights is None or (by_weights.size > 1 and at == 0):
                return None
            inputs[at] = self._real(node, at, _at(node, at + 2), by_weights)
        elif factor.size != 1 or float(factor.ravel()[0]) != 1:
            return None
        if not all(inputs):
            return None
        made = helper.make_node(op_type, inputs, scaled.output, node.name)
        made.attribute.extend(node.attribute)
        return _Part([node, cast, scaled], [with_origin(made, node)])

    def _factors(self, name: str) -> list[str]:
        """Return the constants and scales whose product a tensor is."""
        node = self.links.made(name, "Mul") if name not in self.constants else None
        return [leaf for one in node.input for leaf in self._factors(one)] if node else [name]

    def _source(self, node: onnx.NodeProto, at: int, zero: str) -> onnx.NodeProto | None:
        """Return the quantizer that an operand comes from; none if it is a constant, or other."""
        found = self.quantizers.get(node.input[at])
        if found is None or list(found.output[::2]) != [node.input[at], zero]:
            return None
        return found

    def _real(self, node: onnx.NodeProto, at: int, zero: str, scale: Array | None) -> str:
        """Add what a constant operand stands for; return its name, empty if that is not known."""
        value = self.constants.get(node.input[at])
        if value is None or scale is None or (zero and zero not in self.constants):
            return ""
        real = value.astype(np.float32)
        offset = self.constants[zero].astype(np.float32) if zero else np.zeros(1, np.float32)
        if node.op_type == "ConvInteger":
            columns = (-1, *(1,) * (value.ndim - 1))
            scale, offset = scale.reshape(columns), offset.reshape(columns)
        elif at == 0 and offset.size > 1:
            offset = offset.reshape(-1, 1)
        name = f"{node.output[0]}_real{at}"
        self.constants[name] = ((real - offset) * scale).astype(np.float32)
        return name

    def _back(self, node: onnx.NodeProto) -> _Part | None:
        """Return a tensor that is quantized and taken for real numbers again."""
        source = self._source(node, 0, _at(node, 2))
        if source is None or node.input[1] != source.output[1]:
            return None
        made = helper.make_node("Identity", source.input, node.output, node.name)
        return _Part([node], [with_origin(made, node)])

    def _product(self, node: onnx.NodeProto) -> _Part | None:
        """Return a product of integers that has real numbers as its result."""
        source = self._source(node, 0, _at(node, 4))
        if source is None or node.input[2] != source.output[1]:
            return None
        weights = self._real(node, 1, _at(node, 5), self.constants.get(node.input[3]))
        return self._biased(node, [source.input[0], weights], _at(node, 6))

    def _biased(self, node: onnx.NodeProto, factors: list[str], bias: str) -> _Part | None:
        """Return a product of matrices, and the sum with a bias where there is one."""
        shape = self.shape_of(node.output[0])
        if not all(factors) or shape is None:
            return None
        result = [f"{node.output[0]}_product"] if bias else list(node.output)
        made = [helper.make_node("MatMul", factors, result, node.name)]
        if bias:
            self.add_floats(result[0], shape)
            made.append(helper.make_node("Add", [*result, bias], node.output, f"{node.name}_bias"))
        return _Part([node], [with_origin(one, node) for one in made])

    def _lstm(self, node: onnx.NodeProto) -> _Part | None:
        """Return an LSTM whose weights are integers; in its float form these lie transposed."""
        inputs = list(node.input[:LSTM_INPUTS])
        for at, scale in ((1, LSTM_INPUTS), (2, LSTM_INPUTS + 2)):
            given = [self.constants.get(_at(node, n)) for n in (at, scale, scale + 1)]
            if any(value is None for value in given):
                return None
            value, *grid = (np.asarray(one, np.float32) for one in given)
            rows = [one.reshape(-1, 1, *one.shape[1:]) if one.size > 1 else one for one in grid]
            rows = [one[..., None] if one.ndim == 2 else one for one in rows]
            inputs[at] = f"{node.output[0] or node.name}_real{at}"
            real = (value - rows[1]) * rows[0]
            self.constants[inputs[at]] = np.ascontiguousarray(real.transpose(0, 2, 1), np.float32)
        made = helper.make_node("LSTM", inputs, node.output, node.name)
        made.attribute.extend(node.attribute)
        return _Part([node], [with_origin(made, node)])


def _by_weights(factor: Array, op_type: str, shape: Shape) -> Array | None:
    """Return a factor of a result as one of the weights; none where it is no number a channel."""
    axis = 1 if op_type == "Conv" else len(shape) - 1
    aligned = (1,) * (len(shape) - factor.ndim) + factor.shape
    if factor.ndim > len(shape) or any(n != 1 for i, n in enumerate(aligned) if i != axis):
        return factor.reshape(-1) if factor.size == 1 else None
    return factor.reshape(-1)


def _at(node: onnx.NodeProto, index: int) -> str:
    return node.input[index] if index < len(node.input) else ""
