# SPDX-License-Identifier: Apache-2.0
"""Outputs that are no tensors of numbers: onnxruntime computes them from the last numbers."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnxruntime

from opendpu.frontend.model_file import read_model
from opendpu.frontend.number_outputs import cut_at_numbers
from opendpu.ir import Array
from opendpu.onnxruntime import context
from opendpu.onnxruntime.identity import Model
from opendpu.onnxruntime.sizes import NotWorthItError
from opendpu_arch.errors import ModelFormatError

_TENSOR, _TEXT = "tensor(", "tensor(string)"


class OtherOutputs:
    """The part of a model behind its last tensors of numbers.

    Parameters
    ----------
    model
        That part.
    session_options
        What the session was given, for libraries of other operators.
    """

    def __init__(self, model: onnx.ModelProto, session_options: Any) -> None:
        with context.switched_off(session_options):
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), session_options, ["CPUExecutionProvider"]
            )
        self._inputs = [one.name for one in self._session.get_inputs()]
        self.names = [one.name for one in self._session.get_outputs()]
        """The outputs that come from here."""

    def run(self, arrays: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Any]:
        """Return those outputs that are wanted, lists, dictionaries or arrays of text.

        ``arrays`` are the inputs of the whole model, and the results of the part before.
        """
        names = [name for name in self.names if name in wanted]
        if not names:
            return {}
        found = self._session.run(names, {name: arrays[name] for name in self._inputs})
        return dict(zip(names, found, strict=True))


def split(
    model: Model, inputs: Sequence[Any], outputs: Sequence[Any], session_options: Any
) -> tuple[Model, OtherOutputs | None]:
    """Return what of a model has tensors of numbers as outputs, and the part behind it.

    ``inputs`` and ``outputs`` are what onnxruntime says of the model.

    Raises
    ------
    NotWorthItError
        There are inputs, or outputs made of no tensors of numbers, that the DPU cannot have.
    """
    for one in inputs:
        if not _is_numbers(one):
            raise NotWorthItError(
                f"input {one.name!r} is {one.type}, but the DPU's are tensors of numbers"
            )
    odd = [one for one in outputs if not _is_numbers(one)]
    if not odd:
        return model, None
    cut = cut_at_numbers(read_model(_whole(model)).proto)
    for one in odd:
        if cut is None or one.name not in cut.made_of:
            raise NotWorthItError(
                f"output {one.name!r} is {one.type}, and made of no tensors of numbers"
            )
    assert cut is not None
    return cut.numbers, OtherOutputs(cut.others, session_options)


def _is_numbers(one: Any) -> bool:
    kind: str = one.type
    return kind.startswith(_TENSOR) and kind != _TEXT


def _whole(model: Model) -> onnx.ModelProto:
    """Return a model with its weights, from wherever they are."""
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        return onnx.load(os.fspath(model))
    except Exception as error:  # protobuf's and onnx's errors have no common base
        raise ModelFormatError(f"{os.fspath(model)}: {error}") from None
