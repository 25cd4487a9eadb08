# SPDX-License-Identifier: Apache-2.0
"""Mutations of ONNX files: of bytes, and of the fields of the protobuf message."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

Rng = np.random.Generator
Mutation = Callable[[Rng, onnx.ModelProto], str]
"""Changes a model in place; returns what it did."""

SIZES = (-(2**63), -(2**31), -7, -2, -1, 0, 1, 2, 3, 5, 17, 1000, 2**20, 2**31 - 1, 2**31, 2**40,
         2**62, 2**63 - 1)  # fmt: skip
"""Numbers for dimensions and attributes."""
FLOATS = (0.0, -0.0, -1.0, 0.3, 1e-45, 1e30, 3.4e38, np.inf, -np.inf, np.nan)
OTHERS = (
    "Add", "Mul", "Relu", "Conv", "Reshape", "Concat", "MatMul", "Softmax", "If", "Loop", "LSTM",
    "NonMaxSuppression", "NoSuchOperator", "", "Constant", "Cast", "Gather", "Split", "Resize",
)  # fmt: skip
"""Operator types that a node is turned into."""


def pick(rng: Rng, items):
    """Return one of the items of a sequence; nothing of an empty one."""
    items = list(items)
    return items[int(rng.integers(len(items)))] if items else None


def names_of(model: onnx.ModelProto) -> list[str]:
    """Return the names of all tensors."""
    graph = model.graph
    found = [item.name for item in (*graph.input, *graph.initializer)]
    return found + [name for node in graph.node for name in node.output]


def operator(rng: Rng, model: onnx.ModelProto) -> str:
    node = pick(rng, model.graph.node)
    before = node.op_type
    node.op_type = pick(rng, OTHERS)
    if rng.random() < 0.2:
        node.domain = pick(rng, ("com.microsoft", "ai.onnx.ml", "no.such.domain"))
    return f"{before} becomes {node.domain}:{node.op_type}"


def read_other(rng: Rng, model: onnx.ModelProto) -> str:
    """Read another tensor: of another rank, of a later node (a circle), or one that is not."""
    node = pick(rng, model.graph.node)
    at = int(rng.integers(len(node.input)))
    before, node.input[at] = node.input[at], pick(rng, [*names_of(model), "dangling", ""])
    return f"{node.name} reads {node.input[at]!r} instead of {before!r}"


def inputs(rng: Rng, model: onnx.ModelProto) -> str:
    node = pick(rng, model.graph.node)
    given = list(node.input)
    match int(rng.integers(4)):
        case 0:
            given.pop(int(rng.integers(len(given))))
        case 1:
            given.append(pick(rng, names_of(model)))
        case 2:
            given.reverse()
        case 3:
            given.clear()
    before = list(node.input)
    del node.input[:]
    node.input.extend(given)
    return f"inputs of {node.name} are {given} instead of {before}"


def results(rng: Rng, model: onnx.ModelProto) -> str:
    node = pick(rng, model.graph.node)
    before = list(node.output)
    match int(rng.integers(3)):
        case 0:
            node.output[0] = pick(rng, [*names_of(model), ""])
        case 1:
            del node.output[:]
        case 2:
            node.output.append(pick(rng, ["more", *names_of(model)]))
    return f"outputs of {node.name} are {list(node.output)} instead of {before}"


def node_list(rng: Rng, model: onnx.ModelProto) -> str:
    nodes = model.graph.node
    at = int(rng.integers(len(nodes)))
    match int(rng.integers(4)):
        case 0:
            gone = nodes.pop(at)
            return f"node {gone.name} is gone"
        case 1:
            nodes.add().CopyFrom(nodes[at])
            return f"node {nodes[at].name} is there twice"
        case 2:
            order = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del nodes[:]
            nodes.extend(order[i] for i in rng.permutation(len(order)))
            return "nodes are in another order"
        case _:
            nodes[at].name = pick(rng, ["", *(node.name for node in nodes)])
            return f"node {at} is called {nodes[at].name!r}"


def number(rng: Rng) -> int:
    return int(pick(rng, SIZES))


def attribute(rng: Rng, model: onnx.ModelProto) -> str:
    node = pick(rng, [node for node in model.graph.node if node.attribute])
    if node is None:
        return operator(rng, model)
    at = int(rng.integers(len(node.attribute)))
    one = node.attribute[at]
    label = f"{node.name}.{one.name}"
    match int(rng.integers(7)):
        case 0:
            node.attribute.pop(at)
            return f"{label} is missing"
        case 1 if one.type == AttributeProto.INTS:
            one.ints[int(rng.integers(len(one.ints)))] = number(rng)
        case 1 | 2 if one.type == AttributeProto.INT:
            one.i = number(rng)
        case 1 | 2 if one.type == AttributeProto.FLOAT:
            one.f = pick(rng, FLOATS)
        case 1 | 2 if one.type == AttributeProto.STRING:
            one.s = pick(rng, (b"", b"linear", b"VALID", b"SAME_LOWER", b"no such", b"\xff\xfe"))
        case 2 | 3 if one.type == AttributeProto.INTS:
            values = [number(rng) for _ in range(int(rng.integers(6)))]
            del one.ints[:]
            one.ints.extend(values)
        case 4:
            one.type = pick(rng, AttributeProto.AttributeType.values())
            return f"{label} is of type {one.type}"
        case 5:
            node.attribute.add().CopyFrom(one)
            return f"{label} is there twice"
        case _:
            one.name = pick(rng, ("axis", "pads", "group", "kernel_shape", "to", "nonsense", ""))
            return f"{label} is called {one.name!r}"
    return f"{label} is {onnx.helper.get_attribute_value(one)!r}"


def weights(rng: Rng, model: onnx.ModelProto) -> str:
    tensor = pick(rng, model.graph.initializer)
    match int(rng.integers(8)):
        case 0:
            tensor.dims[:] = [number(rng) for _ in range(int(rng.integers(6)))]
            return f"weights {tensor.name} have dims {list(tensor.dims)}"
        case 1:
            tensor.dims.reverse()
            return f"weights {tensor.name} have dims {list(tensor.dims)}"
        case 2:
            tensor.data_type = int(rng.integers(0, 25))
            return f"weights {tensor.name} are of type {tensor.data_type}"
        case 3:
            tensor.raw_data = tensor.raw_data[: int(rng.integers(len(tensor.raw_data)))]
            return f"weights {tensor.name} are cut to {len(tensor.raw_data)} bytes"
        case 4:
            tensor.name = pick(rng, ["", *names_of(model)])
            return f"weights are called {tensor.name!r}"
        case 5:
            model.graph.initializer.add().CopyFrom(tensor)
            return f"weights {tensor.name} are there twice"
        case 6:
            tensor.data_location = TensorProto.EXTERNAL
            entry = tensor.external_data.add()
            entry.key, entry.value = "location", pick(rng, ("none.bin", "../x", "/etc/passwd", ""))
            return f"weights {tensor.name} are in {entry.value!r}"
        case _:
            return values(rng, tensor)


def values(rng: Rng, tensor: TensorProto) -> str:
    """Change one value, or all, to one that weights do not have."""
    array = onnx.numpy_helper.to_array(tensor).copy()
    flat = array.reshape(-1)
    value = pick(rng, FLOATS) if array.dtype.kind == "f" else number(rng)
    where = slice(None) if rng.random() < 0.3 else slice(int(rng.integers(flat.size)), None)
    with np.errstate(all="ignore"):
        flat[where] = np.asarray(value).astype(array.dtype)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    return f"weights {tensor.name} have values {value}"


def shape(rng: Rng, model: onnx.ModelProto) -> str:
    """Change what the file says of an input, an output, or a tensor in between."""
    graph = model.graph
    item = pick(rng, [*graph.input, *graph.input, *graph.output, *graph.value_info])
    dims = item.type.tensor_type.shape.dim
    match int(rng.integers(6)):
        case 0 if dims:
            at = int(rng.integers(len(dims)))
            dims[at].dim_value = number(rng)
            return f"dimension {at} of {item.name} is {dims[at].dim_value}"
        case 1 if dims:
            at = int(rng.integers(len(dims)))
            dims[at].dim_param = "N"
            return f"dimension {at} of {item.name} is free"
        case 2 if dims:
            del dims[int(rng.integers(len(dims)))]
            return f"{item.name} has {len(dims)} dimensions"
        case 3:
            dims.add().dim_value = number(rng)
            return f"{item.name} has dimension {len(dims) - 1} of {dims[-1].dim_value}"
        case 4:
            item.type.tensor_type.elem_type = int(rng.integers(0, 25))
            return f"{item.name} is of type {item.type.tensor_type.elem_type}"
        case _:
            item.type.ClearField("tensor_type")
            return f"{item.name} has no type"


def ports(rng: Rng, model: onnx.ModelProto) -> str:
    graph = model.graph
    group = pick(rng, (graph.input, graph.output))
    match int(rng.integers(3)):
        case 0:
            group[0].name = pick(rng, ["", "dangling", *names_of(model)])
            return f"an input or output is called {group[0].name!r}"
        case 1:
            group.add().CopyFrom(group[0])
            return f"{group[0].name} is an input or output twice"
        case _:
            gone = group.pop(0)
            return f"{gone.name} is no input or output"


def header(rng: Rng, model: onnx.ModelProto) -> str:
    match int(rng.integers(4)):
        case 0:
            model.opset_import[0].version = int(pick(rng, (-1, 0, 1, 6, 7, 12, 21, 99, 2**40)))
            return f"operator set {model.opset_import[0].version}"
        case 1:
            del model.opset_import[:]
            return "no operator set"
        case 2:
            model.ir_version = int(pick(rng, (-1, 0, 3, 99, 2**40)))
            return f"IR version {model.ir_version}"
        case _:
            model.ClearField("graph")
            return "no graph"


MUTATIONS: tuple[Mutation, ...] = (
    operator, read_other, inputs, results, node_list, attribute, attribute, attribute, weights,
    weights, shape, shape, ports, header,
)  # fmt: skip


def mutated_bytes(rng: Rng, data: bytes) -> tuple[bytes, str]:
    """Return a file with some bytes changed, and what was done."""
    raw = bytearray(data)
    at = int(rng.integers(len(raw)))
    size = int(rng.integers(1, 64))
    match int(rng.integers(5)):
        case 0:
            for place in rng.integers(0, len(raw), int(rng.integers(1, 9))):
                raw[place] ^= 1 << int(rng.integers(8))
            done = "bits flipped"
        case 1:
            del raw[at:]
            done = f"cut at {at}"
        case 2:
            del raw[at : at + size]
            done = f"{size} bytes gone at {at}"
        case 3:
            raw[at:at] = rng.bytes(size)
            done = f"{size} bytes more at {at}"
        case _:
            raw[at : at + size] = bytes(len(raw[at : at + size]))
            done = f"{size} bytes zero at {at}"
    return bytes(raw), done


def mutated(rng: Rng, model: onnx.ModelProto) -> tuple[bytes, str]:
    """Return a mutated file and what was done: to bytes one time in four, else to fields."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, model.SerializeToString())
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    done = []
    for _ in range(1 + int(rng.random() < 0.3)):
        if changed.graph.node:
            try:
                done.append(pick(rng, MUTATIONS)(rng, changed))
            except (IndexError, ValueError, TypeError, AttributeError) as error:
                done.append(f"a second change did not fit the first ({error})")
    return changed.SerializeToString(), "; ".join(done)
