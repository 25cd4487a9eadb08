# SPDX-License-Identifier: Apache-2.0
"""A DPU subgraph as a program: code, memory segments, and where the tensors lie in them."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from opendpu.runtime.device import Segment
from opendpu_arch import isa
from opendpu_arch.errors import AddressError, DecodeError, ModelFormatError, UnsupportedError
from opendpu_arch.target import MAX_ADDRESS_REGISTERS
from xir import Graph, Op, Subgraph, Tensor

_TRANSPARENT = ("upload", "download", "reshape-fix", "identity", "placeholder")
"""Ops whose result lies where their input lies."""

CONTEXTS, SIZES = "reg_id_to_context_type", "reg_id_to_size"
"""Attributes of a subgraph: what a register's segment holds, and its bytes."""

IN_DDR = 1
"""The attribute ``location`` of tensors in the DPU's memory."""

PADDING = 1 << 20
"""Bytes at most that a constant segment has more than its value."""


@dataclasses.dataclass(frozen=True)
class Port:
    """One input or output of a program and its place in a segment."""

    tensor: Tensor
    """The subgraph's input or output as programs see it, with ``reg_id`` and ``ddr_addr``."""
    inner: str
    """Name of the tensor inside the subgraph: of an input, what uploads give."""
    aliases: tuple[str, ...]
    """Other names for the same data: the tensors on the near side of upload and download."""
    reg_id: int
    address: int
    """Byte offset of the first element in the segment."""
    dims: tuple[int, ...]
    """Dimensions of what lies there: as many elements as the tensor has."""
    strides: tuple[int, ...]
    """Distance between elements along each dimension, in bytes."""

    @property
    def name(self) -> str:
        """Name of the tensor."""
        return self.tensor.name

    @functools.cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of an element, in the segment and in the tensor."""
        return self.tensor.data_type.numpy()

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """Dimensions of the tensor."""
        return tuple(self.tensor.dims)

    @functools.cached_property
    def is_dense(self) -> bool:
        """Whether the elements lie one after the other, as in an array."""
        sizes = [math.prod(self.dims[axis + 1 :]) for axis in range(len(self.dims))]
        wanted = [size * self.dtype.itemsize for size in sizes]
        pairs = zip(self.dims, self.strides, wanted, strict=True)
        return all(dim == 1 or stride == want for dim, stride, want in pairs)

    @property
    def extent(self) -> int:
        """Bytes from the start of the segment to the end of the last element."""
        last = sum((d - 1) * s for d, s in zip(self.dims, self.strides, strict=True))
        return self.address + last + self.dtype.itemsize

    def view(self, segment: Segment) -> npt.NDArray[Any]:
        """Return the elements in ``segment`` as an array of :attr:`dims`."""
        return np.ndarray(self.dims, self.dtype, segment.data, self.address, self.strides)


@dataclasses.dataclass(frozen=True)
class Program:
    """What a DPU subgraph holds for its runner."""

    name: str
    code: bytes
    fingerprint: int
    constants: Mapping[int, bytes]
    sizes: Mapping[int, int]
    """Bytes of every segment that is not constant."""
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @functools.cached_property
    def written(self) -> frozenset[int]:
        """Registers that the code writes; all of them where it is no program."""
        try:
            instructions = isa.decode(self.code)
        except DecodeError:
            return frozenset(range(MAX_ADDRESS_REGISTERS))
        return frozenset(i.reg_id for i in instructions if isinstance(i, isa.Save))

    def place_of(self, tensor: Tensor) -> Port | None:
        """Return where a tensor of the subgraph lies; nothing if that is in no segment."""
        if not (tensor.has_attr("reg_id") and tensor.has_attr("ddr_addr")):
            return None
        port = _port(self.name, tensor, tensor)
        size = self.sizes.get(port.reg_id, 0)
        return port if port.address >= 0 and port.extent <= size else None

    @classmethod
    def from_subgraph(cls, subgraph: Subgraph) -> "Program":
        """Read the attributes of a compiled DPU subgraph.

        Raises
        ------
        UnsupportedError
            The subgraph is not for the DPU.
        ModelFormatError
            An attribute is missing or wrong.
        AddressError
            A tensor lies outside its segment.
        """
        label = f"subgraph {subgraph.get_name()!r}"
        device = subgraph.get_attr("device") if subgraph.has_attr("device") else None
        if not isinstance(device, str) or device.upper() != "DPU":
            raise UnsupportedError(f"{label} is for device {device!r}, but must be for 'DPU'")
        code = _attr(subgraph, "mc_code", bytes)
        if not code:
            raise ModelFormatError(
                f"{label}: attribute 'mc_code' is empty", code="VART_XMODEL_ERROR"
            )
        constants, sizes = _segments(subgraph)
        inputs, outputs = _inputs(subgraph), _outputs(subgraph)
        whole = {**sizes, **{reg: len(value) for reg, value in constants.items()}}
        for port in (*inputs, *outputs):
            size = whole.get(port.reg_id)
            if size is None or port.address < 0 or port.extent > size:
                raise AddressError(
                    f"{label}: tensor {port.name!r} is at {port.address}..{port.extent} of "
                    f"REG_{port.reg_id}, which has {size or 0} bytes"
                )
            if port.reg_id in constants:
                raise ModelFormatError(
                    f"{label}: tensor {port.name!r} is in REG_{port.reg_id}, but that is constant"
                )
        fingerprint = 0
        if subgraph.has_attr("dpu_fingerprint"):
            fingerprint = _attr(subgraph, "dpu_fingerprint", int)
        return cls(subgraph.get_name(), code, fingerprint, constants, sizes, inputs, outputs)


def dpu_subgraphs(graph: Graph) -> list[Subgraph]:
    """Return the compiled DPU subgraphs of a graph, in the order they run."""
    root = graph.get_root_subgraph()
    children = [root] if root.is_leaf else root.toposort_child_subgraph()
    return [
        child
        for child in children
        if child.has_attr("device") and str(child.get_attr("device")).upper() == "DPU"
    ]


def _attr(subgraph: Subgraph, key: str, expected: type) -> Any:
    label = f"subgraph {subgraph.get_name()!r}"
    if not subgraph.has_attr(key):
        raise ModelFormatError(
            f"{label}: attribute {key!r} is missing; is the model compiled?",
            code="VART_XMODEL_ERROR",
        )
    value = subgraph.get_attr(key)
    if not isinstance(value, expected):
        raise ModelFormatError(
            f"{label}: attribute {key!r} is a {type(value).__name__}, "
            f"but must be {expected.__name__}",
            code="VART_XMODEL_ERROR",
        )
    return value


def by_register(subgraph: Subgraph, key: str, expected: type) -> dict[str, Any]:
    """Return an attribute that has a value of one type for each register."""
    found: dict[str, Any] = _attr(subgraph, key, dict)
    for name, value in found.items():
        if not isinstance(value, expected):
            raise ModelFormatError(
                f"subgraph {subgraph.get_name()!r}: attribute {key!r} has a "
                f"{type(value).__name__} for {name}, but must have {expected.__name__}",
                code="VART_XMODEL_ERROR",
            )
    return found


def _register(label: str, name: str) -> int:
    number = name.removeprefix("REG_")
    if not (name.startswith("REG_") and number.isdecimal() and int(number) < MAX_ADDRESS_REGISTERS):
        raise ModelFormatError(
            f"{label}: register is {name!r}, but must be REG_0..REG_{MAX_ADDRESS_REGISTERS - 1}",
            code="VART_XMODEL_ERROR",
        )
    return int(number)


def _segments(subgraph: Subgraph) -> tuple[dict[int, bytes], dict[int, int]]:
    """Return the constant segments and the sizes of the others, by register."""
    label = f"subgraph {subgraph.get_name()!r}"
    types = by_register(subgraph, CONTEXTS, str)
    sizes = by_register(subgraph, SIZES, int)
    values: dict[str, bytes] = {}
    if subgraph.has_attr("reg_id_to_parameter_value"):
        values = by_register(subgraph, "reg_id_to_parameter_value", bytes)
    constants, others = {}, {}
    for name, context in types.items():
        register = _register(label, name)
        size = sizes.get(name, 0)
        if size < 0:
            raise ModelFormatError(f"{label}: size of {name} is {size}, but must not be negative")
        if context == "CONST":
            if name not in values:
                raise ModelFormatError(f"{label}: {name} is CONST, but has no parameter value")
            missing = size - len(values[name])
            if missing > PADDING:
                raise ModelFormatError(
                    f"{label}: size of {name} is {size}, but its parameter value has "
                    f"{len(values[name])} bytes"
                )
            constants[register] = values[name].ljust(size, b"\0")
        else:
            others[register] = size
    return constants, others


def _inputs(subgraph: Subgraph) -> tuple[Port, ...]:
    """Return the inputs by the names of the tensors in front of the uploads, as AMD's runners do.

    A tensor that is uploaded to several places is several inputs, with the names of those.
    """
    inside = set(subgraph.get_ops())
    ports: dict[str, Port] = {}
    for tensor in subgraph.get_input_tensors():
        producer = tensor.producer
        assert producer is not None
        users = [op for op in producer.get_fanout_ops() if op in inside]
        places = [op.get_output_tensor() for op in users if op.get_type() == "upload"]
        if len(places) < len(users):
            places.append(tensor)
        for place in places:
            told = tensor if len(places) == 1 else place
            others = tuple({tensor.name, place.name} - {told.name})
            ports[told.name] = _port(subgraph.get_name(), told, place, others, place.name)
    return tuple(ports[name] for name in sorted(ports))


def _outputs(subgraph: Subgraph) -> tuple[Port, ...]:
    ports = {}
    for tensor in subgraph.get_output_tensors():
        if tensor.producer is None or _is_constant(tensor.producer):
            continue
        place, aliases = tensor, []
        while not place.has_attr("reg_id"):
            producer = place.producer
            if producer is None or producer.get_type() not in _TRANSPARENT:
                break
            sources = producer.get_input_tensors()
            if not sources:
                break
            place = sources[0]
            aliases.append(place.name)
        ports[tensor.name] = _port(subgraph.get_name(), tensor, place, tuple(aliases))
    return tuple(ports[name] for name in sorted(ports))


def _is_constant(op: Op) -> bool:
    return op.get_type() in ("const", "const-fix")


def _port(
    subgraph: str, tensor: Tensor, place: Tensor, aliases: tuple[str, ...] = (), inner: str = ""
) -> Port:
    label = f"subgraph {subgraph!r}: tensor {tensor.name!r}"
    missing = [key for key in ("reg_id", "ddr_addr") if not place.has_attr(key)]
    if missing:
        raise ModelFormatError(f"{label} has no attribute {missing[0]!r}")
    itemsize = place.data_type.numpy().itemsize
    dims = tuple(place.dims)
    if place.get_element_num() != tensor.get_element_num() or 0 in dims:
        raise ModelFormatError(
            f"{label} has dimensions {tensor.dims}, but lies in memory as {dims}"
        )
    if place.has_attr("stride"):
        stride = place.get_attr("stride")
        if not isinstance(stride, list) or len(stride) != len(dims) or min(stride) < 0:
            raise ModelFormatError(f"{label} has stride {stride} for dimensions {list(dims)}")
    else:
        stride = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    return Port(
        _placed(tensor, place),
        inner or tensor.name,
        aliases,
        place.get_attr("reg_id"),
        place.get_attr("ddr_addr"),
        dims,
        tuple(step * itemsize for step in stride),
    )


def _placed(tensor: Tensor, place: Tensor) -> Tensor:
    """Return a copy of a tensor that says where in memory it is; itself where it says so."""
    if tensor.has_attr("reg_id"):
        return tensor
    made = Tensor(tensor.name, tensor.dims, place.data_type)
    made.set_attrs(tensor if tensor.has_attr("fix_point") else place)
    made.set_attr("location", IN_DDR, "int32")
    for key in ("reg_id", "ddr_addr"):
        made.set_attr(key, place.get_attr(key), "int32")
    return made
