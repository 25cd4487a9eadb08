# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers. Each call begins with zeros, as an interpreter whose variables were reset."""

from typing import Any

import numpy as np
import tflite

from opendpu.frontend.channels_last.axes import known_shape, ordered
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tflite.registry import Activation, Call, handles

_GATES = (0, 3, 1, 2)
"""Input, output, forget and cell gate, as ONNX has them; TFLite has input, forget, cell, output."""
_NAMES = {
    Activation.NONE: "Affine", Activation.RELU: "Relu", Activation.TANH: "Tanh",
}  # fmt: skip
_FACTORS: dict[int, dict[str, Any]] = {
    Activation.NONE: {"activation_alpha": [1.0], "activation_beta": [0.0]},
}
_TIME_FIRST = (1, 0, 2)


def _joined(call: Call, first: int, what: str) -> np.ndarray:
    """Return four constants, one a gate, in ONNX's order along the first axis."""
    return np.concatenate([call.constant(first + gate, what) for gate in _GATES])


def _steps(call: Call, *, time_major: bool) -> str:
    """Return the input, steps first."""
    if len(known_shape(call.b, call.x)) != 3:
        raise Refusal("its input must have three axes")
    return call.x if time_major else ordered(call.b, call.x, _TIME_FIRST)


def _in_order(call: Call, made: str, *, time_major: bool) -> str:
    """Return the results of every step in the order of axes of the input."""
    rows = call.b.node("Squeeze", [made, call.b.integers(1)], call.name if time_major else "")
    return rows if time_major else ordered(call.b, rows, _TIME_FIRST, call.name)


@handles("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(call: Call) -> str:
    """A weight matrix and a bias a gate; no projection, no normalization."""
    given = call.options(tflite.UnidirectionalSequenceLSTMOptions)
    if not call.has(1):
        raise Refusal("its input gate is coupled to the forget gate")
    if call.has(16) or any(call.has(index) for index in (20, 21, 22, 23)):
        raise Refusal("it has a projection or a normalization")
    if given.CellClip() or given.ProjClip():
        raise Refusal("it clips its states")
    if given.FusedActivationFunction() != Activation.TANH:
        raise Refusal("its activation must be tanh")
    b, weights = call.b, _joined(call, 1, "weights")
    recurrent, bias = _joined(call, 5, "weights"), _joined(call, 12, "biases")
    hidden = recurrent.shape[1]
    inputs = [
        _steps(call, time_major=given.TimeMajor()), b.constant(weights[None]),
        b.constant(recurrent[None]),
        b.constant(np.concatenate([bias, np.zeros_like(bias)])[None]),
    ]  # fmt: skip
    if call.has(9):
        holes = np.concatenate([call.constant(9 + gate, "weights") for gate in (0, 2, 1)])
        inputs += ["", "", "", b.constant(holes[None])]
    made = b.node("LSTM", inputs, hidden_size=hidden)
    return _in_order(call, made, time_major=given.TimeMajor())


@handles("UNIDIRECTIONAL_SEQUENCE_RNN")
def rnn(call: Call) -> str:
    """One matrix for the input, one for the state, one bias."""
    given = call.options(tflite.SequenceRNNOptions)
    activation = given.FusedActivationFunction()
    if activation not in _NAMES:
        raise Refusal(f"activation {activation} is not supported")
    b, bias = call.b, call.constant(3, "biases")
    recurrent = call.constant(2, "weights")
    made = b.node(
        "RNN",
        [
            _steps(call, time_major=given.TimeMajor()),
            b.constant(call.constant(1, "weights")[None]), b.constant(recurrent[None]),
            b.constant(np.concatenate([bias, np.zeros_like(bias)])[None]),
        ],
        hidden_size=recurrent.shape[0], activations=[_NAMES[activation]],
        **_FACTORS.get(activation, {}),
    )  # fmt: skip
    return _in_order(call, made, time_major=given.TimeMajor())
