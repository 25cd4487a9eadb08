# SPDX-License-Identifier: Apache-2.0
"""Limits of activations on their own."""

from opendpu.compiler.constraints.registry import constraint, inputs_of
from opendpu.compiler.fixed import point_of
from opendpu.compiler.limits import MAX_SHIFT_CUT, MAX_SHIFT_PRELU
from opendpu.ir import Graph, Node
from opendpu_arch.target import Target

MAX_SIGMOID_POINT = 19
"""Fractional bits with which the 3 of hard-sigmoid is below the engine's bound of 2**32."""
BOUND_AT_RESULT = 7
"""Fractional bits of a result that is saturated before one."""
BOUND_AT_INPUT = 6
"""Fractional bits of an input that is never 3."""
SIGMOID_BITS = 14
"""Fractional bits of the engine's 1/6."""


@constraint(
    f"Leaky-ReLU and PReLU on their own shift by at most {MAX_SHIFT_PRELU} bits.",
    "leaky-relu-fix", "prelu-fix", lift="another fix point", code="XCOM_ACGEN_PRELU_ERROR",
    scales=True,
)  # fmt: skip
def prelu_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """The fields have a direction and five bits."""
    right = point_of(inputs_of(node, graph)[0]) - point_of(node)
    slopes = inputs_of(node, graph, "weight")
    more = point_of(slopes[0]) if slopes else int(node.attrs["shift"])
    for name, shift in (("shift_prelu_p", right), ("shift_prelu_n", right + more)):
        if abs(shift) > MAX_SHIFT_PRELU:
            return f'DPU only supports "{name}"({shift}) in -{MAX_SHIFT_PRELU}..{MAX_SHIFT_PRELU}'
    return None


@constraint(
    f"The input of hard-sigmoid has 0..{MAX_SIGMOID_POINT} fractional bits.", "hard-sigmoid-fix",
    lift="another fix point", code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def sigmoid_shifts(node: Node, graph: Graph, target: Target) -> str | None:
    """``shift_bias`` = i, ``shift_cut`` = 14 + i - o."""
    point = point_of(inputs_of(node, graph)[0])
    if not 0 <= point <= MAX_SIGMOID_POINT:
        return f'DPU only supports "shift_bias"({point}) in 0..{MAX_SIGMOID_POINT}'
    cut = SIGMOID_BITS + point - point_of(node)
    if not 0 <= cut <= MAX_SHIFT_CUT:
        return f'DPU only supports "shift_cut"({cut}) in 0..{MAX_SHIFT_CUT}'
    return None


@constraint(
    f"The result of hard-sigmoid has at least {BOUND_AT_RESULT} fractional bits, or its input "
    f"{BOUND_AT_INPUT}.", "hard-sigmoid-fix", lift=f"a result of {BOUND_AT_RESULT} fractional bits",
    code="XCOM_UNSUPPORT_QUANTIZATION", scales=True,
)  # fmt: skip
def sigmoid_bound(node: Node, graph: Graph, target: Target) -> str | None:
    """The engine does not stop at one, int8 has to."""
    point, source = point_of(node), point_of(inputs_of(node, graph)[0])
    if point >= BOUND_AT_RESULT or source >= BOUND_AT_INPUT:
        return None
    return (
        f'DPU only supports hard-sigmoid with a "fix_point"({point}) of at least '
        f"{BOUND_AT_RESULT}, or of at least {BOUND_AT_INPUT} before it, where it is {source}"
    )
