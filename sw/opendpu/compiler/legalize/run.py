# SPDX-License-Identifier: Apache-2.0
"""Pass: a quantized float graph to fixed-point ops.

An op, the activation behind it and the ``fix`` behind that become one ``-fix`` op, if the inputs
are quantized too. Everything else stays a float op between ``fix2float`` and ``float2fix``.
"""

import dataclasses
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.compiler.fixed import tensor_of
from opendpu.compiler.legalize.activation import ACTIVATIONS, nonlinear
from opendpu.compiler.legalize.bounds import bounded
from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import FINAL_RULES, RULES, Call
from opendpu.compiler.legalize.scaled import FUSING, SCALED_RULES
from opendpu.compiler.legalize.squared_difference import squared_difference
from opendpu.compiler.legalize.table import by_table
from opendpu.ir import (
    FixedGraph,
    Graph,
    Node,
    NumberFormat,
    QuantizedGraph,
    TensorType,
)
from opendpu.ir.graph import has_any_scale
from opendpu.ir.types import INT8
from opendpu.ops import operator_of
from opendpu.ops.formats import integers_of
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.numerics import quantize

Array = npt.NDArray[Any]
BITS = 8
"""Width of the DPU's integers."""
DEEP, IN_GROUP = 500, 20
"""Ops in a row that may ask for each other, and more than there are between two ``fix`` ops."""
FRAMES = 8 * (DEEP + IN_GROUP) + 500
"""Calls that may be open at a time, those of whoever called among them. Python's own functions, as
these all are, take no stack of the processor."""
PART = 1 << 16
"""Elements of a constant that are quantized at a time: as many as caches hold."""


def legalize(
    quantized: QuantizedGraph, *, tables: bool = False, scaled: bool = False
) -> FixedGraph:
    """Return the fixed-point form of a quantized graph; outputs keep their order.

    With ``tables``, functions of one value that no engine has become ``table-fix``, an op of the
    extension ``table``. With ``scaled``, tensors may have any scale and zero point, as that
    extension computes with them, and there is ``table-fix`` too; a graph of powers of two alone is
    as without.

    Raises
    ------
    UnsupportedError
        A ``fix`` op is not of 8 signed bits with a power of two as scale; constants may have fewer
        bits, and a power of two for each output channel of a layer.
    """
    scaled = scaled and has_any_scale(quantized)
    context = Context(quantized, _make_fixed, _make_final, tables=tables, scaled=scaled)
    result = context.result
    result.attrs = dict(quantized.attrs)
    _make_deep(context)
    for name in quantized.outputs:
        is_fix = quantized[name].kind == "fix"
        result.outputs.append(_output(context, name) if is_fix else context.real(name))
    _keep_unread_inputs(context)
    result.prune()
    _separate_names(result)
    return result


def _keep_unread_inputs(context: Context) -> None:
    """Make inputs that no output needs too: callers of the model know that it has them."""
    for node in context.graph:
        if node.kind == "data" and not context.is_made(node.name):
            fixes = [user.name for user in context.users[node.name] if user.kind == "fix"]
            make = context.fixed if fixes else context.real
            make(next(iter(fixes), node.name))


def _make_deep(context: Context) -> None:
    """Make ops on long ways from the inputs before those behind them ask for them.

    Who is asked for an op asks for its inputs, so that nothing is made which nobody needs; on ways
    of some hundred layers that would exceed Python's recursion limit, which is raised for what is
    left of it.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))
    ways: dict[str, int] = {}
    for node in context.graph:
        way = max((ways[name] for name in node.sources()), default=-1) + 1
        if way >= DEEP and node.kind == "fix":
            context.fixed(node.name)
            way = 0
        elif way >= DEEP + IN_GROUP:  # no fix op for long: it stays in float
            context.real(node.name)
            way = 0
        ways[node.name] = way


def _output(context: Context, name: str) -> str:
    """Return the node for an output; one of its own if the bytes are those of another tensor."""
    made = context.result[context.fixed(name)]
    if tensor_of(made) == name:
        return made.name
    unique = context.result.unique(f"{name}_output")
    inputs, attrs = {"input": [made.name]}, {"shape": list(made.shape)}
    return context.result.add(
        unique, "reshape-fix", made.type, inputs, attrs, origin=made.origin, tensor=name
    ).name


def _separate_names(graph: Graph) -> None:
    """Leave the name of a ``fix`` op to the last of the nodes that hold its values."""
    last: dict[str, Node] = {}
    for node in graph:
        if node.tensor in last:
            last[node.tensor].tensor = f"{node.tensor}_before_{node.name}"
        if node.tensor:
            last[node.tensor] = node


def _make_fixed(context: Context, fix: Node) -> str:
    source = context.graph[fix.inputs["input"][0]]
    if fix.kind == "fix2float":  # a constant in integers
        name = context.result.unique(source.name)
        return context.result.add(
            name, source.kind, source.type, value=source.value, origin=fix.origin, tensor=fix.name
        ).name
    _check_fix(fix, constant=source.value is not None, scaled=context.scaled)
    if source.value is not None:
        if fix.quantization.axis is not None:
            _check_channels(context, fix)
        return context.add(source, fix, "const-fix", {}, {}, _integers(source.value, fix))
    if source.kind == "data" and len(context.users[source.name]) == 1:
        return context.add(source, fix, "data-fix", {}, {}, tensor=source.name)
    if source.kind == "fix":
        return context.copy(context.fixed(source.name), source, fix)
    made = squared_difference(context, source, fix) or _on_engine(context, source, fix)
    if made is None and (context.tables or context.scaled) and not source.reason:
        made = by_table(context, source, fix)
    if made is not None:
        return made
    name = context.result.unique(f"{fix.name}_float2fix")
    inputs = {"input": [context.real(source.name)]}
    fixed = dataclasses.replace(fix.type, dtype=INT8)
    if not context.scaled:
        fixed = TensorType.int8(fix.shape, fix.fix_point)
    return context.result.add(
        name, "float2fix", fixed, inputs, origin=fix.origin, tensor=fix.name
    ).name


def _integers(values: Array, fix: Node) -> npt.NDArray[np.int8]:
    """Return a constant in 8 bits."""
    found = fix.quantization
    if not found.are_powers_of_two:
        return integers_of(values, found).astype(np.int8)
    axis = 0 if found.axis is None else found.axis
    by_channel = np.moveaxis(values, axis, 0)
    result = _rounded(by_channel, np.asarray(found.fix_points), found.rounding)
    return np.ascontiguousarray(np.moveaxis(result, 0, axis))


def _rounded(values: Array, points: npt.NDArray[np.int64], mode: str) -> npt.NDArray[np.int8]:
    """Return integers of 8 bits; in parts, so that a large constant takes little memory.

    ``points`` are fix points for equal shares of the values, in their order.
    """
    flat = np.ravel(values)
    share = max(1, flat.size // points.size)
    result = np.empty(flat.size, np.int8)
    for start in range(0, flat.size, PART):
        part = slice(start, start + PART)
        owner = np.arange(start, min(start + PART, flat.size)) // share
        result[part] = quantize(flat[part], points[owner], round_mode=mode)
    return result.reshape(values.shape)


def _on_engine(context: Context, source: Node, fix: Node) -> str | None:
    """Return the ``-fix`` op of what is behind a ``fix``, or none if the engines have none."""
    node, activation = _group(context, source)
    rules = SCALED_RULES if context.scaled else RULES
    if node.kind not in rules or node.reason or source.reason:  # kept in float on purpose
        return None
    try:
        for name in node.sources():
            if not _is_quantized(context, node, name):
                raise Refusal(
                    f'DPU only supports {node.kind} of quantized inputs, but "{name}" is float; '
                    "a fix op behind it would lift it",
                    "XCOM_UNSUPPORT_QUANTIZATION",
                )
        function = "NONE" if context.scaled else nonlinear(activation, fix.fix_point)
        sources = [context.fixed(n) for n in node.inputs.get("input", ())]
        return rules[node.kind](Call(context, node, function, fix, sources, activation))
    except Refusal as refusal:
        context.refuse(node, str(refusal))
        if activation is not None:
            context.refuse(activation, str(refusal))
        return None


def _is_quantized(context: Context, node: Node, name: str) -> bool:
    """Return whether an input is integers, or a bias that can become such."""
    source = context.graph[name]
    if source.kind == "fix":
        return True
    if not context.scaled:
        return False
    constant = source.kind == "const" and name in node.inputs.get("bias", ())
    return constant or (
        source.kind == "fix2float" and context.graph[source.inputs["input"][0]].kind == "const-fix"
    )


def _make_final(context: Context, node: Node) -> str | None:
    """Return the op of an engine that stands for one without a ``fix`` behind it, if there is."""
    if node.kind not in FINAL_RULES:
        return None
    try:
        return FINAL_RULES[node.kind](context, node)
    except Refusal as refusal:
        context.refuse(node, str(refusal))
        return None


def _group(context: Context, source: Node) -> tuple[Node, Node | None]:
    """Return the op behind a ``fix`` and the activation between, if its engine has it."""
    if context.scaled:
        before, activation = bounded(context, source)
        return (before, activation) if before.kind in FUSING else (source, None)
    if source.kind in ACTIVATIONS:
        before = context.graph[source.inputs["input"][0]]
        if source.kind in operator_of(before).fuses and len(context.users[before.name]) == 1:
            return before, source
    return source, None


def _check_fix(node: Node, *, constant: bool, scaled: bool) -> None:
    """Raise UnsupportedError for a ``fix`` that the DPU's integers cannot be.

    Constants may have fewer bits: they are 8-bit values on a coarser grid.
    """
    found = node.quantization
    if found.number_format != NumberFormat.INT:
        raise UnsupportedError(
            f"fix op {node.name!r} makes {found.number_format}, but the DPU computes with integers "
            "of 8 signed bits; this graph is for evaluation and export"
        )
    if not (found.bits == BITS or (constant and found.bits < BITS)) or not found.signed:
        raise UnsupportedError(
            f"fix op {node.name!r} has {found.bits} {'signed' if found.signed else 'unsigned'} "
            "bits, but must have 8 signed bits"
        )
    allowed = found.is_power_of_two or (constant and found.are_powers_of_two)
    if not allowed and not (scaled and (constant or len(found.scale) == 1)):
        what = f"scales per channel (axis {found.axis})" if len(found.scale) > 1 else (
            f"zero point {found.zero_point[0]}" if any(found.zero_point)
            else f"scale {found.scale[0]:g}"
        )  # fmt: skip
        raise UnsupportedError(
            f"fix op {node.name!r} has {what}, but the DPU needs one power of two as scale; "
            "this graph is for evaluation and export"
        )


def _check_channels(context: Context, fix: Node) -> None:
    """Raise UnsupportedError if fix points are not those of the output channels of layers."""
    for user in context.users[fix.name]:
        arguments = operator_of(user).parameters
        if arguments is not None:
            axes = {arguments.weights: arguments.outputs % len(fix.shape), arguments.bias: 0}
            if all(
                axes.get(arg) == (fix.quantization.axis or 0) % len(fix.shape)
                for arg, names in user.inputs.items()
                if fix.name in names
            ):
                continue
        raise UnsupportedError(
            f"fix op {fix.name!r} has fix points along axis {fix.quantization.axis}, but "
            f"{user.name!r} ({user.kind}) needs a single one; only weights and biases of layers "
            "may have one for each output channel"
        )
