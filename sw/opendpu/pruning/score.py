# SPDX-License-Identifier: Apache-2.0
"""What a user's function says of a network."""

from collections.abc import Callable, Sequence
from typing import Any

from opendpu.ops.inference import reason_of
from opendpu_arch.errors import UnsupportedError

Evaluate = Callable[..., Any]
"""Takes a network first, returns its score: a number, the more the better."""


def score_of(network: Any, evaluate: Evaluate, args: Sequence[Any] = ()) -> float:
    """Return ``evaluate(network, *args)`` as a number.

    Raises
    ------
    UnsupportedError
        It fails, or returns no number.
    """
    name = getattr(evaluate, "__name__", type(evaluate).__name__)
    try:
        found = evaluate(network, *args)
    except Exception as error:  # whatever the user's code raises
        raise UnsupportedError(
            f"{name} failed: {type(error).__name__}: {reason_of(error)}",
            code="OPTIMIZER_MODEL_ANALYSIS_ERROR",
        ) from error
    try:
        return float(found)
    except (TypeError, ValueError):
        raise UnsupportedError(
            f"{name} returned {type(found).__name__}, but must return one number",
            code="OPTIMIZER_MODEL_ANALYSIS_ERROR",
        ) from None


def silent(function: Callable[..., Any]) -> Evaluate:
    """Return a function without a result as one with a score, so that its failures are told."""

    def run(network: Any, *args: Any) -> float:
        function(network, *args)
        return 0.0

    run.__name__ = getattr(function, "__name__", type(function).__name__)
    return run
