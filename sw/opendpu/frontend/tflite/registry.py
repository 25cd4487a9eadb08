# SPDX-License-Identifier: Apache-2.0
"""Handlers of TFLite operators, and what they work with."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tflite
from flatbuffers import flexbuffers
from onnx import helper

from opendpu.frontend.building import Builder
from opendpu.frontend.channels_last.arithmetic import clip
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.file import Operator
from opendpu.ir import Array

Activation = tflite.ActivationFunctionType
PADDINGS = {tflite.Padding.SAME: "SAME", tflite.Padding.VALID: "VALID"}


@dataclasses.dataclass(frozen=True)
class Call:
    """An operator as its handler sees it.

    Parameters
    ----------
    b
        Where nodes go.
    operator
        The operator.
    inputs
        Names of the values of its inputs; empty for one that is not there.
    names, dtypes
        Names for its results, and types of their elements in the file.
    """

    b: Builder
    operator: Operator
    inputs: list[str]
    names: list[str]
    dtypes: list[np.dtype[Any]]

    @property
    def name(self) -> str:
        """Name for the first result."""
        return self.names[0]

    @property
    def x(self) -> str:
        """The first input."""
        return self.input(0)

    def has(self, index: int) -> bool:
        """Return whether an input is there."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def input(self, index: int) -> str:
        """Return the value of an input; Refusal if it is not there."""
        if not self.has(index):
            raise Refusal(f"input {index} is missing")
        return self.inputs[index]

    def optional(self, index: int) -> str | None:
        """Return the value of an input that may be missing."""
        return self.inputs[index] if self.has(index) else None

    def constant(self, index: int, what: str) -> Array:
        """Return an input that has to be known; Refusal otherwise."""
        found = self.b.value(self.input(index))
        if found is None:
            raise Refusal(f"{what} ({self.input(index)!r}) are computed, but must be constant")
        return found

    def integers(self, index: int, what: str) -> list[int]:
        """Return an input that has to be known as integers."""
        return [int(number) for number in self.constant(index, what).ravel()]

    def options(self, kind: type[Any]) -> Any:
        """Return the options of the operator."""
        return self.operator.options(kind)

    def flexible_options(self, *keys: str) -> dict[str, Any]:
        """Return options that are written as a map of FlexBuffers, which has some keys at least."""
        try:
            found = flexbuffers.Loads(self.operator.custom)
        except Exception as error:  # whatever the reader comes across in bytes that are no map
            raise Refusal(f"its options cannot be read ({type(error).__name__})") from None
        missing = [key for key in keys if not isinstance(found, dict) or key not in found]
        if missing:
            raise Refusal(f"its options do not say {missing[0]}")
        return dict(found)

    def node(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Append a node that makes the first result."""
        return self.b.node(op_type, list(inputs), self.name, **attrs)

    def cast(self, value: str) -> str:
        """Convert to the first result's type in the file."""
        return self.node("Cast", value, to=helper.np_dtype_to_tensor_dtype(self.dtypes[0]))

    def inner(self, activation: int) -> str:
        """Return the name of what an activation is applied to."""
        return self.name if activation == Activation.NONE else f"{self.name}/{self.operator.kind}"

    def activated(self, value: str, activation: int) -> str:
        """Apply the activation that the operator has in it."""
        b = self.b
        match activation:
            case Activation.NONE:
                return value
            case Activation.RELU:
                return b.node("Relu", [value], self.name)
            case Activation.RELU6:
                return clip(b, value, 0.0, 6.0, name=self.name)
            case Activation.RELU_N1_TO_1:
                return clip(b, value, -1.0, 1.0, name=self.name)
            case Activation.TANH:
                return b.node("Tanh", [value], self.name)
        raise Refusal(f"activation {activation} is not supported")


Result = str | list[str]
Handler = Callable[[Call], Result]
HANDLERS: dict[str, Handler] = {}
"""What converts each operator: returns the values of its results, or raises ``Refusal``."""


def handles(*kinds: str) -> Callable[[Handler], Handler]:
    """Register a function as handler of operators."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return register
