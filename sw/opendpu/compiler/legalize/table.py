# SPDX-License-Identifier: Apache-2.0
"""Functions of one quantized value, between two ``fix`` ops, as tables."""

import numpy as np

from opendpu.compiler.legalize.context import Context, feature_shape
from opendpu.compiler.legalize.integer_functions import in_integers
from opendpu.ir import Array, Node, Quantization
from opendpu.ops.formats import fake_quantize, integers_of, real_numbers
from opendpu.ops.functions import Function, evaluate, function_of
from opendpu_arch.numerics import quantize
from opendpu_arch.table import ENTRIES

LARGE = 2.0**31
"""Stands for infinity; it saturates."""


def by_table(context: Context, source: Node, fix: Node) -> str | None:
    """Return the ``table-fix`` for what is behind a ``fix``; none if that is no such function.

    Entries are those that ``float2fix`` would make of the function's results in float32, or what
    LiteRT's kernel makes in integers. Where the function has none (the root of a negative number),
    the entry is zero.
    """
    function = function_of(context.graph, source.name, context.users, context.order)
    if function is None or context.graph[function.root].kind != "fix":
        return None
    root = context.graph[function.root]
    table = in_integers(context.graph, function, fix.quantization) if context.scaled else None
    if table is None:
        table = _in_float(context, function, fix.quantization)
    given = context.view(context.fixed(root.name), feature_shape(root.shape))
    return context.add(
        source, fix, "table-fix", {"input": [given]}, {"table": [int(entry) for entry in table]},
        shape=context.result[given].shape,
    )  # fmt: skip


def _in_float(context: Context, function: Function, made: Quantization) -> Array:
    """Return the results of a function in float32, rounded, for every byte."""
    bytes_in_order = np.arange(ENTRIES, dtype=np.uint8).view(np.int8)
    given = context.graph[function.root].quantization
    results = np.nan_to_num(
        evaluate(context.graph, function, real_numbers(bytes_in_order, given)),
        nan=0.0, posinf=LARGE, neginf=-LARGE,
    )  # fmt: skip
    if context.scaled:
        return integers_of(fake_quantize(results, made), made)
    return quantize(results, made.fix_point)
