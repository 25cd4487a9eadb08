# SPDX-License-Identifier: Apache-2.0
"""Activations that exporters write as several nodes, and the one operator that each is.

A pattern is data: terms over one tensor ``X``. To know another spelling, add a line to
:data:`PATTERNS`.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

TOLERANCE = 1e-4
"""How far constants may be from what a pattern says; exporters round them to float16 at worst."""


@dataclasses.dataclass(frozen=True)
class Term:
    """What a tensor is: the input ``X`` (no operator), a constant, or a node of an operator.

    The inputs of ``Add`` and ``Mul`` may come in either order. Limits of a ``Clip`` are its inputs,
    or attributes ``min`` and ``max`` in old operator sets.
    """

    op_type: str = ""
    inputs: tuple["Term", ...] = ()
    value: float | None = None
    attrs: tuple[tuple[str, float], ...] = ()

    def __mul__(self, other: "Term | float") -> "Term":
        """Return a product."""
        return Term("Mul", (self, _term(other)))

    def __add__(self, other: "Term | float") -> "Term":
        """Return a sum."""
        return Term("Add", (self, _term(other)))

    def __truediv__(self, other: "Term | float") -> "Term":
        """Return a quotient."""
        return Term("Div", (self, _term(other)))


def _term(value: Term | float) -> Term:
    return value if isinstance(value, Term) else Term(value=float(value))


def of(op_type: str, *inputs: Term | float, **attrs: float) -> Term:
    """Return the term of a node."""
    return Term(op_type, tuple(_term(i) for i in inputs), attrs=tuple(attrs.items()))


X = Term()
RELU6 = (of("Clip", X + 3, 0, 6), of("Min", of("Relu", X + 3), 6))
ERFC = of("Sub", 1, of("Erf", of("Neg", X) * math.sqrt(0.5)))
"""1 + erf(x / sqrt(2)), as TensorFlow has it."""
ERF = (of("Erf", X / math.sqrt(2)), of("Erf", X * math.sqrt(0.5)))

PATTERNS: tuple[tuple[str, Mapping[str, Any], tuple[Term, ...]], ...] = (
    ("Swish", {}, (X * of("Sigmoid", X), X * of("Sigmoid", X * 1))),
    ("Mish", {}, (X * of("Tanh", of("Softplus", X)),)),
    (
        "HardSwish", {},
        (
            X * of("HardSigmoid", X, alpha=1 / 6, beta=0.5),
            *(
                spelled
                for g in RELU6
                for spelled in (
                    X * g / 6, X * g * (1 / 6), X * (g / 6), X * (g * (1 / 6)), X / 6 * g,
                    X * (1 / 6) * g,
                )
            ),
        ),
    ),
    (
        "HardSigmoid", {"alpha": 1 / 6, "beta": 0.5},
        tuple(spelled for g in RELU6 for spelled in (g / 6, g * (1 / 6))),
    ),
    (
        "Gelu", {},
        (
            X * 0.5 * ERFC,
            *(
                spelled
                for e in ERF
                for spelled in (
                    X * (e + 1) * 0.5, X * 0.5 * (e + 1), X * ((e + 1) * 0.5), X * (e * 0.5 + 0.5),
                )
            ),
        ),
    ),
)  # fmt: skip
"""Operator, its attributes, and the spellings that it has; longer ones first."""


def recognized(
    nodes: Sequence[onnx.NodeProto],
    constants: Mapping[str, Array],
    uses: Counter[str],
    replaceable: Callable[[str, str], bool],
) -> list[onnx.NodeProto]:
    """Return the nodes with patterns replaced.

    Results inside a pattern must have no other reader; ``replaceable`` says of the tensor that is
    ``X`` and of the result whether one operator can make one of the other.
    """
    producers = {node.output[0]: node for node in nodes if len(node.output) == 1}
    matcher = _Matcher(producers, constants, uses)
    replaced: dict[int, onnx.NodeProto] = {}
    dropped: set[int] = set()
    for root in reversed(nodes):
        if id(root) in dropped or root.op_type not in ("Mul", "Div"):
            continue
        for op_type, attrs, terms in PATTERNS:
            found = next((m for term in terms for m in matcher.root(root, term)), None)
            if found is None or not replaceable(found.x, root.output[0]):
                continue
            made = helper.make_node(op_type, [found.x], root.output, root.name, **attrs)
            made.doc_string = root.doc_string
            made.metadata_props.extend(root.metadata_props)
            replaced[id(root)] = made
            dropped.update(id(node) for node in found.nodes)
            break
    return [replaced.get(id(node), node) for node in nodes if id(node) not in dropped]


@dataclasses.dataclass(frozen=True)
class _Match:
    """What stands for ``X``, if that is known yet, and the nodes inside."""

    x: str = ""
    nodes: tuple[onnx.NodeProto, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Matcher:
    producers: Mapping[str, onnx.NodeProto]
    constants: Mapping[str, Array]
    uses: Counter[str]

    def root(self, node: onnx.NodeProto, term: Term) -> Iterator[_Match]:
        """Yield the ways in which a node is a term."""
        if node.op_type == term.op_type and node.domain in DEFAULT_DOMAINS:
            yield from self._inputs(node, term, _Match())

    def _is(self, name: str, term: Term, match: _Match) -> Iterator[_Match]:
        """Yield the ways in which a tensor is a term, given what is matched so far."""
        if term.value is not None:
            value = self.constants.get(name)
            if value is not None and value.size and _near(value, term.value):
                yield match
        elif not term.op_type:
            if name not in self.constants and match.x in ("", name):
                yield dataclasses.replace(match, x=name)
        else:
            node = self.producers.get(name)
            if (
                node is not None
                and node.op_type == term.op_type
                and node.domain in DEFAULT_DOMAINS
                and self.uses[name] == 1
            ):
                inside = dataclasses.replace(match, nodes=(*match.nodes, node))
                yield from self._inputs(node, term, inside)

    def _inputs(self, node: onnx.NodeProto, term: Term, match: _Match) -> Iterator[_Match]:
        attrs = attributes_of(node)
        wanted = term.inputs
        if node.op_type == "Clip" and len(node.input) == 1:
            limits = [attrs.get(key) for key in ("min", "max")]
            if any(
                found is None or not _near(np.array(found), limit.value or 0.0)
                for found, limit in zip(limits, wanted[1:], strict=True)
            ):
                return
            wanted = wanted[:1]
        if len(node.input) != len(wanted) or any(
            not _near(np.array(attrs.get(key, math.nan)), value) for key, value in term.attrs
        ):
            return
        orders = [list(node.input)]
        if node.op_type in ("Add", "Mul", "Min"):
            orders.append(list(reversed(node.input)))
        for names in orders:
            matches = [match]
            for name, inner in zip(names, wanted, strict=True):
                matches = [found for m in matches for found in self._is(name, inner, m)]
            yield from matches


def _near(value: Array, wanted: float) -> bool:
    if value.dtype.kind not in "fiu":
        return False
    return bool(np.all(np.abs(value.astype(np.float64) - wanted) <= TOLERANCE * max(1, wanted)))
