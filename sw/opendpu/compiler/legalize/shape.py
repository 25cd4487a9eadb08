# SPDX-License-Identifier: Apache-2.0
"""Ops that only say where bytes belong."""

from opendpu.compiler.legalize.registry import Call, legalizes
from opendpu.ir import Node, TensorType


@legalizes("reshape", "flatten", "squeeze")
def reshape(call: Call) -> str:
    """Make another view of the same bytes, behind a copy where the ``fix`` differs."""
    copied = call.context.copy(call.sources[0], call.node, call.fix)
    return call.context.view(copied, call.fix.shape, call.fix.name)


@legalizes("concat")
def concat(call: Call) -> str:
    """Make a concatenation of inputs that all have the fix point of the result."""
    context, node, fix = call.context, call.node, call.fix
    copied = []
    for number, name in enumerate(call.sources):
        made = name
        if not context.result[name].quantization.same_grid(fix.quantization):
            shape = TensorType(context.result[name].shape, quantization=fix.quantization)
            part = Node(f"{node.name}_part{number}", "", shape, origin=node.origin)
            where = Node(f"{fix.name}_part{number}", "fix", shape)
            made = context.view(context.copy(name, part, where), part.shape)
        copied.append(made)
    attrs = {"axis": int(node.attrs["axis"]) % len(node.shape)}
    return context.add(node, fix, "concat-fix", {"input": copied}, attrs)
