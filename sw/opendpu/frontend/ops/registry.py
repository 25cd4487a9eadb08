# SPDX-License-Identifier: Apache-2.0
"""Handlers of ONNX operators by operator type, and what operators mean for the order of axes."""

import enum
from collections.abc import Callable

from opendpu.frontend.context import Call


class Layout(enum.Enum):
    """What an operator says about the axes of its first input."""

    NONE = "none"
    """It may mean anything."""
    NEUTRAL = "neutral"
    """The result has the axes of the input, which may come in any order."""
    SPATIAL = "spatial"
    """The input is a feature map: batch, channels, then space."""


Handler = Callable[[Call], None]
HANDLERS: dict[str, Handler] = {}
"""What converts each operator; a handler binds the outputs or raises ``Refusal``."""
LAYOUTS: dict[str, Layout] = {}
"""Of every operator that has one."""
KEEPS_GRID: set[str] = set()
"""Operators that only move elements, so that constants behind them are on the grid they were on."""

ANY_DTYPE: set[str] = set()
"""Operators whose handlers take computed tensors of every element type."""

ELEMENTWISE = frozenset((
    "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "BitShift",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Ceil", "Celu", "Clip", "Cos",
    "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual",
    "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max",
    "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu",
    "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt",
    "Sub", "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
))  # fmt: skip
"""Operators of ONNX's own set that join elements at the same place, with broadcasting; without a
handler they compute in whatever order the data is."""


def handles(
    *op_types: str,
    layout: Layout | None = None,
    keeps_grid: bool = False,
    any_dtype: bool = False,
) -> Callable[[Handler], Handler]:
    """Register a function as handler of ``op_types``.

    Parameters
    ----------
    op_types
        Operators of ONNX, or of quantizers.
    layout
        What they say about the axes of their first input; elementwise ones need not say it.
    keeps_grid
        They only move elements.
    any_dtype
        The handler takes computed tensors of every element type; others get float32 only.
    """

    def register(handler: Handler) -> Handler:
        for op_type in op_types:
            HANDLERS[op_type] = handler
            if layout is not None:
                LAYOUTS[op_type] = layout
            if keeps_grid:
                KEEPS_GRID.add(op_type)
            if any_dtype:
                ANY_DTYPE.add(op_type)
        return handler

    return register


def layout_of(op_type: str) -> Layout:
    """Return what an operator says about the axes of its first input."""
    return LAYOUTS.get(op_type, Layout.NEUTRAL if op_type in ELEMENTWISE else Layout.NONE)
