# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs as plain values and tensors, which ``torch.load`` reads without running code."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from opendpu.ir import (
    Array,
    Node,
    NumberFormat,
    Origin,
    Quantization,
    QuantizedGraph,
    Rounding,
    TensorType,
)

Stored = dict[str, Any]


def stored(graph: QuantizedGraph) -> Stored:
    """Return a graph as what :func:`restored` takes, without the values of constants."""
    return {
        "name": graph.name,
        "outputs": list(graph.outputs),
        "attrs": _plain(graph.attrs),
        "nodes": [_node(node) for node in graph],
    }


def constants(graph: QuantizedGraph) -> dict[str, torch.Tensor]:
    """Return the values of the constants of a graph, by node."""
    return {node.name: tensor_of(node.value) for node in graph if node.value is not None}


def restored(found: Mapping[str, Any], values: Mapping[str, torch.Tensor]) -> QuantizedGraph:
    """Return the graph that :func:`stored` wrote, with these values of its constants.

    Raises
    ------
    KeyError
        The value of a constant is missing.
    """
    graph = QuantizedGraph(found["name"])
    for one in found["nodes"]:
        made = TensorType(
            tuple(one["shape"]), np.dtype(one["dtype"]), _quantization(one["quantization"])
        )
        value = values[one["name"]].numpy() if one["constant"] else None
        node = graph.add(
            one["name"], one["kind"], made, one["inputs"], _loaded(one["attrs"]), value,
            origin=Origin(*one["origin"]), tensor=one["tensor"],
        )  # fmt: skip
        node.reason = one["reason"]
    graph.outputs = list(found["outputs"])
    graph.attrs = _loaded(found["attrs"])
    return graph


def tensor_of(array: Array) -> torch.Tensor:
    """Return an array as a tensor of its own."""
    return torch.from_numpy(np.array(array, order="C"))


def _node(node: Node) -> Stored:
    return {
        "name": node.name, "kind": node.kind, "shape": list(node.shape),
        "dtype": node.type.dtype.str, "quantization": _fields(node.type.quantization),
        "inputs": {arg: list(names) for arg, names in node.inputs.items()},
        "attrs": _plain(node.attrs), "constant": node.value is not None, "tensor": node.tensor,
        "reason": node.reason, "origin": list(dataclasses.astuple(node.origin)),
    }  # fmt: skip


def _fields(found: Quantization | None) -> Stored | None:
    if found is None:
        return None
    return {one.name: _plain(getattr(found, one.name)) for one in dataclasses.fields(found)}


def _quantization(found: Stored | None) -> Quantization | None:
    if found is None:
        return None
    kept = {key: _tuple(value) for key, value in found.items()}
    kept["rounding"] = Rounding(kept["rounding"])
    kept["number_format"] = NumberFormat(kept["number_format"])
    return Quantization(**kept)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """Return a value of an attribute in types that need no code to be read."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return torch.frombuffer(bytearray(value), dtype=torch.uint8) if value else ""
    if isinstance(value, enum.Enum):
        return value.value
    return value.item() if isinstance(value, np.generic) else value


def _loaded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _loaded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_loaded(one) for one in value]
    return value.numpy().tobytes() if isinstance(value, torch.Tensor) else value
