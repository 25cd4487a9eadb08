# SPDX-License-Identifier: Apache-2.0
"""Nodes that make rows of a feature map of its rows, and columns of its columns, in every channel
alike: products with two constant matrices.

PyTorch's exporter writes adaptive pooling to sizes that are no divisors so, as hundreds of nodes
that gather, hide and add; ``as_strided``, windows and flips look alike. What such nodes do is found
out by letting onnxruntime compute them: of single rows and columns, and then of random numbers, of
which the matrices must make the same. So do pairs of columns that change places, one of them
negated, as rotary embeddings have them.
"""

import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from opendpu.frontend.def_use import with_origin, without_unread
from opendpu.frontend.model_file import reads
from opendpu.frontend.single_node import Dialect, RefusedError
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS

MOVING = frozenset({
    "Concat", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Pad", "Reshape",
    "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
})  # fmt: skip
COMPUTING = frozenset({
    "Add", "Div", "Mul", "Neg", "ReduceMean", "ReduceSum", "Sub", "Sum", "Where",
})  # fmt: skip
SHIFTING, SCALING = ("Add", "Sub", "Sum"), ("Div", "Mul")
"""Operators that do something else with constants: with any, and with one number a channel."""
MAP_RANKS = (3, 4)
"""Axes of feature maps: batch, channels, then space."""
MOST_ROUNDS = 64
"""Runs by which a matrix is found; each is of as many rows as there are channels."""
MOST_NODES = 2000
TOLERANCE = 1e-5
Shape = tuple[int, ...]


def separated(
    nodes: Sequence[onnx.NodeProto],
    constants: MutableMapping[str, Array],
    outputs: Sequence[str],
    shape_of: Callable[[str], Shape | None],
    add_floats: Callable[[str, Shape], None],
    dialect: Dialect,
) -> list[onnx.NodeProto]:
    """Return the nodes with products in place of what gathers elements of several axes.

    ``shape_of`` says the shape of a float32 tensor. ``constants`` gets the matrices, ``add_floats``
    what else is new.
    """
    anchors = [node for node in nodes if _is_anchor(node, constants, shape_of)]
    if not anchors:
        return list(nodes)
    search = _Search(nodes, constants, set(outputs), shape_of, dialect)
    replaced: dict[int, list[onnx.NodeProto]] = {}
    for anchor in anchors:
        if not search.covered.isdisjoint(anchor.output):
            continue
        found = search.around(anchor)
        if found is not None:
            replaced[id(found.last)] = _products(found, constants, add_floats)
    made = [one for node in nodes for one in replaced.get(id(node), [node])]
    return without_unread(made, outputs) if replaced else made


def _is_anchor(
    node: onnx.NodeProto,
    constants: Mapping[str, Array],
    shape_of: Callable[[str], Shape | None],
) -> bool:
    """Return whether a node gathers by known indices of several axes, or stacks columns."""
    if node.domain not in DEFAULT_DOMAINS:
        return False
    if node.op_type == "Concat":
        return _stacks(node, shape_of)
    if node.op_type not in ("Gather", "GatherND") or len(node.input) != 2:
        return False
    indices = constants.get(node.input[1])
    return indices is not None and node.input[0] not in constants and indices.ndim > 1


def _stacks(node: onnx.NodeProto, shape_of: Callable[[str], Shape | None]) -> bool:
    """Return whether a node joins feature maps along an axis behind their columns."""
    shapes = [shape_of(name) or () for name in node.input]
    axes = [attribute.i for attribute in node.attribute if attribute.name == "axis"]
    rank = len(shapes[0]) if shapes else 0
    return (
        rank > MAP_RANKS[0]
        and axes in ([-1], [rank - 1])
        and len(shapes) > 1
        and all(len(shape) == rank and shape[-1] == 1 for shape in shapes)
    )


@dataclasses.dataclass(frozen=True)
class _Map:
    """What makes ``result`` of ``source``: a matrix for each axis of space, ``[made, given]``."""

    source: str
    result: str
    given: Shape
    last: onnx.NodeProto
    matrices: Mapping[int, Array]


class _Search:
    def __init__(
        self,
        nodes: Sequence[onnx.NodeProto],
        constants: Mapping[str, Array],
        outputs: set[str],
        shape_of: Callable[[str], Shape | None],
        dialect: Dialect,
    ) -> None:
        self.nodes, self.constants, self.outputs = nodes, constants, outputs
        self.shape_of, self.dialect = shape_of, dialect
        self.producers = {name: node for node in nodes for name in node.output}
        self.places = {id(node): place for place, node in enumerate(nodes)}
        self.readers: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes:
            for name in reads(node):
                self.readers.setdefault(name, []).append(node)
        self.covered: set[str] = set()
        """What nodes make that products stand for now."""

    def around(self, anchor: onnx.NodeProto) -> _Map | None:
        """Return the map that a node is part of; none if there is none."""
        for source in self._sources(anchor):
            region, given = self._region(source), self.shape_of(source) or ()
            for result in self._results(region):
                shape = self.shape_of(result) or ()
                inside = self._between(region, result)
                alike = len(shape) == len(given) and shape[:2] == given[:2]
                found = self._map(source, result, inside) if alike and anchor in inside else None
                if found is not None:
                    self.covered.update(name for node in inside for name in node.output)
                    return found
        return None

    def _results(self, region: Sequence[onnx.NodeProto]) -> list[str]:
        """Return what nodes make, the last first; before others what is read by other nodes."""
        every = [name for node in reversed(region) for name in node.output]
        members = {id(node) for node in region}

        def is_inner(name: str) -> bool:
            readers = self.readers.get(name, [])
            return name not in self.outputs and all(id(node) in members for node in readers)

        return sorted(every, key=is_inner)

    def _sources(self, anchor: onnx.NodeProto) -> list[str]:
        """Return the feature maps that a node may gather from: before what only moves it."""
        found, name = [], anchor.input[0]
        while True:
            shape = self.shape_of(name)
            if shape is not None and len(shape) in MAP_RANKS:
                found.append(name)
            node = self.producers.get(name)
            if (
                node is None
                or node.op_type not in MOVING | {"Neg"}
                or node.domain not in DEFAULT_DOMAINS
            ):
                return found[::-1]
            name = node.input[0]

    def _region(self, source: str) -> list[onnx.NodeProto]:
        """Return the nodes that only a tensor and constants reach, and that may be linear."""
        reached, region = {source}, []
        start = self.places[id(self.producers[source])] if source in self.producers else -1
        for node in self.nodes[start + 1 :]:
            given = [name for name in reads(node) if name not in self.constants]
            if not given or not reached.issuperset(given) or not self._may_belong(node):
                continue
            region.append(node)
            reached.update(node.output)
            if len(region) > MOST_NODES:
                return []
        return region

    def _may_belong(self, node: onnx.NodeProto) -> bool:
        if node.domain not in DEFAULT_DOMAINS:
            return False
        if node.op_type in MOVING:
            return True
        given = [self.constants[name] for name in node.input if name in self.constants]
        if node.op_type in SHIFTING and given:
            return False
        scales = node.op_type in SCALING and any(
            value.size in value.shape[-3:-2] for value in given
        )
        return node.op_type in COMPUTING and not scales

    def _between(self, region: Sequence[onnx.NodeProto], result: str) -> list[onnx.NodeProto]:
        needed, inside = {result}, []
        for node in reversed(region):
            if not needed.isdisjoint(node.output):
                needed.update(reads(node))
                inside.append(node)
        return inside[::-1]

    def _map(self, source: str, result: str, inside: Sequence[onnx.NodeProto]) -> _Map | None:
        """Return the matrices of what nodes do; none if they do something else."""
        given = self.shape_of(source)
        assert given is not None
        if max(-(-size // given[1]) for size in given[2:]) > MOST_ROUNDS:
            return None
        constants = {
            name: self.constants[name]
            for node in inside for name in reads(node) if name in self.constants
        }  # fmt: skip
        kind = helper.make_tensor_type_proto(TensorProto.FLOAT, given)
        model = self.dialect.model(inside, {source: kind}, constants, [result])
        try:
            session = self.dialect.session(model)

            def run(x: Array) -> Array:
                return np.asarray(session.run([result], {source: x})[0])

            matrices = {axis: _matrix(run, given, axis) for axis in range(2, len(given))}
            noise = np.random.default_rng(0).standard_normal(given).astype(np.float32)
            found = run(noise)
        except (RefusedError, RuntimeError):
            return None
        wanted: Array = noise
        for axis, matrix in matrices.items():
            wanted = np.moveaxis(np.moveaxis(wanted, axis, -1) @ matrix.T, -1, axis)
        if found.shape == wanted.shape and _is_opposite(found, wanted):
            last_axis = max(matrices)
            matrices[last_axis], wanted = -matrices[last_axis], -wanted
        near = found.shape == wanted.shape and np.allclose(found, wanted, TOLERANCE, TOLERANCE)
        last = self.producers[result]
        return _Map(source, result, given, last, matrices) if near else None


def _is_opposite(found: Array, wanted: Array) -> bool:
    """Return whether a result is the other one times a negative number.

    Ones along an axis tell the sign of the matrix of another one with their sum.
    """
    return float(np.vdot(found, wanted)) < 0


def _matrix(run: Callable[[Array], Array], shape: Shape, axis: int) -> Array:
    """Return what each result along an axis is made of, ``[made, given]``.

    Each channel gets ones at one place of that axis. Means over the others must be means.
    """
    size, channels = shape[axis], shape[1]
    columns = []
    for first in range(0, size, channels):
        x = np.zeros(shape, np.float32)
        count = min(channels, size - first)
        for n in range(count):
            x[(0, n, *(slice(None) if a != axis else first + n for a in range(2, len(shape))))] = 1
        made = run(x)[0, :count]
        columns += list(np.moveaxis(made, axis - 1, 1).reshape(count, made.shape[axis - 1], -1))
    return np.stack(columns, axis=1)[..., 0]


def _products(
    found: _Map, constants: MutableMapping[str, Array], add_floats: Callable[[str, Shape], None]
) -> list[onnx.NodeProto]:
    """Return products with the matrices that change something, the last one with the result."""
    name, shape, last, made = found.source, list(found.given), len(found.given) - 1, []
    kept = {
        axis: matrix for axis, matrix in found.matrices.items()
        if not np.array_equal(matrix, np.eye(len(matrix)))
    }  # fmt: skip
    if not kept:
        node = helper.make_node("Identity", [name], [found.result], found.last.name)
        return [with_origin(node, found.last)]
    for axis, matrix in kept.items():
        constant = f"{found.result}_matrix{axis}"
        columns = axis == last
        constants[constant] = np.ascontiguousarray(matrix.T if columns else matrix)
        result = found.result if axis == max(kept) else f"{found.result}_rows"
        operands = [name, constant] if columns else [constant, name]
        node = helper.make_node("MatMul", operands, [result], f"{found.last.name}_{axis}")
        made.append(with_origin(node, found.last))
        shape[axis] = len(matrix)
        if result != found.result:
            add_floats(result, tuple(shape))
        name = result
    return made
