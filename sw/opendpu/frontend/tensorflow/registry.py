# SPDX-License-Identifier: Apache-2.0
"""Handlers of TensorFlow operators, and what they work with."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import helper

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.axes import channels_first, channels_last
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.graphdef import Node, split
from opendpu.ir import Array

CHANNELS_FIRST = "NC"
"""What ``data_format`` begins with: ``NCHW``, ``NCDHW``."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A node as its handler sees it.

    Parameters
    ----------
    b
        Where ONNX nodes go.
    node
        The node.
    inputs
        Names of the values of its inputs.
    name
        Name for the first result.
    nodes
        All nodes, for patterns.
    lookup
        Gives the value of another node's result.
    """

    b: Builder
    node: Node
    inputs: list[str]
    name: str
    nodes: Mapping[str, Node]
    lookup: Callable[[str], str]

    @property
    def x(self) -> str:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> str:
        """Return the value of an input; Refusal if it is not there."""
        if index >= len(self.inputs):
            raise Refusal(f"input {index} is missing")
        return self.inputs[index]

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.node.attr(name, default)

    def constant(self, index: int, what: str) -> Array:
        """Return an input that has to be known; Refusal otherwise."""
        found = self.b.value(self.input(index))
        if found is None:
            raise Refusal(
                f"{what} ({self.node.inputs[index]!r}) are computed, but must be constant"
            )
        return found

    def integers(self, index: int, what: str) -> list[int]:
        """Return an input that has to be known as integers."""
        return [int(number) for number in self.constant(index, what).ravel()]

    def emit(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Append a node that makes the first result."""
        return self.b.node(op_type, list(inputs), self.name, **attrs)

    def names(self, count: int) -> list[str]:
        """Return names for several results."""
        return [self.name if i == 0 else f"{self.name}:{i}" for i in range(count)]

    def cast(self, value: str, name: str) -> str:
        """Convert to the type that an attribute says."""
        wanted = self.attr(name, np.dtype(np.int32))
        if wanted is None:
            raise Refusal(f"{name} is no type of numbers")
        if self.b.dtype(value) == wanted:
            return value
        return self.emit("Cast", value, to=helper.np_dtype_to_tensor_dtype(wanted))

    @property
    def first(self) -> bool:
        """Whether feature maps are NCHW."""
        return str(self.attr("data_format", "NHWC")).startswith(CHANNELS_FIRST)

    def feature(self, index: int = 0) -> str:
        """Return an input as NHWC feature map, whatever the node has."""
        value = self.input(index)
        return channels_last(self.b, value) if self.first else value

    def back(self, value: str) -> str:
        """Return an NHWC result in the order that the node has."""
        return channels_first(self.b, value) if self.first else value

    def spatial(self, name: str) -> tuple[int, ...]:
        """Return rows and columns of an attribute with four entries; the others must be 1.

        Of one with five, depth is in front of them. Missing ones are 1, as many as strides.
        """
        found = self.attr(name) or [1] * len(self.attr("strides") or range(4))
        batch, *rest = found
        *places, channels = rest if not self.first else (*rest[1:], rest[0])
        if batch != 1 or channels != 1:
            raise Refusal(f"{name} is {list(found)}, but only rows and columns may differ from 1")
        return tuple(map(int, places))

    def padding(self) -> Any:
        """Return the padding: its name, or explicit pads."""
        found = self.attr("padding", "VALID")
        if found != "EXPLICIT":
            return found
        pads = self.attr("explicit_paddings")
        rows = pads[4:8] if self.first else pads[2:6]
        return (rows[0], rows[1]), (rows[2], rows[3])

    def producer(self, index: int) -> Node | None:
        """Return the node that makes an input."""
        return self.nodes.get(split(self.node.inputs[index])[0])


Result = str | list[str]
Handler = Callable[[Call], Result]
HANDLERS: dict[str, Handler] = {}
"""What converts each operator: returns the values of its results, or raises ``Refusal``."""


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Register a function as handler of operators."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(ops, handler))
        return handler

    return register
