# SPDX-License-Identifier: Apache-2.0
"""What handlers raise: a node stays ONNX, or the model is broken."""


class Refusal(Exception):
    """A handler cannot convert its node, which stays ONNX; the text is the reason."""


class FaultError(Exception):
    """The model is broken; the text says how. Collected for one error at the end."""


MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, KeyError, IndexError, TypeError, ValueError,
)  # fmt: skip
"""What who reads a node comes across in attributes and inputs that make no sense."""
