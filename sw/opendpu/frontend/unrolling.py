# SPDX-License-Identifier: Apache-2.0
"""Loops whose rounds are known while a model is read, as what every round computes.

Programs repeat a block with other weights each time, treat one frame or one head after the other,
or fold over layers (JAX). As a loop that is onnxruntime's; written out, the DPU computes it. Loops
over time steps, whose products have one row each, stay: a step waits for the one before.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.instances import instance
from opendpu.frontend.model_file import all_nodes
from opendpu.ops.foreign import DEFAULT_DOMAINS

if TYPE_CHECKING:
    from opendpu.frontend.analysis import Analysis

FIRST_SCAN = 9
"""The first operator set whose Scan is one sample's; that of set 8 has batches."""
MOST_NODES = 1 << 10
"""Nodes of the longest loop that is written out."""
WINDOWS = frozenset({
    "AveragePool", "Conv", "ConvInteger", "ConvTranspose", "GlobalAveragePool", "MaxPool",
    "QLinearConv", "Resize", "Upsample",
})  # fmt: skip
"""Operators on feature maps, which a DPU has more to do with than with their hand-over."""
PRODUCTS = frozenset({"Attention", "Einsum", "Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})


def unrolled(node: onnx.NodeProto, known: "Analysis") -> list[onnx.NodeProto] | None:
    """Return what a ``Loop`` or ``Scan`` computes, round by round; None where it stays."""
    if node.domain not in DEFAULT_DOMAINS or node.op_type not in ("Loop", "Scan"):
        return None
    body = next((item.g for item in node.attribute if item.name == "body"), None)
    if body is None or not any(
        inner.op_type in WINDOWS | PRODUCTS for inner in all_nodes(body.node)
    ):
        return None
    trial = known.inner()
    found = (_Loop if node.op_type == "Loop" else _Scan)(node, body, trial).written()
    if found is None or trial.faults or not _pays(trial):
        return None
    return found


def _pays(trial: "Analysis") -> bool:
    """Return whether some round has feature maps, or a product with several rows."""
    for node in trial.nodes:
        if node.op_type in WINDOWS:
            return True
        if node.op_type in PRODUCTS:
            shape = trial.shape(node.output[0])
            if shape is not None and int(np.prod(shape[:-1])) > 1:
                return True
    return False


class _Rounds:
    """Writes the rounds of a node, one after the other."""

    def __init__(self, node: onnx.NodeProto, body: onnx.GraphProto, trial: "Analysis") -> None:
        self.node = node
        self.body = body
        self.trial = trial
        self.title = node.name or next(filter(None, node.output), "")
        self.nodes: list[onnx.NodeProto] = []

    def round(self, number: int, given: Sequence[str]) -> list[str] | None:
        """Write a round that gets some values; return what it makes, None if that is too much."""
        names = [item.name for item in self.body.input]
        if len(names) != len(given):
            return None
        made, results = instance(
            self.body, f"{self.title}/{number}/", dict(zip(names, given, strict=True))
        )
        self.add(*made)
        return None if len(self.nodes) > MOST_NODES or self.trial.faults else results

    def add(self, *nodes: onnx.NodeProto) -> None:
        """Append nodes, and find what they make."""
        self.nodes += nodes
        self.trial.run(nodes)

    def constant(self, name: str, value: npt.ArrayLike) -> str:
        """Append a constant of this node."""
        made = f"{self.title}/{name}"
        tensor = numpy_helper.from_array(np.asarray(value))
        self.add(helper.make_node("Constant", [], [made], value=tensor))
        return made

    def end(
        self, states: Sequence[str], stacks: Sequence[tuple[Sequence[str], int]]
    ) -> list[onnx.NodeProto] | None:
        """Bind the results: last states, and what all rounds made, along an axis each."""
        results = list(self.node.output)
        for output, state in zip(results, states, strict=False):
            if output:
                self.add(helper.make_node("Identity", [state], [output]))
        for output, (members, axis) in zip(results[len(states) :], stacks, strict=False):
            if not output:
                continue
            if not members:
                return None
            held = f"{output}/rounds"
            self.add(
                helper.make_node("SequenceConstruct", list(members), [held]),
                helper.make_node("ConcatFromSequence", [held], [output], axis=axis, new_axis=1),
            )
        return self.nodes


class _Loop(_Rounds):
    """Rounds up to a number, as long as a condition holds; both are known."""

    def written(self) -> list[onnx.NodeProto] | None:
        """Return what all rounds compute, if it is known how many there are."""
        most, condition = (*self.node.input[:2], "", "")[:2]
        states = list(self.node.input[2:])
        stacked = len(self.body.output) - 1 - len(states)
        limit = self._known(most)
        if stacked < 0 or (limit is None and (most or not condition)):
            return None
        stacks: list[list[str]] = [[] for _ in range(stacked)]
        number = 0
        while limit is None or number < limit:
            goes_on = self._known(condition)
            if goes_on is None and condition:
                return None
            if goes_on is not None and not goes_on:
                break
            given = [self.constant(f"{number}", np.int64(number)), condition or self._always()]
            results = self.round(number, [*given, *states])
            if results is None:
                return None
            condition, states = results[0], results[1 : 1 + len(states)]
            for stack, name in zip(stacks, results[1 + len(states) :], strict=True):
                stack.append(name)
            number += 1
        return self.end(states, [(stack, 0) for stack in stacks])

    def _known(self, name: str) -> int | None:
        value = self.trial.constants.get(name)
        return int(value.ravel()[0]) if value is not None and value.size == 1 else None

    def _always(self) -> str:
        return self.constant("always", np.bool_(True))


class _Scan(_Rounds):
    """A round for each element along an axis of some inputs."""

    def written(self) -> list[onnx.NodeProto] | None:
        """Return what all rounds compute, if it is known how many there are."""
        attrs = {item.name: item for item in self.node.attribute}
        scans = int(attrs["num_scan_inputs"].i) if "num_scan_inputs" in attrs else 0
        count = len(self.node.input) - scans
        stacked = len(self.body.output) - count
        if self.trial.opset < FIRST_SCAN or min(scans, count + 1, stacked + 1) < 1:
            return None

        def each(name: str, amount: int) -> list[int]:
            return list(attrs[name].ints) if name in attrs else [0] * amount

        scanned = list(
            zip(
                self.node.input[count:],
                each("scan_input_axes", scans),
                each("scan_input_directions", scans),
                strict=True,
            )
        )
        states, stacks = list(self.node.input[:count]), [list[str]() for _ in range(stacked)]
        length = self._length([(name, axis) for name, axis, _ in scanned])
        if length is None:
            return None
        for number in range(length):
            given = [
                self._element(name, axis, length - 1 - number if back else number)
                for name, axis, back in scanned
            ]
            results = self.round(number, [*states, *given])
            if results is None:
                return None
            states = results[:count]
            for stack, name in zip(stacks, results[count:], strict=True):
                stack.append(name)
        turned = each("scan_output_directions", stacked)
        stacks = [s[::-1] if back else s for s, back in zip(stacks, turned, strict=True)]
        axes = each("scan_output_axes", stacked)
        return self.end(states, list(zip(stacks, axes, strict=True)))

    def _length(self, scanned: Sequence[tuple[str, int]]) -> int | None:
        """Return how many elements there are along the axes of all inputs."""
        found = set()
        for name, axis in scanned:
            shape = self.trial.shape(name)
            if shape is None or not -len(shape) <= axis < len(shape):
                return None
            found.add(shape[axis])
        return found.pop() if len(found) == 1 else None

    def _element(self, name: str, axis: int, place: int) -> str:
        made = f"{self.title}/element{len(self.nodes)}"
        index = self.constant(f"place{len(self.nodes)}", np.int64(place))
        self.add(helper.make_node("Gather", [name, index], [made], axis=axis))
        return made
