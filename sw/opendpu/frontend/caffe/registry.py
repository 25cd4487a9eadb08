# SPDX-License-Identifier: Apache-2.0
"""Handlers of Caffe's layers, and what they work with. Feature maps are NCHW, as in ONNX."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu.frontend.building import Builder
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.ir import Array


@dataclasses.dataclass(frozen=True)
class Call:
    """A layer as its handler sees it.

    Parameters
    ----------
    b
        Where ONNX nodes go.
    layer
        The layer's message.
    inputs
        Names of the values of its bottoms.
    blobs
        Its weights.
    """

    b: Builder
    layer: Any
    inputs: list[str]
    blobs: list[Array]

    @property
    def name(self) -> str:
        """Name of the layer."""
        return str(self.layer.name)

    @property
    def x(self) -> str:
        """The first bottom."""
        if not self.inputs:
            raise FaultError("it has no bottom")
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first bottom."""
        found = self.b.shape(self.x)
        if found is None:
            raise Refusal("the shape of its input is not known")
        return found

    def axis(self, number: int) -> int:
        """Return an axis counted from the front."""
        return number % len(self.shape)

    def blob(self, index: int, what: str) -> Array:
        """Return some weights; FaultError if the .caffemodel has none."""
        if index >= len(self.blobs):
            raise FaultError(f"the .caffemodel has no {what} of it")
        return self.blobs[index]

    def constant(self, index: int, what: str, shape: tuple[int, ...] | None = None) -> str:
        """Append some weights as a constant."""
        array = self.blob(index, what)
        if shape is not None:
            if array.size != int(np.prod(shape)):
                raise FaultError(
                    f"its {what} have {array.size} numbers, but {int(np.prod(shape))} are wanted"
                )
            array = array.reshape(shape)
        return self.b.constant(array, f"{self.name}/{what}")

    def emit(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Append a node that makes the result."""
        return self.b.node(op_type, list(inputs), self.name, **attrs)


Result = str | list[str]
Handler = Callable[[Call], Result]
HANDLERS: dict[str, Handler] = {}
"""What converts each type of layer: returns values of its tops, or raises ``Refusal``."""


def handles(*types: str) -> Callable[[Handler], Handler]:
    """Register a function as handler of types of layers."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(types, handler))
        return handler

    return register
