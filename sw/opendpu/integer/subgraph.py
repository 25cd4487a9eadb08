# SPDX-License-Identifier: Apache-2.0
"""A compiled DPU subgraph as the graph of what it computes."""

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

from opendpu.ir import Array, FixedGraph, Quantization, TensorType
from opendpu.ir.xir_bridge import channels_of, type_with_quantization
from opendpu.ops import CONSTANTS
from opendpu_arch.errors import ModelFormatError
from xir import Op, Subgraph, Tensor, known_attrs

PASSED_ON = ("upload", "download", "identity", "placeholder")
"""Ops whose result is their input."""


def fixed_graph(subgraph: Subgraph, segments: Mapping[int, bytes]) -> FixedGraph:
    """Return the ops of a compiled DPU subgraph; nodes have the names of tensors.

    Compilers leave the values of constants out of the ops, because they are in a constant segment,
    where the tensor says: as they are, channels last. Inputs are the results of ``upload`` ops, or
    tensors of other subgraphs.

    Parameters
    ----------
    subgraph
        A DPU subgraph with machine code.
    segments
        Constant segments by address register.

    Raises
    ------
    ModelFormatError
        The values of a constant are nowhere, two share some of their bytes, or a tensor has no fix
        point.
    GraphError
        An attribute of a tensor has another type than programs know.
    """
    graph = FixedGraph(subgraph.get_name())
    ops = subgraph.toposort()
    inside = {op.get_name() for op in ops}
    for op in ops:  # of a graph that a program has changed; files are checked where they are read
        known_attrs.check(op.get_output_tensor(), known_attrs.TENSOR)
    _check_places(ops)
    for op in ops:
        tensor = op.get_output_tensor()
        if op.get_type() in CONSTANTS:
            value = _constant(op, segments)
            graph.add(tensor.name, "const-fix", _type(tensor), value=value)
            continue
        if op.get_type() == "upload":
            graph.add(tensor.name, "data-fix", _type(tensor))
            continue
        inputs = {}
        for arg, sources in op.get_input_ops().items():
            tensors = [source.get_output_tensor() for source in sources]
            for source, own in zip(sources, tensors, strict=True):
                if source.get_name() not in inside and own.name not in graph.nodes:
                    graph.add(own.name, "data-fix", _type(own))
            inputs[arg] = [own.name for own in tensors]
        kind = "identity" if op.get_type() in PASSED_ON else op.get_type()
        graph.add(tensor.name, kind, _type(tensor), inputs, op.get_attrs())
    return graph


def _type(tensor: Tensor) -> TensorType:
    """Return the type of a tensor, with what its attributes say of its integers."""
    made = type_with_quantization(tensor)
    if made.quantization is not None:
        return made
    if not tensor.has_attr("fix_point"):
        if made.dtype.itemsize > 1:  # an index
            return made
        raise ModelFormatError(f"tensor {tensor.name!r} has no attribute 'fix_point'")
    found = Quantization.power_of_two(
        int(tensor.get_attr("fix_point")), bits=8 * made.dtype.itemsize,
        signed=made.dtype.kind == "i",
    )  # fmt: skip
    channels = channels_of(tensor.get_attrs(), made.shape)
    if channels is not None:
        found = found.along(*channels)
    return dataclasses.replace(made, quantization=found)


def _check_places(ops: list[Op]) -> None:
    """Refuse stripped constants that share some bytes: one of them is somewhere else."""
    places = []
    for op in ops:
        tensor = op.get_output_tensor()
        if op.get_type() in CONSTANTS and tensor.has_attr("ddr_addr") and not op.get_attr("data"):
            first = int(tensor.get_attr("ddr_addr"))
            places.append((first, first + tensor.get_data_size(), tensor.name))
    for (first, end, name), (other, stop, second) in itertools.pairwise(sorted(places)):
        if other < end and (first, end) != (other, stop):
            raise ModelFormatError(
                f"constants {name!r} at {first}..{end} and {second!r} at {other}..{stop} lie on "
                "each other; compile the model again"
            )


def _constant(op: Op, segments: Mapping[int, bytes]) -> Array:
    """Return the values of a constant: those of the op, or else of the segment."""
    tensor, data = op.get_output_tensor(), op.get_attr("data")
    size = tensor.get_data_size()
    located = tensor.has_attr("reg_id") and tensor.has_attr("ddr_addr")
    if len(data) != size or (size == 1 and located):  # one byte may stand for none
        if not located:
            raise ModelFormatError(
                f"constant {tensor.name!r} has {len(data)} bytes for dimensions {tensor.dims}, and "
                "no place in a segment"
            )
        address = int(tensor.get_attr("ddr_addr"))
        data = segments.get(int(tensor.get_attr("reg_id")), b"")[address : address + size]
        if len(data) != size:
            raise ModelFormatError(
                f"constant {tensor.name!r} is at {address}..{address + size}, but its segment ends "
                f"at {address + len(data)}"
            )
    return np.frombuffer(data, tensor.data_type.numpy().newbyteorder("<")).reshape(tensor.dims)
