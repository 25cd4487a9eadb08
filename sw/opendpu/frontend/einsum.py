# SPDX-License-Identifier: Apache-2.0
"""Einsum of two tensors as the product of matrices that it is, between transposes and reshapes.

An axis of both operands and the result counts matrices, one that the result lacks is summed over,
one of a single operand counts rows or columns. Where nothing is summed over, it is a product of
elements. Keras and JAX write dense layers and attention so.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]

TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")
ELLIPSIS = "..."
HIDDEN = "0123456789"
"""Labels of the axes that an ellipsis stands for."""


def contracted(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with MatMul or Mul instead of each Einsum that is one.

    Others stay: more operands than two, diagonals, sums over an axis of one operand, axes that are
    repeated, scalars. ``shape_of`` says the shape of a computed float32 tensor, ``constants`` the
    rest and gets what is new of them; ``add_floats`` is told the shapes of new tensors.
    """
    found = []
    for node in nodes:
        rewriter = _Rewriter(node, constants, shape_of, add_floats)
        found += rewriter.nodes() or [node]
    return found


def labels_of(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """Return a label for each axis of the operands and of the result; none if they do not fit."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or not all(TERM.fullmatch(term) for term in (*terms, right)):
        return None
    hidden = ""
    for number, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        count = rank - len(term.replace(ELLIPSIS, ""))
        if count < 0 or count > len(HIDDEN) or (count and ELLIPSIS not in term):
            return None
        terms[number] = term.replace(ELLIPSIS, HIDDEN[len(HIDDEN) - count :])
        hidden = max(hidden, HIDDEN[len(HIDDEN) - count :] if count else "", key=len)
    if arrow:
        return terms, right.replace(ELLIPSIS, hidden)
    every = "".join(terms)
    once = sorted(label for label in set(every) - set(hidden) if every.count(label) == 1)
    return terms, hidden + "".join(once)


@dataclasses.dataclass
class _Operand:
    """A tensor with a label for each axis."""

    name: str
    labels: str
    shape: Shape
    value: Array | None
    side: str


class _Rewriter:
    """Writes one node as others."""

    def __init__(
        self,
        node: onnx.NodeProto,
        constants: MutableMapping[str, Array],
        shape_of: Callable[[str], Shape | None],
        add_floats: Callable[[str, Shape], None],
    ) -> None:
        self.node, self.constants, self.add_floats = node, constants, add_floats
        self.shape_of = shape_of
        self.made: list[onnx.NodeProto] = []

    def nodes(self) -> list[onnx.NodeProto]:
        """Return what stands for the node; nothing where it stays."""
        operands, result = self._read()
        if not operands or not result or any(len(set(some)) < len(some) for some in (
            result, *(operand.labels for operand in operands)
        )):  # fmt: skip
            return []
        one, other = operands
        sizes = dict(zip(one.labels, one.shape, strict=True))
        for label, size in zip(other.labels, other.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                return []
        shared = [label for label in one.labels if label in other.labels]
        summed = [label for label in shared if label not in result]
        if set(result) != set(sizes) - set(summed):
            return []
        if summed:
            self._matmul(one, other, result, sizes, [b for b in result if b in shared], summed)
        else:
            self._product(one, other, result, sizes)
        return self.made

    def _read(self) -> tuple[list[_Operand], str]:
        node = self.node
        if node.op_type != "Einsum" or node.domain not in DEFAULT_DOMAINS or len(node.input) != 2:
            return [], ""
        values = [self.constants.get(name) for name in node.input]
        shapes = [
            self.shape_of(name) if value is None else value.shape
            for name, value in zip(node.input, values, strict=True)
        ]
        if None in shapes or self.shape_of(node.output[0]) is None:
            return [], ""
        known = [shape for shape in shapes if shape is not None]
        equation = next(a.s.decode(errors="replace") for a in node.attribute)
        labels = labels_of(equation, [len(shape) for shape in known])
        if labels is None:
            return [], ""
        operands = zip(node.input, labels[0], known, values, ("left", "right"), strict=True)
        return [_Operand(*operand) for operand in operands], labels[1]

    def _matmul(
        self, one: _Operand, other: _Operand, result: str, sizes: dict[str, int],
        batch: list[str], summed: list[str],
    ) -> None:  # fmt: skip
        """Sum over axes that both operands have."""
        rows = [label for label in result if label in one.labels and label not in batch]
        columns = [label for label in result if label in other.labels and label not in batch]

        def size(labels: Iterable[str]) -> int:
            return math.prod(sizes[label] for label in labels)

        many = tuple(sizes[label] for label in batch)
        left = self._brought(one, [*batch, *rows, *summed], (*many, size(rows), size(summed)))
        right = self._brought(
            other, [*batch, *summed, *columns], (*many, size(summed), size(columns))
        )
        given = [*batch, *rows, *columns]
        shape = (*many, size(rows), size(columns))
        whole = tuple(sizes[label] for label in given)
        steps: list[tuple[str, Shape, Shape]] = [("MatMul", shape, ())]
        if whole != shape:
            steps.append(("Reshape", whole, whole))
        order = tuple(given.index(label) for label in result)
        if order != tuple(range(len(order))):
            steps.append(("Transpose", tuple(whole[axis] for axis in order), order))
        inputs = [left, right]
        for number, (kind, made, extra) in enumerate(steps):
            is_last = number == len(steps) - 1
            inputs = [self._step(kind, inputs, made, extra, "" if is_last else "product")]

    def _product(self, one: _Operand, other: _Operand, result: str, sizes: dict[str, int]) -> None:
        """Multiply elements."""
        inputs = []
        for operand in (one, other):
            order = [label for label in result if label in operand.labels]
            shape = tuple(sizes[label] if label in order else 1 for label in result)
            inputs.append(self._brought(operand, order, shape))
        self._step("Mul", inputs, tuple(sizes[label] for label in result), (), "")

    def _brought(self, operand: _Operand, order: Sequence[str], shape: Shape) -> str:
        """Return an operand with its axes in an order, and then in a shape."""
        axes = tuple(operand.labels.index(label) for label in order)
        if operand.value is not None:
            name = self._unique(f"{self.node.output[0]}_{operand.side}")
            self.constants[name] = operand.value.transpose(axes).reshape(shape)
            return name
        name = operand.name
        moved = tuple(operand.shape[axis] for axis in axes)
        if axes != tuple(range(len(axes))):
            name = self._step("Transpose", [name], moved, axes, operand.side)
        if moved != shape:
            name = self._step("Reshape", [name], shape, shape, f"{operand.side}_matrix")
        return name

    def _step(self, kind: str, inputs: list[str], shape: Shape, extra: Shape, label: str) -> str:
        """Add a node; without a label it makes the result."""
        (y,) = self.node.output
        output = self._unique(f"{y}_{label}") if label else y
        attributes: dict[str, Any] = {}
        if kind == "Transpose":
            attributes["perm"] = list(extra)
        elif kind == "Reshape":
            target = self._unique(f"{output}_shape")
            self.constants[target] = np.array(extra, np.int64)
            inputs = [*inputs, target]
        name = f"{self.node.name}_{label}" if label and self.node.name else self.node.name
        made = helper.make_node(kind, inputs, [output], name, **attributes)
        made.doc_string = self.node.doc_string
        made.metadata_props.extend(self.node.metadata_props)
        self.made.append(made)
        if label:
            self.add_floats(output, shape)
        return output

    def _unique(self, name: str) -> str:
        """Return a name that no tensor has."""
        while name in self.constants or self.shape_of(name) is not None:
            name += "_"
        return name
