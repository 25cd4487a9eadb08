# SPDX-License-Identifier: Apache-2.0
"""Types of all values of a model, and values of all that its inputs do not change.

What exporters compute from shapes (Shape, Gather, Concat, Range …) is known once the shapes of the
inputs are, and so are conditions made of it.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import TypeProto, helper

from opendpu.frontend.frames import shape_of_frames, stacked
from opendpu.frontend.instances import instance
from opendpu.frontend.model_file import label_of, reads
from opendpu.frontend.refusal import MALFORMED
from opendpu.frontend.sequences import Members, put_together
from opendpu.frontend.single_node import (
    ContradictionError,
    Dialect,
    dtype_of,
    evaluate,
    output_types,
    shape_of,
    type_of,
)
from opendpu.ir import Array, TensorType
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.quantizing import OPERATORS, ROUNDINGS

Rule = Callable[[onnx.NodeProto, "Analysis"], list[onnx.NodeProto] | None]
"""Returns what a node stands for, given all that is known before it; None where it stays."""

GRAPH = onnx.AttributeProto.GRAPH
BRANCHES = ("then_branch", "else_branch")
FACTORS = {"Resize": 2, "Upsample": 1}
"""The input that says how much larger a result is: tools that quantize all constants round it."""


class Analysis:
    """Walks over nodes in topological order.

    Parameters
    ----------
    dialect
        Operator sets of the model.
    constants
        The initializers; what nodes make of them is added.
    inputs
        Types of the inputs.
    declared
        Types that the file gives for other values; results of operators that nobody can infer have
        those.
    rules
        What some nodes are written as instead.
    """

    def __init__(
        self,
        dialect: Dialect,
        constants: dict[str, Array],
        inputs: Mapping[str, TensorType],
        declared: Mapping[str, TypeProto],
        rules: Sequence[Rule] = (),
    ) -> None:
        self.dialect = dialect
        self.constants = constants
        self.declared = declared
        self.rules = rules
        self.members: dict[str, Members] = {}
        """Of sequences, as far as they are known."""
        self.frames: dict[str, tuple[str, ...]] = {}
        """Of volumes that are written frame by frame."""
        self.nodes: list[onnx.NodeProto] = []
        """Nodes that compute something."""
        self.types: dict[str, TypeProto] = {
            name: helper.make_tensor_type_proto(
                helper.np_dtype_to_tensor_dtype(made.dtype), made.shape
            )
            for name, made in inputs.items()
        }
        """By value, constants excluded."""
        self.faults: list[str] = []
        self._lost: set[str] = set()
        self._rounded: dict[str, onnx.NodeProto] = {}
        """Quantizing nodes by their result."""

    @property
    def opset(self) -> int:
        """Version of ONNX's own operator set."""
        return self.dialect.opset

    def inner(self) -> "Analysis":
        """Return another one that knows the same, for nodes that may be taken in or not."""
        made = Analysis(self.dialect, dict(self.constants), {}, {}, self.rules)
        made.types |= self.types
        made.members |= self.members
        made.frames |= self.frames
        return made

    def run(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Take nodes in: as constants, or with the types of their outputs."""
        for node in nodes:
            if self._lost.isdisjoint(reads(node)):
                self._take(node)
            else:
                self._lost.update(node.output)

    def crosses(self, name: str) -> bool:
        """Return whether a value is a tensor of numbers whose shape is known."""
        if name not in self.types:
            return name in self.constants
        kind = self.types[name]
        return dtype_of(kind) is not None and shape_of(kind) is not None

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a constant or computed tensor; nothing if it is not known."""
        if name in self.constants:
            return self.constants[name].shape
        if name in self.frames and name not in self.types:
            return shape_of_frames(self.frames[name], self)
        return shape_of(self.types[name]) if name in self.types else None

    def alike(self, *names: str) -> bool:
        """Return whether computed tensors are float32, all of one shape as far as is known."""
        kinds = [self.types[name] for name in names if name in self.types]
        return (
            len(kinds) == len(names)
            and all(dtype_of(kind) == np.float32 for kind in kinds)
            and len({shape_of(kind) for kind in kinds}) == 1
        )

    def shape_of_floats(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a computed tensor of float32; none where that is not known."""
        kind = self.types.get(name)
        if kind is None or dtype_of(kind) != np.float32:
            return None
        return shape_of(kind)

    def add_floats(self, name: str, shape: tuple[int, ...]) -> None:
        """Take in a computed tensor of float32 that the file has not."""
        self.types[name] = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, shape)

    def _take(self, node: onnx.NodeProto) -> None:
        node = self._without_empties(self._as_cast(node))
        branched = _is_branch(node)
        graphs = {item.name for item in node.attribute if item.type == GRAPH}
        if branched and not graphs.issuperset(BRANCHES):
            self.faults.append(f"node {label_of(node)} lacks one of {' and '.join(BRANCHES)}")
            self._lost.update(node.output)
            return
        if branched and self._is_decided(node):
            taken = bool(self.constants[node.input[0]].ravel()[0])
            self.run(_branch(node, BRANCHES[0] if taken else BRANCHES[1]))
            return
        quantizing = _is_quantizing(node)
        if quantizing and node.output:
            self._rounded[node.output[0]] = node
        factors = FACTORS.get(node.op_type)
        if factors is not None and factors < len(node.input):
            self._evaluate(node.input[factors])
        if not quantizing and (self._measured(node) or self._folded(node) or self._written(node)):
            return
        self._keep(node)

    def _written(self, node: onnx.NodeProto) -> bool:
        """Take what a node stands for instead of it; return whether it stands for something."""
        for rule in self.rules:
            found = None
            with contextlib.suppress(*MALFORMED):  # who converts the node says what is wrong
                found = rule(node, self)
            if found is not None:
                self.run(found)
                return True
        return False

    def settle(self, names: Iterable[str]) -> None:
        """Make sequences, and volumes, of what they are known to hold, for who reads these."""
        for name in names:
            if name in self.types:
                continue
            if name in self.members:
                self._keep(put_together(name, self.members[name]))
            elif name in self.frames:
                self.run(stacked(name, self.frames[name], self))

    def _keep(self, node: onnx.NodeProto) -> None:
        """Take a node in with the types of its outputs."""
        self.settle(reads(node))
        quantizing = _is_quantizing(node)
        self.nodes.append(node)
        try:
            self.types |= output_types(self.dialect, node, self.types, self.constants)
        except ContradictionError as error:
            self.faults.append(f"the types of node {label_of(node)} contradict each other: {error}")
            self._lost.update(node.output)
            return
        if _is_branch(node):
            self._agree(node)
        if quantizing and all((node.input, node.output)) and self.shape(node.output[0]) is None:
            self._keep_shape(node)
        elif node.domain not in DEFAULT_DOMAINS:
            self._believe(node)

    def _evaluate(self, name: str) -> None:
        """Take what quantizing nodes make of constants as a constant."""
        node = self._rounded.get(name)
        if node is None or name in self.constants:
            return
        for source in reads(node):
            self._evaluate(source)
        if all(source in self.constants for source in reads(node)):
            self.constants.update(evaluate(self.dialect, node, self.constants) or {})

    def _agree(self, node: onnx.NodeProto) -> None:
        """Take the types of an ``If``'s results where its branches do not contradict each other.

        A branch for other inputs than the given ones tells nothing.
        """
        known = {name for name in node.output if self.shape(name) is not None}
        if known.issuperset(filter(None, node.output)):
            return
        branches = []
        for wanted in BRANCHES:
            inner = self.inner()
            inner.run(_branch(node, wanted))
            branches.append(inner)
        for name in node.output:
            telling = [one for one in branches if one.shape(name) is not None]
            if name not in known and len({one.shape(name) for one in telling}) == 1:
                one = telling[0]
                self.types[name] = one.types.get(name) or type_of(one.constants[name])

    def _believe(self, node: onnx.NodeProto) -> None:
        """Take the types that the file declares where those of an operator are unknown."""
        for name in node.output:
            known, said = self.types.get(name), self.declared.get(name)
            if said is not None and shape_of(said) is not None:
                same = known is None or dtype_of(known) == dtype_of(said)
                if same and (known is None or shape_of(known) is None):
                    self.types[name] = said

    def _keep_shape(self, node: onnx.NodeProto) -> None:
        """Say what quantizers' own operators make, which onnx does not know."""
        shape, known = self.shape(node.input[0]), self.types.get(node.output[0])
        if shape is not None:
            dtype = known.tensor_type.elem_type if known else onnx.TensorProto.FLOAT
            self.types[node.output[0]] = helper.make_tensor_type_proto(dtype, shape)

    def _as_cast(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return a CastLike as the Cast that it is: it reads the type of its second input only.

        PyTorch's exporter, before it optimizes, makes the zeros of missing biases with it.
        """
        plain = node.op_type == "CastLike" and node.domain in DEFAULT_DOMAINS
        if not plain or len(node.input) != 2:
            return node
        like = node.input[1]
        known = self.constants[like].dtype if like in self.constants else None
        dtype = known or (dtype_of(self.types[like]) if like in self.types else None)
        if dtype is None:
            return node
        cast = onnx.NodeProto()
        cast.CopyFrom(node)
        cast.op_type = "Cast"
        del cast.input[1]
        cast.attribute.append(helper.make_attribute("to", helper.np_dtype_to_tensor_dtype(dtype)))
        return cast

    def _without_empties(self, node: onnx.NodeProto) -> onnx.NodeProto:
        """Return a Concat without operands that have no elements, as loops begin with them."""
        if node.op_type != "Concat" or node.domain not in DEFAULT_DOMAINS:
            return node
        full = [name for name in node.input if 0 not in (self.shape(name) or ())]
        if len(full) == len(node.input) or not full:
            return node
        made = onnx.NodeProto()
        made.CopyFrom(node)
        made.input[:] = full
        if len(full) == 1:
            made.op_type = "Identity"
            del made.attribute[:]
        return made

    def _measured(self, node: onnx.NodeProto) -> bool:
        """Take Shape and Size of a tensor as constants; return whether it was one."""
        if node.op_type not in ("Shape", "Size") or node.domain not in DEFAULT_DOMAINS:
            return False
        shape = self.shape(node.input[0])
        if shape is None:
            return False
        if node.op_type == "Size":
            self.constants[node.output[0]] = np.array(np.prod(shape, dtype=np.int64))
            return True
        limits = {item.name: item.i for item in node.attribute}
        part = shape[limits.get("start", 0) : limits.get("end", len(shape))]
        self.constants[node.output[0]] = np.array(part, dtype=np.int64)
        return True

    def _folded(self, node: onnx.NodeProto) -> bool:
        """Take the results of a node as constants if its inputs are; return whether they are."""
        if any(name not in self.constants for name in reads(node)):
            return False
        try:
            found = evaluate(self.dialect, node, self.constants)
        except ValueError as error:
            self.faults.append(f"constant {node.output[0]!r} cannot be read: {error}")
            self._lost.update(node.output)
            return True
        if found is None:
            return False
        self.constants.update(found)
        return True

    def _is_decided(self, node: onnx.NodeProto) -> bool:
        """Return whether the condition of an ``If`` is known."""
        return (
            len(node.input) == 1
            and node.input[0] in self.constants
            and self.constants[node.input[0]].size == 1
        )


def _is_branch(node: onnx.NodeProto) -> bool:
    return node.op_type == "If" and node.domain in DEFAULT_DOMAINS


def _is_quantizing(node: onnx.NodeProto) -> bool:
    return node.op_type in (*OPERATORS, *ROUNDINGS)


def _branch(node: onnx.NodeProto, wanted: str) -> list[onnx.NodeProto]:
    """Return the nodes of a branch of an ``If``, which make its outputs."""
    graph = next(item.g for item in node.attribute if item.name == wanted and item.type == GRAPH)
    made, results = instance(graph, f"{node.name or node.output[0]}/{wanted}/", {})
    for result, output in zip(results, node.output, strict=False):
        if output:
            made.append(helper.make_node("Identity", [result], [output]))
    return made
