# SPDX-License-Identifier: Apache-2.0
"""Products of two computed tensors: a product of feature maps for each matrix of the batch.

The array multiplies rows with rows, both as they lie in DDR. So each matrix is looked up where its
bytes are: ops that only move data between a result and the product (heads that are channels of a
projection, say) cost nothing. A matrix that lies there by columns becomes rows by a product with
the unit matrix.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from opendpu.compiler.legalize.context import Context
from opendpu.compiler.legalize.refusal import Refusal
from opendpu.compiler.legalize.registry import Call
from opendpu.ir import Node
from opendpu.ops.fixed.product import KIND

Places = npt.NDArray[np.int64]
"""Where the elements of a tensor are in the one that holds them: flat indices."""
ACTIVATIONS = ("NONE", "RELU", "RELU6")
ATTRIBUTES = {"transpose_a": False, "transpose_b": True}


def product(call: Call) -> str:
    """Make products of feature maps, side by side in the result."""
    node, context = call.node, call.context
    if node.inputs.get("bias") or call.nonlinear not in ACTIVATIONS:
        raise Refusal(
            f"DPU only supports matmul of two feature maps without bias and with one of "
            f'{", ".join(ACTIVATIONS)}, but "nonlinear" is {call.nonlinear}; a sum behind it would '
            "lift it",
            "XCOM_UNEXPECTED_VALUE",
        )
    one, other = (
        _factor(context, name, swapped=swapped)
        for name, swapped in zip(node.inputs["input"], _swapped(node), strict=True)
    )
    batch = np.broadcast_shapes(one.places.shape[:-2], other.places.shape[:-2])
    one, other = one.broadcast(batch), other.broadcast(batch)
    made = []
    for index in np.ndindex(batch):
        factors = [_rows(call, factor, factor.places[index]) for factor in (one, other)]
        made.append(_product(call, factors, single=math.prod(batch) == 1))
    if len(made) == 1:
        return context.view(made[0], node.shape)
    shape = (1, len(made), *node.shape[-2:])
    joined = context.add(node, call.fix, "concat-fix", {"input": made}, {"axis": 1}, shape=shape)
    return context.view(joined, node.shape)


def _swapped(node: Node) -> tuple[bool, bool]:
    """Return which factors have their rows as columns; those of the second are wanted as rows."""
    return bool(node.attrs.get("transpose_a")), not node.attrs.get("transpose_b")


@dataclasses.dataclass(frozen=True)
class _Factor:
    """Matrices of a batch, as places in the tensor ``holder`` of the fixed-point graph."""

    holder: str
    places: Places

    def broadcast(self, batch: tuple[int, ...]) -> "_Factor":
        """Return as many matrices as the product has."""
        return _Factor(self.holder, np.broadcast_to(self.places, (*batch, *self.places.shape[-2:])))


def _factor(context: Context, name: str, *, swapped: bool) -> _Factor:
    """Return a factor in the tensor that its data comes from, if each matrix has steps there."""
    holder, moves = _origin(context, name)
    places = np.arange(math.prod(context.graph[holder].shape))
    places = places.reshape(context.graph[holder].shape)
    for move in reversed(moves):
        places = MOVES[move.kind](move, places)
    own = np.arange(places.size).reshape(places.shape)
    if swapped:
        places, own = np.swapaxes(places, -1, -2), np.swapaxes(own, -1, -2)
    size = math.prod(context.graph[holder].shape)
    if all(_steps(places[index], size) for index in np.ndindex(places.shape[:-2])):
        return _Factor(context.fixed(holder), places)
    return _Factor(context.fixed(name), own)


def _origin(context: Context, name: str) -> tuple[str, list[Node]]:
    """Return the ``fix`` that data comes from, and what moves it, the last one first."""
    moves: list[Node] = []
    while True:
        fix = context.graph[name]
        move = context.graph[fix.inputs["input"][0]]
        if move.kind not in MOVES:
            return name, moves
        (source,) = move.inputs["input"]
        before = context.graph[source]
        if before.kind != "fix" or before.quantization != fix.quantization:
            return name, moves
        moves.append(move)
        name = source


def _reshape(node: Node, places: Places) -> Places:
    return places.reshape(node.shape)


def _transpose(node: Node, places: Places) -> Places:
    return places.transpose([int(axis) for axis in node.attrs["order"]])


def _slice(node: Node, places: Places) -> Places:
    limits = zip(*(node.attrs[key] for key in ("begin", "end", "strides")), strict=True)
    return places[tuple(slice(*limit) for limit in limits)]


MOVES: dict[str, Callable[[Node, Places], Places]] = {
    "reshape": _reshape, "flatten": _reshape, "squeeze": _reshape, "transpose": _transpose,
    "strided_slice": _slice,
}  # fmt: skip
"""What ops that move data do to the places of elements."""


def _steps(matrix: Places, size: int) -> tuple[int, int, int] | None:
    """Return the first place of a matrix, and its steps from row to row and column to column.

    One of the steps is 1, and rows (or columns) lie within rows of the other step's length, of
    which the holder, of ``size`` elements, has a whole number; none if that is not so.
    """
    rows, columns = matrix.shape
    start = int(matrix[0, 0])
    down = int(matrix[1, 0]) - start if rows > 1 else 0
    across = int(matrix[0, 1]) - start if columns > 1 else 1
    if not np.array_equal(
        matrix, start + down * np.arange(rows)[:, None] + across * np.arange(columns)
    ):
        return None
    if rows == 1:
        down = columns if start % columns == 0 == size % columns else size
    for length, step, one in ((columns, down, across), (rows, across, down)):
        if one == 1 and step >= length and size % step == 0 and start % step + length <= step:
            return start, down, across
    return None


def _rows(call: Call, factor: _Factor, matrix: Places) -> str:
    """Return a matrix as a feature map, a pixel a row."""
    context, (rows, columns) = call.context, matrix.shape
    holder = context.result[factor.holder]
    if holder.value is not None:
        values = holder.value.ravel()[matrix].reshape(1, 1, rows, columns)
        return context.constant(f"{holder.name}_matrix", values, holder.fix_point)
    found = _steps(matrix, math.prod(holder.shape))
    assert found is not None  # else it would not be looked up there
    start, down, across = found
    if across == 1 and down >= columns:
        return _pixels(call, holder, (rows, columns), start, down)
    return _transposed(call, _pixels(call, holder, (columns, rows), start, across))


def _pixels(call: Call, holder: Node, shape: tuple[int, int], start: int, step: int) -> str:
    """Return a matrix whose rows are ``step`` elements apart in ``holder``."""
    context, (rows, columns) = call.context, shape
    whole = context.view(holder.name, (1, 1, math.prod(holder.shape) // step, step))
    if context.result[whole].shape == (1, 1, rows, columns):
        return whole
    row, column = divmod(start, step)
    attrs = {
        "begin": [0, 0, row, column], "end": [1, 1, row + rows, column + columns],
        "strides": [1, 1, 1, 1],
    }  # fmt: skip
    name = context.result.unique(f"{call.node.name}_factor")
    made = holder.type.with_shape((1, 1, rows, columns))
    return context.result.add(
        name, "strided_slice-fix", made, {"input": [whole]}, attrs, origin=call.node.origin,
        tensor=name,
    ).name  # fmt: skip


def _transposed(call: Call, name: str) -> str:
    """Return the columns of a matrix as rows: the unit matrix times it."""
    context, source = call.context, call.context.result[name]
    _, _, columns, rows = source.shape
    unit = np.eye(rows, dtype=np.int8).reshape(1, 1, rows, rows)
    one = context.constant(f"{call.node.name}_unit", unit, 0)
    made = context.result.unique(f"{call.node.name}_transposed")
    return context.result.add(
        made, KIND, source.type.with_shape((1, 1, rows, columns)), {"input": [one, name]},
        {**ATTRIBUTES, "nonlinear": "NONE"}, origin=call.node.origin, tensor=made,
    ).name  # fmt: skip


def _product(call: Call, factors: list[str], *, single: bool) -> str:
    """Return the product of two matrices."""
    context = call.context
    shape = (1, 1, *(context.result[name].shape[2] for name in factors))
    attrs = {**ATTRIBUTES, "nonlinear": call.nonlinear}
    tensor = call.fix.name if single else context.result.unique(f"{call.fix.name}_part")
    return context.add(
        call.node, call.fix, KIND, {"input": factors}, attrs, shape=shape, tensor=tensor
    )
