# SPDX-License-Identifier: Apache-2.0
"""A checked ONNX model: inputs of known shapes, constants, and the types of all values."""

import dataclasses
import pathlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TypeProto, helper, numpy_helper

from opendpu.frontend import repeated_pixels
from opendpu.frontend.analysis import Analysis
from opendpu.frontend.attention import with_attention
from opendpu.frontend.batch_first import sequence_first
from opendpu.frontend.binding import Bound, Sizes, bind_inputs
from opendpu.frontend.channel_grids import of_one_scale
from opendpu.frontend.clusters import clustered
from opendpu.frontend.duplicates import without_duplicates
from opendpu.frontend.dynamic_quantization import in_float
from opendpu.frontend.einsum import contracted
from opendpu.frontend.expansion import spelled_out
from opendpu.frontend.eye import as_constant
from opendpu.frontend.feature_norms import gathered
from opendpu.frontend.frames import frame_by_frame
from opendpu.frontend.global_norms import globally_normalized
from opendpu.frontend.guards import unguarded
from opendpu.frontend.input_values import Values
from opendpu.frontend.integer_ports import with_real_ports
from opendpu.frontend.last_channels import resized_channels_first
from opendpu.frontend.libraries import check as check_libraries
from opendpu.frontend.means import with_means
from opendpu.frontend.model_file import AnyModel, constants_of, label_of, read_model, reads
from opendpu.frontend.moments import with_central_moments
from opendpu.frontend.narrow_pairs import with_bytes
from opendpu.frontend.needless_pairs import rounded_once
from opendpu.frontend.normalizations import normalized
from opendpu.frontend.number_outputs import with_number_outputs
from opendpu.frontend.opsets import opsets_of
from opendpu.frontend.pair_operands import with_plain_operands
from opendpu.frontend.patterns import recognized
from opendpu.frontend.plain_norms import without_guards
from opendpu.frontend.precision import in_single_precision, single
from opendpu.frontend.qlinear import expanded
from opendpu.frontend.qonnx import without_qonnx
from opendpu.frontend.repetitions import unrepeated
from opendpu.frontend.requantizing import Requantize, requantized
from opendpu.frontend.scatters import as_concatenations
from opendpu.frontend.separable import separated
from opendpu.frontend.sequences import taken_apart
from opendpu.frontend.single_axis_norms import over_one_axis
from opendpu.frontend.single_node import Dialect, dtype_of, shape_of
from opendpu.frontend.softmaxes import with_softmaxes
from opendpu.frontend.stacks import unstacked
from opendpu.frontend.traditional_ml import without_traditional_ml
from opendpu.frontend.unfolds import convolved
from opendpu.frontend.unfused import unfused
from opendpu.frontend.unrolling import unrolled
from opendpu.frontend.upgrade import upgraded
from opendpu.frontend.window_axes import over_two_axes
from opendpu.ir import Array, TensorType
from opendpu.ops.quantizing import QUANTIZERS
from opendpu_arch.errors import ModelFormatError

LARGEST_TENSOR = 1 << 36
"""Bytes of the largest tensor between ops."""

RULES = (taken_apart, frame_by_frame, unrolled, as_constant)
"""What is found while types are."""
PRECISION = "the model computes in half or double precision: it was read in single precision"
DYNAMIC = (
    "{count} operator{s} of the file quantize while they run (DynamicQuantizeLinear); they were "
    "taken for those of the float network, whose weights are what the file's integers stand for"
)
"""What is said of networks that :mod:`opendpu.frontend.dynamic_quantization` changed."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A checked ONNX model.

    ``clusters`` are the nodes that are no constants, in groups that stay together and in
    topological order; ``uses`` counts how often each tensor is read, by nodes or as an output.
    """

    label: str
    name: str
    dialect: Dialect
    clusters: list[list[onnx.NodeProto]]
    inputs: dict[str, TensorType]
    outputs: list[str]
    constants: dict[str, Array]
    types: Mapping[str, TypeProto]
    producers: Mapping[str, onnx.NodeProto]
    uses: Counter[str]
    bound: Bound
    """The inputs, and which of them have other sizes than the file fixes."""
    quantized: bool = False
    """Whether some tensors are quantized already."""
    declared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Types of inputs and outputs in the file, where they are float32 here."""
    notes: Sequence[str] = ()
    """What was read as something else than the file says: a sentence each."""

    @property
    def opset(self) -> int:
        """Version of ONNX's own operator set."""
        return self.dialect.opset

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape that ONNX says a value has; nothing if it is not known."""
        return shape_of(self.types[name]) if name in self.types else None

    def dtype(self, name: str) -> np.dtype[np.generic] | None:
        """Return the element type that ONNX says a tensor has; nothing if it is no tensor."""
        return dtype_of(self.types[name]) if name in self.types else None


def read(
    model: AnyModel,
    input_shapes: Sizes | None = None,
    libraries: Sequence[str | pathlib.Path] = (),
    label: str = "",
    *,
    input_values: Values | None = None,
    any_scale: bool = False,
    requantize: Requantize = Requantize.NO,
    real_ports: bool = False,
) -> Source:
    """Read an ONNX file, or take a model in memory, and find the types of all values.

    ``label`` is what it is called in messages, where that is not the file's name. With
    ``any_scale`` or ``requantize``, operators on integers are read as those on real numbers that
    they stand for, with ``real_ports`` inputs and outputs too; ``requantize`` also says what
    becomes of scales that are not the DPU's.

    Raises
    ------
    ModelFormatError
        The file is missing, is no ONNX model, lacks weights, reads tensors nobody makes, or has
        nodes whose types do not fit together: every such fault. Or a library is missing.
    UnsupportedError
        The operator set, inputs that are no tensors, or free dimensions without a size.
    """
    own, proto, folder = read_model(model)
    proto, notes = with_number_outputs(proto)
    proto = upgraded(without_traditional_ml(proto))
    proto = with_bytes(without_qonnx(spelled_out(proto)))
    proto = sequence_first(unfused(with_plain_operands(proto)))
    if any_scale or requantize is not Requantize.NO:
        proto = expanded(proto)
        proto = with_real_ports(proto) if real_ports else proto
    label = label or own
    graph = proto.graph
    constants, faults = constants_of(graph, folder)
    precision = in_single_precision(proto)
    if precision:
        graph = precision.model.graph
        constants = {name: single(array) for name, array in constants.items()}
    check_libraries(libraries, label, graph.node)
    dialect = Dialect(opsets_of(label, proto), tuple(str(library) for library in libraries))
    items = [item for item in graph.input if item.name not in constants]
    bound = bind_inputs(label, items, input_shapes or {}, input_values, list(constants))
    inputs = bound.types
    constants |= bound.fixed
    faults += _unconnected(graph, set(inputs) | set(constants))
    _check(label, faults)
    declared = {item.name: item.type for item in (*graph.value_info, *graph.output)}
    outputs = [item.name for item in graph.output]
    given = list(graph.node)
    if requantize is not Requantize.NO:
        given = requantized(given, constants, inputs, outputs, requantize)
    elif any_scale:
        given = of_one_scale(given, constants, outputs)
    analysis = Analysis(dialect, constants, inputs, declared, RULES)
    analysis.run(given)
    analysis.settle(outputs)
    faults += analysis.faults + _too_large(analysis.types)
    with bound.checked():
        _check(label, faults)
        for item in graph.output:
            before, now = shape_of(item.type) or (), analysis.shape(item.name) or ()
            bound.check_batch(label, item.name, before, now)
    floats = analysis.shape_of_floats
    nodes, count = in_float(
        analysis.nodes, constants, _uses(analysis.nodes, outputs), floats, analysis.add_floats
    )
    nodes = over_two_axes(nodes, constants, floats, analysis.add_floats)
    nodes = contracted(nodes, constants, floats, analysis.add_floats)
    nodes = convolved(nodes, constants, _uses(nodes, outputs), floats, analysis.add_floats)
    nodes = separated(nodes, constants, outputs, floats, analysis.add_floats, dialect)
    nodes = with_attention(nodes, constants, floats, analysis.add_floats)
    nodes = unguarded(nodes, constants, _uses(nodes, outputs))
    nodes = as_concatenations(nodes, constants, floats, analysis.add_floats)
    nodes = without_duplicates(nodes, constants, outputs)
    nodes = without_guards(nodes, constants, _uses(nodes, outputs), floats, outputs)
    nodes = with_softmaxes(
        nodes, constants, _uses(nodes, outputs), floats, analysis.add_floats, dialect.opset
    )
    nodes = unstacked(nodes, constants, _uses(nodes, outputs), floats)
    nodes = gathered(nodes, constants, _uses(nodes, outputs), floats)
    nodes = globally_normalized(nodes, constants, _uses(nodes, outputs), floats)
    nodes = recognized(nodes, constants, _uses(nodes, outputs), analysis.alike)
    nodes = rounded_once(nodes, constants, _uses(nodes, outputs))
    nodes = repeated_pixels.resized(nodes, constants, _uses(nodes, outputs), floats)
    nodes = resized_channels_first(nodes, constants, floats, analysis.add_floats)
    nodes = with_means(nodes, constants, _uses(nodes, outputs), floats, dialect.opset)
    nodes = with_central_moments(
        nodes, constants, _uses(nodes, outputs), floats, analysis.add_floats
    )
    nodes = normalized(nodes, constants, _uses(nodes, outputs), floats, analysis.add_floats)
    nodes = over_one_axis(nodes, constants, floats, analysis.add_floats)
    nodes = unrepeated(nodes, constants, _uses(nodes, outputs), floats)
    return Source(
        label=label,
        name=graph.name or pathlib.Path(label).stem,
        dialect=dialect,
        clusters=clustered(nodes, analysis.crosses),
        inputs=inputs,
        outputs=outputs,
        constants=constants,
        types=analysis.types,
        producers={name: node for node in nodes for name in node.output},
        uses=_uses(nodes, outputs),
        bound=bound,
        quantized=any(node.op_type in QUANTIZERS for node in given),
        declared=precision.declared if precision else {},
        notes=notes + _notes(count, other_precision=precision is not None),
    )


def _notes(dynamic: int, *, other_precision: bool) -> list[str]:
    found = [DYNAMIC.format(count=dynamic, s="s" if dynamic > 1 else "")] if dynamic else []
    return [*found, PRECISION] if other_precision else found


def _uses(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> Counter[str]:
    """Return how often each tensor is read, by nodes or as an output."""
    found = Counter(name for node in nodes for name in reads(node))
    found.update(outputs)
    return found


def _check(label: str, faults: Sequence[str]) -> None:
    if len(faults) == 1:
        raise ModelFormatError(f"{label}: {faults[0]}")
    if faults:
        listed = "\n  ".join(faults)
        raise ModelFormatError(f"{label} has {len(faults)} faults:\n  {listed}")


def _unconnected(graph: onnx.GraphProto, known: set[str]) -> list[str]:
    """Return what is read but never made, and made twice."""
    faults = []
    for node in graph.node:
        for name in reads(node):
            if name not in known:
                faults.append(
                    f"node {label_of(node)} reads {name!r}, which is neither an input, nor a "
                    "weight, nor made by an earlier node"
                )
                known.add(name)
        faults += [
            f"node {label_of(node)} makes {name!r} again" for name in node.output if name in known
        ]
        known.update(name for name in node.output if name)
    return faults + [
        f"output {item.name!r} is made by no node"
        for item in graph.output
        if item.name not in known
    ]


def _too_large(types: Mapping[str, TypeProto]) -> list[str]:
    faults = []
    for name, kind in types.items():
        shape, dtype = shape_of(kind), dtype_of(kind)
        size = int(np.prod(shape or (0,), dtype=object)) * (dtype.itemsize if dtype else 1)
        if size > LARGEST_TENSOR:
            faults.append(
                f"tensor {name!r} of shape {list(shape or ())} takes {size / 2**30:.0f} GiB, but "
                f"{LARGEST_TENSOR >> 30} are the most"
            )
    return faults


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node: numbers, strings, lists and numpy arrays."""
    result: dict[str, Any] = {}
    for item in node.attribute:
        value = helper.get_attribute_value(item)
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        elif isinstance(value, bytes):
            value = value.decode()
        result[item.name] = value
    return result


def as_float(array: Array) -> npt.NDArray[np.float32]:
    """Return ``array`` as float32."""
    return np.asarray(array, dtype=np.float32)
