# SPDX-License-Identifier: Apache-2.0
"""Calls of functions in a GraphDef, replaced by the nodes of the functions.

TensorFlow inlines calls when it freezes, but not those of functions that XLA shall compile: Keras
makes one of every convolution with groups.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.control_flow import JOINED, called, lowered
from opendpu.frontend.tensorflow.graphdef import CONTROL, Node
from opendpu_arch.errors import ModelFormatError

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
MOST_NODES, DEEPEST = 200_000, 100
"""Of a graph with all its calls inlined, and of calls in one another."""
RESULTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"),
        ("y", "batch_mean", "batch_variance"),
    ),
    "TopKV2": ("values", "indices"),
    "Switch": ("output_false", "output_true"),
    "Merge": ("output", "value_index"),
    "Unique": ("y", "idx"),
    "NonMaxSuppressionV4": ("selected_indices", "valid_outputs"),
    "NonMaxSuppressionV5": ("selected_indices", "selected_scores", "valid_outputs"),
    "CombinedNonMaxSuppression": (
        "nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections",
    ),
    "MaxPoolWithArgmax": ("output", "argmax"),
    "TensorListPopBack": ("output_handle", "tensor"),
}  # fmt: skip
"""Names of the results of operators with several; inside functions results are told by name."""
_INNER = re.compile(r"(?P<node>[^:]+):(?P<result>\w+):(?P<number>[0-9]{1,9})")


def inlined(nodes: Sequence[Node], library: Any, label: str) -> Iterator[Node]:
    """Yield the nodes of a graph, those of called functions in the place of calls.

    They have the name of the call before their own.

    Parameters
    ----------
    nodes
        Of the graph itself.
    library
        A ``FunctionDefLibrary``.

    Raises
    ------
    ModelFormatError
        A call or a function makes no sense, or calls have no end.
    """
    functions = {function.signature.name: function for function in library.function}
    found = _Inlining(functions, label)
    for node in nodes:
        yield from found.replaced(node, 0)


class _Inlining:
    def __init__(self, functions: Mapping[str, Any], label: str) -> None:
        self._functions, self._label, self._count = functions, label, 0

    def replaced(self, node: Node, depth: int) -> Iterator[Node]:
        """Yield a node, or what a call becomes."""
        parts = called(node)
        if parts and depth < DEEPEST and self._functions.keys() >= {*parts}:
            for made in lowered(node, self._functions):
                yield from self.replaced(made, depth + 1)
            return
        name = node.op
        if node.op in CALLS and "f" in node.attrs:
            name = node.attrs["f"].func.name
        function = self._functions.get(name)
        if function is None:
            self._count += 1
            if self._count > MOST_NODES:
                raise self._wrong(node, f"makes more than {MOST_NODES} nodes of the graph")
            yield node
            return
        if depth == DEEPEST:
            raise self._wrong(node, f"is in {DEEPEST} others")
        given = [item for item in node.inputs if not item.startswith(CONTROL)]
        arguments = [argument.name for argument in function.signature.input_arg]
        if len(given) != len(arguments):
            raise self._wrong(node, f"has {len(given)} inputs, but {name!r} takes {len(arguments)}")
        bound = dict(zip(arguments, given, strict=True))
        inner = {item.name: item.op for item in function.node_def}
        for item in function.node_def:
            inputs = tuple(self._outside(node, text, inner, bound) for text in item.input)
            made = Node(f"{node.name}/{item.name}", item.op, inputs, item.attr)
            yield from self.replaced(made, depth + 1)
        results = tuple(
            self._outside(node, function.ret[result.name], inner, bound)
            for result in function.signature.output_arg
        )
        yield Node(node.name, JOINED, results, {})

    def _outside(
        self, call: Node, text: str, inner: Mapping[str, str], bound: Mapping[str, str]
    ) -> str:
        """Return what a reference inside a function is outside."""
        if text in bound:
            return bound[text]
        if text.startswith(CONTROL):
            return f"{CONTROL}{call.name}/{text.removeprefix(CONTROL)}"
        found = _INNER.fullmatch(text)
        if found is None or found["node"] not in inner:
            raise self._wrong(call, f"reads {text!r}, which nothing in its function makes")
        operator, result, number = inner[found["node"]], found["result"], int(found["number"])
        names = RESULTS.get(operator, ())
        if operator in self._functions:
            names = tuple(item.name for item in self._functions[operator].signature.output_arg)
        if result in names:
            number += names.index(result)
        return f"{call.name}/{found['node']}" + (f":{number}" if number else "")

    def _wrong(self, call: Node, reason: str) -> ModelFormatError:
        return ModelFormatError(f"{self._label}: the call {call.name!r} {reason}")
