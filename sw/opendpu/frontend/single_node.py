# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes on their own: what types they make, and what they make of constants."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, TypeProto, helper, numpy_helper, shape_inference

from opendpu.frontend.ceil_mode import corrected
from opendpu.frontend.model_file import reads
from opendpu.ir import Array
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu.ops.inference import open_session, reason_of
from opendpu.ops.onnx_builder import IR_VERSION
from opendpu_arch.errors import OldPackageError

if TYPE_CHECKING:
    import onnxruntime

LARGEST_KNOWN = 4096
"""Bytes of the largest constant whose values take part in inference; shapes are smaller."""
LARGEST_FOLDED = 1 << 29
"""Bytes of the largest tensor that is computed while a model is read."""
MOST_ROUNDS = 1 << 12
"""Rounds of the longest loop that is computed while a model is read."""
_RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike",
)  # fmt: skip


class ContradictionError(Exception):
    """Types of a node's inputs, or its attributes, are not what its operator takes."""


class RefusedError(Exception):
    """onnxruntime does not compute a node; the text is its reason."""


@dataclasses.dataclass(frozen=True)
class Dialect:
    """Versions of the operator sets by domain (ONNX's own is ``""``), and libraries with more."""

    opsets: Mapping[str, int]
    libraries: tuple[str, ...] = ()

    @property
    def opset(self) -> int:
        """Version of ONNX's own operator set."""
        return self.opsets[""]

    def model(
        self,
        nodes: Sequence[onnx.NodeProto],
        inputs: Mapping[str, TypeProto],
        constants: Mapping[str, Array],
        outputs: Sequence[str],
    ) -> onnx.ModelProto:
        """Return the model of some nodes; types of the outputs are left open."""
        graph = helper.make_graph(
            list(nodes), "nodes",
            [helper.make_value_info(name, kind) for name, kind in inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
        )  # fmt: skip
        versions = dict(self.opsets)
        for node in nodes:
            versions.setdefault("" if node.domain == "ai.onnx" else node.domain, 1)
        imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def session(self, model: onnx.ModelProto) -> "onnxruntime.InferenceSession":
        """Return a session for a small model; RefusedError if onnxruntime does not take it."""
        try:
            return open_session(model, self.libraries, threads=1, optimized=False)
        except OldPackageError:
            raise
        except Exception as error:  # onnxruntime has no common base class for its errors
            raise RefusedError(reason_of(error)) from None


def output_types(
    dialect: Dialect,
    node: onnx.NodeProto,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, Array],
) -> dict[str, TypeProto]:
    """Return the types of a node's outputs, as far as ONNX or onnxruntime tell.

    Raises
    ------
    ContradictionError
        The inputs are of types that the operator does not take, or smaller than nothing.
    """
    known = {n: constants[n] for n in reads(node) if n in constants}
    small = {n: a for n, a in known.items() if a.nbytes <= LARGEST_KNOWN}
    given = {n: types[n] for n in reads(node) if n in types and n not in known}
    given |= {n: type_of(a) for n, a in known.items() if n not in small}
    wanted = [name for name in node.output if name]
    _check_dimensions(given)
    model = dialect.model([node], given, small, wanted)
    try:
        found = shape_inference.infer_shapes(model, check_type=True, data_prop=True)
        made = _inferred(found, wanted)
        first = given.get(node.input[0]) if node.input else None
        made = {name: corrected(node, first, kind) for name, kind in made.items()}
    except Exception as error:  # onnx raises what its C++ part happened to raise
        raise ContradictionError(reason_of(error)) from None
    if all(name in made and shape_of(made[name]) is not None for name in wanted):
        return made
    try:
        session = dialect.session(model)
    except RefusedError:
        return made
    for item in session.get_outputs():
        kind = _runtime_type(item)
        if kind is not None and (item.name not in made or shape_of(kind) is not None):
            made[item.name] = kind
    return made


def _least(kind: TypeProto) -> int:
    """Return the least dimension of a tensor that is negative, 0 where none is."""
    return min((0, *(dim.dim_value for dim in kind.tensor_type.shape.dim)))


def _check_dimensions(types: Mapping[str, TypeProto]) -> None:
    """Refuse what is smaller than nothing: there onnx's inference ends the process."""
    for name, kind in types.items():
        if size := _least(kind):
            raise ContradictionError(f"its input {name} has a dimension of {size}")


def _inferred(model: onnx.ModelProto, wanted: Sequence[str]) -> dict[str, TypeProto]:
    """Return the types that onnx found for some values, where it found any."""
    made = {v.name: v.type for v in (*model.graph.output, *model.graph.value_info)}
    return {name: made[name] for name in wanted if made.get(name, TypeProto()).ByteSize()}


def evaluate(
    dialect: Dialect, node: onnx.NodeProto, constants: Mapping[str, Array]
) -> dict[str, Array] | None:
    """Return what a node makes of constants; nothing if it makes no arrays of numbers or text."""
    if node.op_type in _RANDOM or not _ends(node, constants):
        return None
    if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS:
        return {node.output[0]: constant_value(node)}
    if not node.input and node.op_type != "ConstantOfShape":
        return None
    known = {name: constants[name] for name in reads(node)}
    wanted = [name for name in node.output if name]
    kinds = {name: type_of(array) for name, array in known.items()}
    try:
        made = output_types(dialect, node, kinds, known)
        if sum(map(_bytes_of, made.values())) > LARGEST_FOLDED:
            return None
        session = dialect.session(dialect.model([node], kinds, {}, wanted))
        results = session.run(wanted, known)
    except Exception:  # onnxruntime has no common base class; the node stays as it is
        return None
    if not all(isinstance(array, np.ndarray) for array in results):
        return None
    return dict(zip(wanted, results, strict=True))


def _ends(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """Return whether a node is no loop, or one of so few rounds that it may be computed."""
    if node.op_type != "Loop" or node.domain not in DEFAULT_DOMAINS:
        return True
    rounds = constants[node.input[0]] if node.input and node.input[0] else None
    return rounds is not None and rounds.size == 1 and int(rounds.ravel()[0]) <= MOST_ROUNDS


def constant_value(node: onnx.NodeProto) -> Array:
    """Return the value of a node ``Constant``, whichever attribute says it."""
    (attribute,) = node.attribute
    value = helper.get_attribute_value(attribute)
    match attribute.name:
        case "value":
            return np.asarray(numpy_helper.to_array(value))
        case "sparse_value":
            values, places = (
                numpy_helper.to_array(value.values),
                numpy_helper.to_array(value.indices),
            )
            dense = np.zeros(tuple(value.dims), values.dtype)
            flat = (
                places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), dense.shape)
            )
            dense.reshape(-1)[flat] = values
            return dense
        case "value_float" | "value_floats":
            return np.array(value, np.float32)
        case "value_int" | "value_ints":
            return np.array(value, np.int64)
    return np.array(value, object)


def type_of(array: Array) -> TypeProto:
    """Return the ONNX type of an array."""
    if array.dtype.kind in "OSU":
        return helper.make_tensor_type_proto(TensorProto.STRING, array.shape)
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def shape_of(kind: TypeProto) -> tuple[int, ...] | None:
    """Return the shape of a tensor type; nothing where a dimension is unknown."""
    dims = known_dims(kind)
    if dims is None or any(size is None for size in dims):
        return None
    return tuple(size for size in dims if size is not None)


def known_dims(kind: TypeProto) -> list[int | None] | None:
    """Return the dimensions of a tensor type, as far as they are known; nothing without a rank."""
    if kind.WhichOneof("value") != "tensor_type" or not kind.tensor_type.HasField("shape"):
        return None
    return [d.dim_value if d.HasField("dim_value") else None for d in kind.tensor_type.shape.dim]


def dtype_of(kind: TypeProto) -> np.dtype[np.generic] | None:
    """Return the element type of a tensor of integers, floats or bools; nothing for all others."""
    if kind.WhichOneof("value") != "tensor_type":
        return None
    return tensor_dtype(kind.tensor_type.elem_type)


def tensor_dtype(element: int) -> np.dtype[np.generic] | None:
    """Return numpy's type for integers, floats or bools of ONNX; nothing for all others."""
    if element not in helper.get_all_tensor_dtypes():
        return None
    dtype: np.dtype[np.generic] = helper.tensor_dtype_to_np_dtype(element)
    return dtype if is_native(dtype) else None


def is_native(dtype: np.dtype[np.generic]) -> bool:
    """Return whether elements are integers, floats or bools that numpy has by itself."""
    return dtype.kind in "fiub" and dtype.type.__module__ == "numpy"


def _bytes_of(kind: TypeProto) -> int:
    shape, dtype = shape_of(kind), dtype_of(kind)
    if shape is None:
        return 0
    return int(np.prod(shape, dtype=object)) * (dtype.itemsize if dtype else 4)


_TENSOR = re.compile(r"tensor\((\w+)\)")
_ELEMENT_TYPES = frozenset(TensorProto.DataType.keys())
_NAMES = {"float": "FLOAT", "double": "DOUBLE"}


def _runtime_type(item: "onnxruntime.NodeArg") -> TypeProto | None:
    """Return the type of an output as onnxruntime says it: ``tensor(float)``.

    It says ``[]`` for scalars and for shapes that it does not know.
    """
    match = _TENSOR.fullmatch(item.type)
    name = _NAMES.get(match[1], match[1].upper()) if match else ""
    if name not in _ELEMENT_TYPES:
        return None
    dims = [size if isinstance(size, int) else None for size in item.shape] or None
    return helper.make_tensor_type_proto(TensorProto.DataType.Value(name), dims)
