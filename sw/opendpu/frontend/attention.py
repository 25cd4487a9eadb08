# SPDX-License-Identifier: Apache-2.0
"""ONNX's operator ``Attention`` as the products, the sum and the softmax that it stands for.

PyTorch writes it from operator set 23 on, and so does JAX's exporter. onnxruntime computes it
whole, on the CPU; its parts are the DPU's. What has a cache of keys, a soft limit of scores, more
results than one or heads that share keys stays.
"""

import itertools
import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.def_use import attributes_of, with_origin
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

Shape = tuple[int, ...]
ShapeOf = Callable[[str], Shape | None]
SUPPORTED = frozenset(("is_causal", "kv_num_heads", "q_num_heads", "scale", "softmax_precision"))
"""Attributes that may be there, whatever they are; others must be zero."""
HEADS = [0, 2, 1, 3]
"""Order of axes between tokens before heads and heads before tokens."""


def with_attention(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    shape_of: ShapeOf,
    add_floats: Callable[[str, Shape], None],
) -> list[onnx.NodeProto]:
    """Return the nodes with attention spelled out.

    ``shape_of`` says the shape of a float32 tensor; ``constants`` gets masks and shapes,
    ``add_floats`` is told what is new.
    """
    found = []
    for node in nodes:
        known = node.op_type == "Attention" and node.domain in DEFAULT_DOMAINS
        writer = _Writer(node, constants, shape_of, add_floats) if known else None
        found += [node] if writer is None else writer.written() or [node]
    return found


class _Writer:
    """Writes one operator's parts."""

    def __init__(
        self, node: onnx.NodeProto, constants: MutableMapping[str, Array], shape_of: ShapeOf,
        add_floats: Callable[[str, Shape], None],
    ) -> None:  # fmt: skip
        self.node, self.constants, self.shape_of = node, constants, shape_of
        self.add_floats = add_floats
        self.attrs = attributes_of(node)
        self.nodes: list[onnx.NodeProto] = []
        self.numbers = itertools.count()

    def written(self) -> list[onnx.NodeProto]:
        """Return the parts; none if the operator has to stay."""
        shapes = [self.shape_of(name) for name in self.node.input[:3]]
        (result,) = self.node.output[:1]
        if any(self.node.output[1:]) or any(self.node.input[4:]) or any(
            value for name, value in self.attrs.items() if name not in SUPPORTED
        ):  # fmt: skip
            return []
        heads = [self.attrs.get(name) for name in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
        split = [s and _split(s, h) for s, h in zip(shapes, heads, strict=True)]
        if len(split) != 3 or not all(split):
            return []
        q, k, v = ((s[0], s[1], s[2], s[3]) for s in split if s)
        mask = self._mask((q[2], k[2]))
        if q[1] != k[1] or v[1] != k[1] or mask is None:
            return []
        given = [
            self._by_head(name, shape or (), new)
            for name, shape, new in zip(self.node.input[:3], shapes, (q, k, v), strict=True)
        ]
        scores = (*q[:3], k[2])
        keys = self._add("Transpose", [given[1]], (*k[:2], k[3], k[2]), perm=[0, 1, 3, 2])
        x = self._add("MatMul", [given[0], keys], scores)
        scale = self._constant(np.array(self.attrs.get("scale", 1 / math.sqrt(q[3])), np.float32))
        x = self._add("Mul", [x, scale], scores)
        if mask:
            x = self._add("Add", [x, mask], scores)
        x = self._add("Softmax", [x], scores, axis=-1)
        x = self._add("MatMul", [x, given[2]], (*q[:3], v[3]))
        if len(shapes[0] or ()) == 3:
            x = self._add("Transpose", [x], (q[0], q[2], q[1], v[3]), perm=HEADS)
            whole = self._constant(np.array([q[0], q[2], q[1] * v[3]], np.int64))
            self._add("Reshape", [x, whole], (q[0], q[2], q[1] * v[3]))
        self.nodes[-1].output[0] = result
        return [with_origin(made, self.node) for made in self.nodes]

    def _mask(self, shape: Shape) -> str | None:
        """Return what is added to scores; nothing if nothing is, none if that is not known."""
        given = self.node.input[3] if len(self.node.input) > 3 else ""
        causal = np.triu(np.full(shape, -np.inf, np.float32), 1)
        if not given:
            return self._constant(causal) if self.attrs.get("is_causal") else ""
        value = self.constants.get(given)
        if value is None:
            return None if self.attrs.get("is_causal") or not self.shape_of(given) else given
        if value.ndim < 2 or value.shape[-1] != shape[-1]:
            return None
        if value.dtype == np.bool_:
            value = np.where(value, 0, -np.inf).astype(np.float32)
        return self._constant(value + causal if self.attrs.get("is_causal") else value)

    def _by_head(self, name: str, shape: Shape, split: Shape) -> str:
        """Return an operand with axes for heads, tokens and channels."""
        if len(shape) == len(split):
            return name
        batch, heads, tokens, channels = split
        apart = (batch, tokens, heads, channels)
        x = self._add("Reshape", [name, self._constant(np.array(apart, np.int64))], apart)
        return self._add("Transpose", [x], split, perm=HEADS)

    def _constant(self, value: Array) -> str:
        name = f"{self.node.output[0]}_constant{next(self.numbers)}"
        self.constants[name] = value
        return name

    def _add(self, kind: str, inputs: list[str], shape: Shape, **attrs: Any) -> str:
        name = f"{self.node.output[0]}_{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attrs))
        self.add_floats(name, shape)
        return name


def _split(shape: Shape, heads: int | None) -> Shape | None:
    """Return batch, heads, tokens and channels of an operand; none if they are not known."""
    if len(shape) == 4:
        return shape
    if len(shape) != 3 or not heads or shape[2] % heads:
        return None
    return shape[0], heads, shape[1], shape[2] // heads
