# SPDX-License-Identifier: Apache-2.0
"""A network on the DPU between two sessions of onnxruntime, which compute what is no number."""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnxruntime

from opendpu.onnxruntime.parts import Parts
from opendpu.onnxruntime.running import Session


class Joined:
    """The parts of a model, one after the other; several threads may use them at a time.

    Parameters
    ----------
    parts
        The model, cut.
    numbers
        Its part of numbers on a device.
    session_options
        Of onnxruntime's sessions.
    """

    def __init__(self, parts: Parts, numbers: Session, session_options: Any = None) -> None:
        self._before = _opened(parts.before, session_options)
        self._numbers = numbers
        self._after = _opened(parts.after, session_options)

    def run(self, given: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """Return outputs by name, as onnxruntime has them: lists, dictionaries, arrays.

        Parameters
        ----------
        given
            All inputs.
        wanted
            Names of outputs; what others need alone is not computed.

        Raises
        ------
        TensorError
            See :meth:`.Session.run`.
        """
        values = dict(given)
        _compute(self._before, values)
        heads = {port.name: values[port.name] for port in self._numbers.executable.inputs}
        values |= self._numbers.run(heads)
        if any(name not in values for name in wanted):
            _compute(self._after, values, wanted)
        return {name: values[name] for name in wanted}

    def close(self) -> None:
        """Free the device."""
        self._numbers.close()


def _opened(model: onnx.ModelProto | None, session_options: Any) -> Any:
    if model is None:
        return None
    return onnxruntime.InferenceSession(
        model.SerializeToString(), session_options, providers=["CPUExecutionProvider"]
    )


def _compute(session: Any, values: dict[str, Any], wanted: Sequence[str] = ()) -> None:
    """Add what a session makes of values, those that are wanted if any are."""
    if session is None:
        return
    made = [one.name for one in session.get_outputs()]
    made = [name for name in made if name in wanted] or made
    heads = {one.name: values[one.name] for one in session.get_inputs()}
    values.update(zip(made, session.run(made, heads), strict=True))
