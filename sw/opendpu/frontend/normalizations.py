# SPDX-License-Identifier: Apache-2.0
"""Normalizations that exporters write as several nodes, and the operator that each is.

PyTorch's LayerNorm has nine nodes below operator set 17: mean, difference, square, mean, sum with
epsilon, root, quotient, scale, bias. RMSNorm has no mean and no difference. onnxruntime computes
``LayerNormalization`` and ``SimplifiedLayerNormalization`` in every operator set. TensorFlow and
Keras multiply by the reciprocal root and the scale first, ``x * f + (bias - mean * f)``. Image
networks write LayerNorm over the channels of ``NCHW`` in the same way; channels are last then, and
go back. With means over space, and over the channels of a group, it is ``GroupNormalization``, of
maps with channels first (Keras, Flax); see :mod:`opendpu.frontend.norm_nodes`.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping, Sequence

import onnx

from opendpu.frontend.def_use import DefUse, Fusion, fused, kept_axes
from opendpu.frontend.norm_nodes import Span, may_be_grouped, span_of, written
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS, LAYER_NORM, RMS_NORM


def normalized(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    uses: Counter[str],
    shape_of: Callable[[str], tuple[int, ...] | None],
    add_floats: Callable[[str, tuple[int, ...]], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with normalizations of the last axis, of channels or groups, as one each.

    Results inside one must have no other reader; ``shape_of`` says the shape of a float32 tensor.
    ``constants`` gets scales of one where there are none, ``add_floats`` what else is new.
    """
    search = _Search(DefUse(nodes, uses), constants, shape_of)

    def find(root: onnx.NodeProto) -> Fusion | None:
        found = search.at(root) if root.op_type == "Sqrt" else None
        if found is None:
            return None
        scale, bias = (
            found.span.by_channel(constants[name]) if name else None
            for name in (found.scale, found.bias)
        )
        made = written(
            found.op_type, found.x, found.span, found.epsilon, found.nodes[-1], (scale, bias),
            constants, add_floats,
        )  # fmt: skip
        return Fusion(made, found.nodes)

    return fused(nodes, find)


@dataclasses.dataclass
class _Norm:
    """The nodes of a normalization, the last one at the end."""

    op_type: str
    x: str
    epsilon: float
    nodes: list[onnx.NodeProto]
    span: Span
    scale: str = ""
    bias: str = ""


class _Search:
    """Where normalizations are among the nodes of a model."""

    def __init__(
        self,
        links: DefUse,
        constants: MutableMapping[str, Array],
        shape_of: Callable[[str], tuple[int, ...] | None],
    ) -> None:
        self.links, self.constants, self.shape_of = links, constants, shape_of

    def at(self, root: onnx.NodeProto) -> _Norm | None:
        """Return the normalization whose root of the variance is a node."""
        added = self.links.made(root.input[0], "Add")
        found = next(self._with_constant(added), None) if added is not None else None
        if added is None or found is None or found[1].size != 1:
            return None
        variance = self.links.made(found[0], "ReduceMean")
        span = self._span(variance) if variance is not None else None
        square = (
            self.links.square(variance.input[0], self.constants) if variance is not None else None
        )
        if variance is None or square is None or span is None:
            return None
        inner = [square, variance, added, root]
        norm = _Norm(RMS_NORM, square.input[0], float(found[1].ravel()[0]), inner, span)
        same = self._centre(norm)
        if self._divide(norm, root, same):
            self._affine(norm)
        elif not self._multiply(norm, root):
            return None
        return norm if may_be_grouped(norm.op_type, span) and self._is_closed(norm) else None

    def _centre(self, norm: _Norm) -> set[str]:
        """Take a difference from the mean in front, if there is; return what it is called."""
        below = self.links.made(norm.x, "Sub")
        mean = self.links.made(below.input[1], "ReduceMean") if below is not None else None
        if below is None or mean is None or mean.input[0] != below.input[0] or (
            self._span(mean) != norm.span
        ):  # fmt: skip
            return {norm.x}
        again = [
            node for node in self.links.readers[mean.output[0]]
            if node.op_type == "Sub" and list(node.input) == list(below.input)
        ]  # fmt: skip
        norm.op_type, norm.x = LAYER_NORM, below.input[0]
        norm.nodes[:0] = [mean, *again]
        return {node.output[0] for node in again}

    def _divide(self, norm: _Norm, root: onnx.NodeProto, same: set[str]) -> bool:
        """Take the quotient, or the product with the reciprocal; return whether there is one."""
        (reader, *others) = self.links.readers.get(root.output[0], [root])
        if others:
            return False
        if reader.op_type == "Div" and reader.input[1] == root.output[0]:
            if reader.input[0] in same:
                norm.nodes.append(reader)
                return True
            one = self.constants.get(reader.input[0])
            inverse = one is not None and one.size == 1 and float(one.ravel()[0]) == 1
        else:
            inverse = reader.op_type == "Reciprocal"
        product = self.links.only_reader(reader.output[0], "Mul")
        if not inverse or product is None:
            return False
        if same.intersection(product.input):
            norm.nodes += [reader, product]
            return True
        return self._scaled_first(norm, reader, product, same)

    def _scaled_first(
        self, norm: _Norm, inverse: onnx.NodeProto, gain: onnx.NodeProto, same: set[str]
    ) -> bool:
        """Take the product with a reciprocal that was scaled before; return whether it is one."""
        (scale,) = [name for name in gain.input if self._is_by_row(name, norm)] or [""]
        product = self.links.only_reader(gain.output[0], "Mul")
        if not scale or product is None or not same.intersection(product.input):
            return False
        norm.scale = scale
        norm.nodes += [inverse, gain, product]
        return True

    def _multiply(self, norm: _Norm, root: onnx.NodeProto) -> bool:
        """Take ``x * f + (bias - mean * f)``, ``f`` the reciprocal root times the scale, if any.

        Return whether it is that.
        """
        inverse = self.links.only_reader(root.output[0], "Reciprocal")
        if inverse is None or norm.op_type != LAYER_NORM:
            return False
        inside, factor = [inverse], inverse.output[0]
        gain = self.links.only_reader(factor, "Mul")
        if gain is not None:
            (norm.scale,) = [name for name in gain.input if self._is_by_row(name, norm)] or [""]
            if not norm.scale:
                return False
            inside, factor = [*inside, gain], gain.output[0]
        products = [node for node in self.links.readers[factor] if node.op_type == "Mul"]
        operands = [name for node in products for name in node.input if name != factor]
        if len(products) != 2 or len(operands) != 2 or norm.x not in operands:
            return False
        at = operands.index(norm.x)
        end = self._shifted(norm, operands[1 - at], products[at], products[1 - at])
        norm.nodes += [*inside, *products, *end]
        return bool(end)

    def _shifted(
        self, norm: _Norm, mean: str, scaled: onnx.NodeProto, shift: onnx.NodeProto
    ) -> list[onnx.NodeProto]:
        """Return the nodes that take a scaled mean from a scaled tensor; none if they do not.

        A bias that they add is noted.
        """
        negated = self.links.made(mean, "Neg")
        if (negated.input[0] if negated is not None else mean) != norm.nodes[0].output[0]:
            return []
        inside = [negated] if negated is not None else []
        name, op_type = shift.output[0], "Add" if negated is not None else "Sub"
        biased = self.links.only_reader(name, op_type)
        given = [one for one in biased.input if one != name] if biased is not None else []
        if biased is not None and len(given) == 1 and self._is_by_row(given[0], norm):
            if op_type == "Sub" and biased.input[0] == name:
                return []
            norm.bias, name, op_type = given[0], biased.output[0], "Add"
            inside.append(biased)
        end = self.links.only_reader(name, op_type)
        operands = [scaled.output[0], name]
        if end is None or (list(end.input) != operands and (
            op_type == "Sub" or list(end.input) != operands[::-1]
        )):  # fmt: skip
            return []
        return [*inside, end]

    def _is_by_row(self, name: str, norm: _Norm) -> bool:
        """Return whether a tensor is a constant, one number for each channel."""
        value = self.constants.get(name)
        return value is not None and norm.span.by_channel(value) is not None

    def _affine(self, norm: _Norm) -> None:
        """Take a scale and a bias behind, if they are constants of one number a channel."""
        for op_type in ("Mul", "Add"):
            readers = self.links.readers.get(norm.nodes[-1].output[0], [])
            if len(readers) != 1 or readers[0].op_type != op_type:
                continue
            if op_type == "Mul" and norm.scale:
                continue
            for _ in self._with_constant(readers[0]):
                name = next(n for n in readers[0].input if n in self.constants)
                if self._is_by_row(name, norm):
                    norm.nodes.append(readers[0])
                    if op_type == "Mul":
                        norm.scale = name
                    else:
                        norm.bias = name
        if norm.op_type == RMS_NORM and norm.bias:  # the operator has none
            norm.nodes.pop()
            norm.bias = ""

    def _is_closed(self, norm: _Norm) -> bool:
        """Return whether nobody else reads what is made inside, and shapes are known and alike."""
        shape = self.shape_of(norm.x)
        return (
            bool(shape)
            and self.shape_of(norm.nodes[-1].output[0]) == shape
            and all(node.domain in DEFAULT_DOMAINS for node in norm.nodes)
            and self.links.is_closed(norm.nodes)
        )

    def _with_constant(self, node: onnx.NodeProto) -> Iterator[tuple[str, Array]]:
        """Yield the computed operand of a sum or product, and the constant one."""
        for one, other in (node.input, reversed(node.input)):
            if other in self.constants and one not in self.constants:
                yield one, self.constants[other]

    def _span(self, mean: onnx.NodeProto) -> Span | None:
        """Return what a mean normalizes, whose axes stay as ones of size 1."""
        return span_of(self.shape_of(mean.input[0]), kept_axes(mean, self.constants))
