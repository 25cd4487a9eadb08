# SPDX-License-Identifier: Apache-2.0
"""What handlers raise: a node stays ONNX, or the model is broken."""


class Refusal(Exception):
    """A handler cannot convert its node, which stays ONNX; the text is the reason."""


class FaultError(Exception):
    """The model is broken; the text says how. Collected for one error at the end."""
