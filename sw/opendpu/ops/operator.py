# SPDX-License-Identifier: Apache-2.0
"""What an operator is: the one entry for every kind of op, and the table of all of them."""

import dataclasses
import enum
from collections.abc import Callable

from opendpu.ir import Node
from opendpu.ops.onnx_builder import OnnxBuilder
from opendpu_arch.isa import Engine
from xir.oplib import OpDef, builtin, custom

Emit = Callable[[OnnxBuilder, Node], None]
"""Adds the ONNX nodes that compute an op in float: its kernel."""


class Result(enum.Enum):
    """Where the elements of a result come from."""

    COMPUTED = "computed"
    SELECTED = "selected"
    """Each is one of some elements of the input: a maximum."""
    MOVED = "moved"
    """Each is an element of the input at another place."""
    PADDED = "padded"
    """As moved, or a constant."""


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Which arguments of a layer are weights and bias, and along which axes.

    The axes are those of the weights: ``outputs`` has one index for each output channel and
    ``inputs`` one for each input channel (of a group); none where there is no such axis.
    """

    outputs: int
    inputs: int | None
    weights: str = "weights"
    bias: str = "bias"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operator:
    """Everything that passes ask about a kind of op; arguments and shape rule are XIR's.

    Parameters
    ----------
    kind
        XIR's name of the op type.
    emit
        Its float kernel, as ONNX nodes; none for what no session computes.
    result
        Where the elements of the result come from; a function where attributes decide.
    parameters
        What are its weights, of ops that have trained ones.
    fuses
        Activations that the engine applies to the result before it is rounded.
    channelwise
        Each channel of the result depends on that channel of the input, in all channels alike.
    elementwise
        Each element of the result depends on that element of the operands alone; a function where
        attributes decide.
    homogeneous
        ``f(s * x) = s * f(x)`` for every ``s > 0``, channel by channel.
    fixed
        The kind that it becomes on the DPU, where there is one.
    engine
        The engine that computes this kind; of kinds ``-fix``.
    multiplies
        It multiplies and accumulates, so that its work counts in MACs.
    element_bytes
        Size of an element of the DPU's result.
    lift
        What would let the DPU have it, of ops that it has not: ``... would lift it``.
    """

    kind: str
    emit: Emit | None = None
    result: Result | Callable[[Node], Result] = Result.COMPUTED
    parameters: Parameters | None = None
    fuses: tuple[str, ...] = ()
    channelwise: bool = False
    elementwise: bool | Callable[[Node], bool] = False
    homogeneous: bool = False
    fixed: str = ""
    engine: Engine | None = None
    multiplies: bool = False
    element_bytes: int = 1
    lift: str = ""

    @property
    def on_dpu(self) -> bool:
        """Whether the DPU has the op, within limits."""
        return bool(self.fixed)

    @property
    def definition(self) -> OpDef:
        """Arguments and attributes, as XIR's op library has them."""
        return builtin().get(self.kind) or custom(self.kind)

    def result_of(self, node: Node) -> Result:
        """Return where the elements of a node's result come from."""
        return self.result if isinstance(self.result, Result) else self.result(node)

    def is_elementwise(self, node: Node) -> bool:
        """Return whether each element of a node's result depends on one of each operand alone."""
        found = self.elementwise
        return found if isinstance(found, bool) else found(node)

    def moves(self, node: Node) -> bool:
        """Return whether a node only moves data, but for constants around it."""
        return self.result_of(node) in (Result.MOVED, Result.PADDED)

    def shares_scale(self, node: Node) -> bool:
        """Return whether the result needs the scale of the inputs, and no other."""
        return self.result_of(node) is not Result.COMPUTED

    def keeps_values(self, node: Node) -> bool:
        """Return whether every element of the result is one of an input."""
        return self.result_of(node) in (Result.MOVED, Result.SELECTED)

    def keeps_grid(self, node: Node) -> bool:
        """Return whether every element of the result is one of an input, or zero."""
        zeros = self.moves(node) and not any(node.attrs.get("constant_values") or ())
        return self.kind == "relu" or zeros or self.keeps_values(node)


OPERATORS: dict[str, Operator] = {}
"""Every kind that is known, by name."""


def register(*operators: Operator) -> None:
    """Add operators to the table; each kind once."""
    for operator in operators:
        assert operator.kind not in OPERATORS, operator.kind
        OPERATORS[operator.kind] = operator


def operator_of(node: Node | str) -> Operator:
    """Return the operator of a node or kind; one that can do nothing for an unknown kind."""
    kind = node if isinstance(node, str) else node.kind
    return OPERATORS.get(kind) or Operator(kind=kind)


def kinds_where(condition: Callable[[Operator], object]) -> tuple[str, ...]:
    """Return the kinds of the operators for which ``condition`` holds, in order of the table."""
    return tuple(kind for kind, operator in OPERATORS.items() if condition(operator))
