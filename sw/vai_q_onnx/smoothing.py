# SPDX-License-Identifier: Apache-2.0
"""Scales moved from activations into the weights of products (Xiao et al., arXiv 2211.10438).

One scale has to hold all channels of an activation, so a single channel with large values takes
bits from the others. What makes the activation (a LayerNorm's scale, a product, factors and terms
that are constants) is divided by a factor a channel, and the rows of the weights that read it are
multiplied with it; the model computes the same. Activations of which something else is made too, a
sum around the block, say, stay as they are.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.model_file import (
    ParsedModel,
    captured,
    constants_of,
    constants_of_nodes,
    reads,
)
from opendpu.ir import Array
from opendpu.ops.inference import open_session
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.calibration import Batch

ALPHA = 0.5
"""How much of an activation's range goes into the weights: 0 for none of it, 1 for all."""

PRODUCTS = ("MatMul", "Gemm")
PASSING = ("Relu", "Identity")
"""Operators whose result has the factors of their input."""

LEAST = 1e-5
"""Factors are no smaller; channels without values, or without weights, keep theirs of one."""

Factors = npt.NDArray[np.float64]


def checked_alpha(given: object) -> float:
    """Return the option ``SmoothAlpha``.

    Raises
    ------
    UnsupportedError
        It is no number from 0 to 1.
    """
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
        raise UnsupportedError(f"SmoothAlpha is {given!r}, but must be a number from 0 to 1")
    return float(given)


def smoothed(model: ParsedModel, batches: Iterable[Batch], alpha: float) -> tuple[ParsedModel, int]:
    """Return a model whose products read smoother activations, and how many activations those are.

    Parameters
    ----------
    model
        The float model; it stays as it is.
    batches
        Samples, by input.
    alpha
        See :data:`ALPHA`.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    work = _Work(proto, constants_of(proto.graph, model.folder)[0])
    found = list(work.activations())
    if found:
        ranges = _ranges(model, [one.name for one in found], batches)
        for one in found:
            work.scale(one, ranges[one.name], alpha)
        work.write()
    return ParsedModel(model.label, proto, model.folder), len(found)


@dataclasses.dataclass(frozen=True)
class _Activation:
    """An activation that can be scaled by channel.

    ``products`` read it and nothing else does; ``makers`` are the constants that it is made of: the
    number of a node, that of its input, and the axis of its channels.
    """

    name: str
    products: tuple[int, ...]
    makers: tuple[tuple[int, int, int], ...]


class _Work:
    """A model while its constants change."""

    def __init__(self, proto: onnx.ModelProto, constants: Mapping[str, Array]) -> None:
        self.graph = proto.graph
        self.nodes = list(proto.graph.node)
        self.constants = {**constants, **constants_of_nodes(self.nodes)}
        self.changed: dict[tuple[int, int], Array] = {}
        self.maker = {name: i for i, node in enumerate(self.nodes) for name in node.output}
        self.readers: dict[str, list[int]] = {}
        self.kept = {item.name for item in proto.graph.output}
        for index, node in enumerate(self.nodes):
            self.kept.update(captured(node))
            for name in reads(node):
                self.readers.setdefault(name, []).append(index)

    def activations(self) -> Iterator[_Activation]:
        """Yield what can be scaled."""
        for name, readers in self.readers.items():
            if name in self.kept or not all(self._is_reader(i, name) for i in readers):
                continue
            makers = self._makers(name)
            if makers:
                yield _Activation(name, tuple(dict.fromkeys(readers)), tuple(makers))

    def value(self, node: int, index: int) -> Array | None:
        """Return a constant input of a node."""
        inputs = self.nodes[node].input
        name = inputs[index] if index < len(inputs) else ""
        return self.changed.get((node, index), self.constants.get(name))

    def scale(self, one: _Activation, largest: Factors, alpha: float) -> None:
        """Divide an activation's channels by the factors that are best for it."""
        rows = [self._rows(index) for index in one.products]
        weights = np.max([np.abs(part).max(axis=1) for part in rows], axis=0).astype(np.float64)
        usable = (largest > 0) & (weights > 0)
        factor = np.where(usable, largest, 1) ** alpha / np.where(usable, weights, 1) ** (1 - alpha)
        factor = np.where(usable, np.maximum(factor, LEAST), 1.0)
        for index, part in zip(one.products, rows, strict=True):
            scaled = part * factor[:, np.newaxis]
            self._set(index, 1, scaled.T if _is_transposed(self.nodes[index]) else scaled)
        for node, index, axis in one.makers:
            value = self.value(node, index)
            assert value is not None
            if axis == -1 and value.shape[-1:] != factor.shape:
                value = np.broadcast_to(value, (*value.shape[:-1], len(factor)))
            self._set(node, index, value / (factor if axis == -1 else factor[:, np.newaxis]))

    def write(self) -> None:
        """Put changed constants beside those that there were, which others may read."""
        taken = {name for node in self.nodes for name in (*node.input, *node.output)}
        for (node, index), value in self.changed.items():
            name = f"{self.nodes[node].input[index]}_smoothed"
            while name in taken:
                name += "_"
            taken.add(name)
            self.nodes[node].input[index] = name
            self.graph.initializer.append(numpy_helper.from_array(value, name))

    def _set(self, node: int, index: int, value: Array) -> None:
        before = self.value(node, index)
        assert before is not None
        self.changed[node, index] = np.ascontiguousarray(value, before.dtype)

    def _rows(self, node: int) -> Array:
        """Return a product's weights, a row for each channel that it reads."""
        value = self.value(node, 1)
        assert value is not None
        return value.T if _is_transposed(self.nodes[node]) else value

    def _is_reader(self, index: int, name: str) -> bool:
        """Tell whether a node multiplies a tensor with constant weights."""
        return self._is_product(index) and list(self.nodes[index].input).count(name) == 1

    def _is_product(self, index: int) -> bool:
        node, value = self.nodes[index], self.value(index, 1)
        plain = not node.domain and node.op_type in PRODUCTS and not _attribute(node, "transA", 0)
        return plain and value is not None and value.ndim == 2 and value.dtype.kind == "f"

    def _makers(self, name: str) -> list[tuple[int, int, int]] | None:
        """Return the constants that a tensor's channels are scaled by; nothing if there are none
        or others are in the way."""
        index = self.maker.get(name)
        node = None if index is None else self.nodes[index]
        if index is None or node is None or node.domain:
            return None
        if node.op_type == "LayerNormalization":
            return self._of_norm(index)
        if self._is_product(index):
            axis = 0 if _is_transposed(node) else -1
            more = [(index, 2, -1)] if node.op_type == "Gemm" and len(node.input) > 2 else []
            return [(index, 1, axis), *more] if self._are_constant(index, more) else None
        if node.op_type in PASSING:
            return self._inner(node.input[0])
        if node.op_type in ("Add", "Mul"):
            return self._of_constant(index)
        return None

    def _of_norm(self, index: int) -> list[tuple[int, int, int]] | None:
        node = self.nodes[index]
        found = [(index, i, -1) for i in (1, 2) if i < len(node.input) and node.input[i]]
        scale = self.value(index, 1)
        single = scale is not None and scale.ndim == 1  # else it is over several axes
        return found if single and self._are_constant(index, found) else None

    def _of_constant(self, index: int) -> list[tuple[int, int, int]] | None:
        """Return the constants that make a sum with, or a multiple by, a constant."""
        node = self.nodes[index]
        sides = [i for i in (0, 1) if (value := self.value(index, i)) is not None and value.ndim]
        if len(sides) != 1:
            return None
        found = [(index, sides[0], -1)]
        if node.op_type == "Mul":
            return found
        inner = self._inner(node.input[1 - sides[0]])
        return None if inner is None else [*found, *inner]

    def _inner(self, name: str) -> list[tuple[int, int, int]] | None:
        alone = len(self.readers.get(name, ())) == 1 and name not in self.kept
        return self._makers(name) if alone else None

    def _are_constant(self, index: int, found: Sequence[tuple[int, int, int]]) -> bool:
        return all(self.value(index, i) is not None for _, i, _ in found)


def _is_transposed(node: onnx.NodeProto) -> bool:
    return node.op_type == "Gemm" and bool(_attribute(node, "transB", 0))


def _attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    found = [helper.get_attribute_value(a) for a in node.attribute if a.name == name]
    return int(found[0]) if found else default


def _ranges(
    model: ParsedModel, names: Sequence[str], batches: Iterable[Batch]
) -> dict[str, Factors]:
    """Return the largest magnitude of each channel of some tensors."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model.proto)
    del watched.graph.output[:]
    watched.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    elsewhere = {t.name for t in watched.graph.initializer if t.data_location == t.EXTERNAL}
    values = constants_of(watched.graph, model.folder)[0] if elsewhere else {}
    run = open_session(watched, weights={name: values[name] for name in elsewhere})
    found: dict[str, Factors] = {}
    for batch in batches:
        for name, value in zip(names, run.run(list(names), dict(batch)), strict=True):
            largest = np.abs(value).reshape(-1, value.shape[-1]).max(axis=0).astype(np.float64)
            found[name] = np.maximum(found.get(name, largest), largest)
    return found
