# SPDX-License-Identifier: Apache-2.0
"""Squares of differences as LiteRT's kernel computes them (``squared_difference.cc``): on the CPU.

Differences have 15 bits there, which no result of the DPU has.
"""

from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.multipliers import Multipliers, clamp_of, rounding_of
from opendpu.ir import Node, Rounding
from opendpu.ops.fixed.squared_difference import KIND, LEFT_SHIFT


def squared_difference(context: Context, source: Node, fix: Node) -> str | None:
    """Return the op of a difference times itself, between tensors of TFLite's files; else none."""
    if not context.scaled or fix.quantization.rounding != Rounding.STD_ROUND:
        return None
    factors = source.inputs.get("input", [])
    if source.kind != "mul" or source.reason or len(factors) != 2 or len(set(factors)) > 1:
        return None
    difference = context.graph[factors[0]]
    if difference.kind != "sub" or any(
        context.graph[name].kind != "fix" for name in difference.sources()
    ):
        return None
    sources = [context.fixed(name) for name in difference.inputs["input"]]
    one, other = (context.result[name].quantization.scale[0] for name in sources)
    twice, made = 2 * max(one, other), fix.quantization
    found = Multipliers.of(
        [one / twice, other / twice, twice * twice / (made.scale[0] * (1 << 2 * LEFT_SHIFT))]
    )
    attrs = found.attributes(rounding_of(made), clamp_of(None, made))
    return context.add(source, fix, KIND, {"input": sources}, attrs)
