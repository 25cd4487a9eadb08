# SPDX-License-Identifier: Apache-2.0
"""Handlers of ONNX operators by operator type."""

from collections.abc import Callable

from opendpu.frontend.context import Call

Handler = Callable[[Call], None]
HANDLERS: dict[str, Handler] = {}
"""What converts each operator; a handler binds the outputs or raises ``Refusal``."""


def handles(*op_types: str) -> Callable[[Handler], Handler]:
    """Register a function as handler of ``op_types``."""

    def register(handler: Handler) -> Handler:
        for op_type in op_types:
            HANDLERS[op_type] = handler
        return handler

    return register
