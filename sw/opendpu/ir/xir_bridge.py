# SPDX-License-Identifier: Apache-2.0
"""Graphs to XIR and back: where files and plug-ins are."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import xir
from opendpu.ir.graph import Array, FloatGraph, Graph, Node, QuantizedGraph
from opendpu.ir.types import UNKNOWN, Origin, Quantization, Rounding, TensorType
from opendpu_arch.errors import GraphError

ORIGIN = "origin"
"""Attribute of an op: where it comes from, the fields of :class:`Origin`, in order."""
CONSTANTS = ("const", "const-fix")
QUANTIZING = ("fix", "fix2float", "float2fix")
"""Ops whose attributes are the quantization of their result."""
FIX_POINTS, AXIS = "fix_points", "axis"
"""Attributes beside ``fix_point``: fractional bits for each index along an axis. ``fix_point``,
which is all that others know, is then the least of them."""
SCALE = "scale"
"""Attribute in place of ``fix_point``: scales that are no powers of two around zero."""
_TYPED = ("data", "shape", "data_type")
"""Attributes that say what the type of a node says."""


def to_xir(graph: Graph) -> xir.Graph:
    """Return a float or quantized graph as XIR graph, with graph attribute ``return_ops``.

    Raises
    ------
    GraphError
        An op breaks its definition, or the shape that XIR infers is not the graph's.
    """
    result = xir.Graph(graph.name)
    ops: dict[str, xir.Op] = {}
    for node in graph:
        attrs = node.attrs | fix_attributes(node)
        if node.value is not None:
            attrs |= constant_attributes(node.value)
        elif node.kind == "data" or node.kind not in xir.builtin():
            attrs |= {"shape": list(node.shape), "data_type": data_type_of(node.type)}
        elif node.kind == "cast":
            attrs["data_type"] = data_type_of(node.type)
        inputs = {arg: [ops[n] for n in names] for arg, names in node.inputs.items()}
        op = result.create_op(node.name, node.kind, attrs, inputs)
        if tuple(op.get_output_tensor().dims) != node.shape:
            raise GraphError(
                f"op {node.name!r} ({node.kind}) has shape {list(node.shape)}, "
                f"but XIR infers {op.get_output_tensor().dims}"
            )
        set_origin(op, node.origin)
        ops[node.name] = op
    for key, value in graph.attrs.items():
        result.set_attr(key, value)
    result.set_attr("return_ops", list(graph.outputs))
    return result


def from_xir(graph: xir.Graph) -> FloatGraph | QuantizedGraph:
    """Return a float or quantized XIR graph; outputs are its ``return_ops``.

    Without that attribute, the outputs are the ops whose result nobody uses.
    """
    quantized = any(op.get_type() == "fix" for op in graph.get_ops())
    result = (QuantizedGraph if quantized else FloatGraph)(graph.get_name())
    for op in graph.toposort():
        add_op(result, op)
    if graph.has_attr("return_ops"):
        result.outputs = list(graph.get_attr("return_ops"))
    else:
        result.outputs = [op.get_name() for op in graph.get_tail_ops()]
    result.attrs = {k: v for k, v in graph.get_attrs().items() if k != "return_ops"}
    for name in result.outputs:
        result[name]
    return result


def type_of(tensor: xir.Tensor) -> TensorType:
    """Return the type of a tensor; XIR has uint8 for bool."""
    return TensorType(tuple(tensor.dims), tensor.data_type.numpy())


def add_op(graph: Graph, op: xir.Op, name_of: Callable[[xir.Op], str] = xir.Op.get_name) -> Node:
    """Append the node of an XIR op, whose inputs are in ``graph`` under their ``name_of``."""
    attrs = dict(op.get_attrs())
    origin = _origin_of(attrs.pop(ORIGIN, None))
    tensor = op.get_output_tensor()
    value: Array | None = None
    if op.get_type() in CONSTANTS:
        value = _constant(op)
    made = type_with_quantization(tensor)
    if value is not None:
        made = dataclasses.replace(made, dtype=value.dtype)
    if op.get_type() in QUANTIZING:
        made = made.with_quantization(_quantization(op, attrs))
    attrs = {k: v for k, v in attrs.items() if k not in _TYPED or op.get_type() == "reshape"}
    inputs = {arg: [name_of(i) for i in ops] for arg, ops in op.get_input_ops().items() if ops}
    attrs |= _sizes(op, inputs)
    return graph.add(name_of(op), op.get_type(), made, inputs, attrs, value, origin=origin)


def _sizes(op: xir.Op, inputs: dict[str, list[str]]) -> dict[str, Any]:
    """Return as attributes what an op has as constant input, which is left out of ``inputs``."""
    dims = op.get_output_tensor().dims
    if op.get_type() == "reshape" and inputs.pop("shape", []):
        return {"shape": list(dims)}
    if op.get_type() == "resize" and inputs.pop("size", []):
        given = op.get_input_tensor("input").dims
        pairs = zip(dims[1:-1], given[1:-1], strict=True)
        return {"scale": [size / before for size, before in pairs][::-1]}
    return {}


def fix_attributes(node: Node) -> dict[str, Any]:
    """Return XIR's attributes of a ``fix``, ``fix2float`` or ``float2fix``; none for others."""
    if node.kind not in QUANTIZING:
        return {}
    return {"fix_point": 0} | quantization_attributes(node.quantization)


def quantization_attributes(quantization: Quantization) -> dict[str, Any]:
    """Return what XIR says of a quantization; of one that it does not know, what we say."""
    found: dict[str, Any] = {
        "bit_width": quantization.bits, "if_signed": quantization.signed,
        "round_mode": str(quantization.rounding),
    }  # fmt: skip
    axis = {} if quantization.axis is None else {AXIS: quantization.axis}
    if not quantization.are_powers_of_two:
        scales = {SCALE: list(quantization.scale), "zero_point": list(quantization.zero_point)}
        return found | scales | axis
    points = quantization.fix_points
    several = {FIX_POINTS: list(points), **axis} if axis else {}
    return {"fix_point": min(points), **found, **several}


def quantization_of(item: xir.Tensor | xir.Op) -> Quantization | None:
    """Return what attributes of a tensor or op say of its integers; none if they say nothing.

    Raises
    ------
    GraphError
        They say something that is no quantization.
    """
    get, has = item.get_attr, item.has_attr
    bits = _integer(item, "bit_width") if has("bit_width") else 8
    signed = bool(_integer(item, "if_signed")) if has("if_signed") else True
    rounding = _rounding(get("round_mode")) if has("round_mode") else Rounding.DPU_ROUND
    if has(SCALE):
        return Quantization(
            tuple(get(SCALE)), tuple(get("zero_point")), get(AXIS) if has(AXIS) else None,
            bits, signed, rounding,
        )  # fmt: skip
    if not has("fix_point"):
        return None
    return Quantization.power_of_two(
        _integer(item, "fix_point"), bits=bits, signed=signed, rounding=rounding
    )


def _integer(item: xir.Tensor | xir.Op, key: str) -> int:
    value = item.get_attr(key)
    if not isinstance(value, int):
        raise GraphError(f"attribute {key!r} is {value!r}, but must be a whole number")
    return value


def _rounding(mode: str) -> Rounding:
    if mode not in tuple(Rounding):
        raise GraphError(
            f"round_mode is {mode!r}, but must be one of {', '.join(Rounding)}",
            code="XCOM_UNSUPPORT_ROUND_MODE",
        )
    return Rounding(mode)


def type_with_quantization(tensor: xir.Tensor) -> TensorType:
    """Return the type of a tensor, with its scale where its integers have one for all of it."""
    made = type_of(tensor)
    fixed = tensor.data_type.type is xir.DataType.XINT and not tensor.has_attr(FIX_POINTS)
    return made.with_quantization(quantization_of(tensor)) if fixed or tensor.has_attr(SCALE) else (
        made
    )  # fmt: skip


def channels_of(attrs: Mapping[str, Any], shape: Sequence[int]) -> tuple[list[int], int] | None:
    """Return fix points and axis where ``attrs`` say them for each index along one; else none.

    Raises
    ------
    GraphError
        They do not fit a tensor of that shape.
    """
    if FIX_POINTS not in attrs:
        return None
    points, axis = [int(point) for point in attrs[FIX_POINTS]], int(attrs.get(AXIS, 0))
    if not 0 <= axis < len(shape) or len(points) != shape[axis]:
        raise GraphError(
            f"{FIX_POINTS} are {len(points)} along {AXIS} {axis}, but the tensor has shape "
            f"{list(shape)}"
        )
    return points, axis


def constant_attributes(value: Array) -> dict[str, Any]:
    """Return the attributes of a constant."""
    data_type = xir.DataType.of(value).to_string()
    array = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False)
    return {"shape": list(value.shape) or [1], "data_type": data_type, "data": array.tobytes()}


def data_type_of(made: TensorType) -> str:
    """Return XIR's name of an element type: fixed point where integers stand for real numbers."""
    if made.is_fixed:
        return f"X{'INT' if made.dtype.kind == 'i' else 'UINT'}{8 * made.dtype.itemsize}"
    return xir.DataType.of(np.empty(0, made.dtype)).to_string()


def set_origin(op: xir.Op, origin: Origin) -> None:
    """Write where an op comes from, if that is known."""
    if origin != UNKNOWN:
        op.set_attr(ORIGIN, [origin.name, origin.op_type, origin.line])


def origin_of_op(op: xir.Op) -> Origin:
    """Return where an op comes from, as far as its graph says so."""
    return _origin_of(op.get_attr(ORIGIN)) if op.has_attr(ORIGIN) else UNKNOWN


def _origin_of(value: Any) -> Origin:
    return Origin(*map(str, value)) if isinstance(value, list) and len(value) == 3 else UNKNOWN


def _quantization(op: xir.Op, attrs: dict[str, Any]) -> Quantization:
    """Take what ``attrs`` say of a quantization out of them."""
    if SCALE in attrs:
        found = quantization_of(op)
        assert found is not None
        for key in ("fix_point", *quantization_attributes(found)):
            attrs.pop(key, None)
        return found
    try:
        point, bits, signed = (_integer(op, key) for key in ("fix_point", "bit_width", "if_signed"))
        rounding = _rounding(op.get_attr("round_mode"))
        for key in ("fix_point", "bit_width", "if_signed", "round_mode"):
            del attrs[key]
        found = Quantization.power_of_two(point, bits=bits, signed=bool(signed), rounding=rounding)
        channels = channels_of(attrs, op.get_output_tensor().dims)
        if channels is None:
            return found
        del attrs[FIX_POINTS]
        attrs.pop(AXIS, None)
        return found.along(*channels)
    except GraphError as error:
        raise error.within(f"op {op.get_name()!r} (fix)") from None


def _constant(op: xir.Op) -> Array:
    tensor = op.get_output_tensor()
    dtype = tensor.data_type.numpy()
    data = op.get_attr("data")
    if len(data) != tensor.get_data_size():
        raise GraphError(
            f"constant {op.get_name()!r} holds {len(data)} bytes, but its tensor {tensor.dims} "
            f"needs {tensor.get_data_size()}; the compiler strips constants that the DPU holds"
        )
    array = np.frombuffer(data, dtype=dtype.newbyteorder("<")).reshape(tensor.dims)
    return array.astype(np.float32) if dtype == np.float64 else array.astype(dtype, copy=False)
