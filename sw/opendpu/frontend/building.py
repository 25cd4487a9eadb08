# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes in memory for front ends of other formats, with the type of every value on the way.

An operator of another framework becomes a few nodes of ONNX's operator set, which is what
:func:`opendpu.frontend.load_onnx` takes and what operators without an XIR op stay. Nothing is
written to a file, and transposes between orders of axes cost nothing, see
:mod:`opendpu.frontend.layout`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from opendpu.frontend.analysis import Analysis
from opendpu.frontend.instances import renamed
from opendpu.frontend.lowering import load_onnx
from opendpu.frontend.model_file import all_nodes, reads
from opendpu.frontend.single_node import Dialect, dtype_of, type_of
from opendpu.ir import Array, FloatGraph, Origin, TensorType
from opendpu.ops.onnx_builder import IR_VERSION, OPSET
from opendpu_arch.errors import ModelFormatError


class Builder:
    """Nodes so far, with constants folded and the types of all values known.

    Parameters
    ----------
    label
        The model's name in messages.
    name
        Name of the graph.
    inputs
        Types of the inputs.
    """

    def __init__(self, label: str, name: str, inputs: Mapping[str, TensorType]) -> None:
        self.label = label
        self.name = name
        self.inputs = dict(inputs)
        self.origin = Origin()
        """The operator of the model that nodes are made for now."""
        self._analysis = Analysis(Dialect({"": OPSET}), {}, inputs, {})
        self._origins: dict[str, Origin] = {}
        self._taken = set(inputs)

    def inner(self, inputs: Mapping[str, TensorType]) -> "Builder":
        """Return a builder for a graph inside a node, which may read all that is known here."""
        made = Builder(self.label, f"{self.origin.name}/graph", inputs)
        made.origin = self.origin
        made._analysis.types = {**self._analysis.types, **made._analysis.types}
        made._analysis.constants = dict(self._analysis.constants)
        made._taken = self._taken
        return made

    def unique(self, name: str) -> str:
        """Return ``name``, or with a number behind it if it is taken; it is taken then."""
        made, number = name, 0
        while made in self._taken:
            number += 1
            made = f"{name}_{number}"
        self._taken.add(made)
        return made

    def constant(self, array: npt.ArrayLike, name: str = "") -> str:
        """Append a constant; return its name."""
        made = self.unique(name or f"{self.origin.name}/constant")
        self._analysis.constants[made] = np.asarray(array)
        return made

    def integers(self, *values: int) -> str:
        """Append a vector of 64-bit integers: shapes, axes, sizes."""
        return self.constant(np.array(values, np.int64))

    def node(
        self, op_type: str, inputs: Sequence[str], name: str = "", domain: str = "", **attrs: Any
    ) -> str:
        """Append a node with one result; return the result's name."""
        return self.nodes(op_type, inputs, [name], domain, **attrs)[0]

    def nodes(
        self,
        op_type: str,
        inputs: Sequence[str],
        names: Sequence[str],
        domain: str = "",
        **attrs: Any,
    ) -> list[str]:
        """Append a node with several results; return their names.

        Raises
        ------
        ModelFormatError
            Types of the inputs are not what the operator takes.
        """
        outputs = [self.unique(name or f"{self.origin.name}/{op_type}") for name in names]
        made = helper.make_node(
            op_type, list(inputs), outputs, name=outputs[0], domain=domain, **attrs
        )
        self._origins[outputs[0]] = self.origin
        self._analysis.run([made])
        if self._analysis.faults:
            raise ModelFormatError(f"{self.label}: {self._analysis.faults[0]}")
        return outputs

    def value(self, name: str) -> Array | None:
        """Return a constant, or what is known of a value before there are inputs."""
        return self._analysis.constants.get(name)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value; nothing if it is not known."""
        return self._analysis.shape(name)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the element type of a value."""
        constant = self.value(name)
        if constant is not None:
            return constant.dtype
        found = dtype_of(self._analysis.types[name])
        assert found is not None, name
        return found

    def finish(self, outputs: Mapping[str, str]) -> onnx.ModelProto:
        """Return the model whose outputs are the given values, by the names that they get."""
        names = {}
        for name in outputs:
            if name in self._taken and name not in self.inputs:
                names[name] = self.unique(f"{name}/inner")
        nodes = [renamed(node, names) for node in self._analysis.nodes]
        constants = {names.get(n, n): array for n, array in self._analysis.constants.items()}
        last = []
        for name, value in outputs.items():
            if name != value or name in names:
                made = name if name not in self.inputs else f"{name}_copy"
                last.append(helper.make_node("Identity", [names.get(value, value)], [made]))
        every = _living([*nodes, *last], [*outputs])
        used = {name for node in every for name in reads(node)}
        domains = {node.domain for node in all_nodes(every)} - {""}
        graph = helper.make_graph(
            every, self.name,
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(made.dtype), made.shape
                )
                for name, made in self.inputs.items()
            ],
            [self._output(name, value, names) for name, value in outputs.items()],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items() if n in used],
        )  # fmt: skip
        imports = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in domains)]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def _output(self, name: str, value: str, names: Mapping[str, str]) -> onnx.ValueInfoProto:
        constant = self.value(value)
        kind = self._analysis.types.get(value)
        kind = type_of(constant) if constant is not None else kind
        if kind is None:
            origin = self._origins.get(value, self.origin).name
            raise ModelFormatError(
                f"{self.label}: the parameters of {origin!r} do not fit its inputs, so {name!r} "
                "has no shape"
            )
        made = name if name not in self.inputs or value == name else f"{name}_copy"
        return helper.make_value_info(made, kind)

    def load(
        self, outputs: Mapping[str, str], *, channels_last: bool = True, any_scale: bool = False
    ) -> FloatGraph:
        """Return the float graph whose outputs are the given values.

        Its ops say which operator of the model they come from. ``channels_last`` and
        ``any_scale`` are as of :func:`opendpu.frontend.load_onnx`.

        Raises
        ------
        ModelFormatError, UnsupportedError
            As of :func:`opendpu.frontend.load_onnx`.
        """
        graph = load_onnx(
            self.finish(outputs), label=self.label, channels_last=channels_last,
            any_scale=any_scale,
        )  # fmt: skip
        for node in graph:
            node.origin = self._origins.get(node.origin.name, node.origin)
        return graph


def _living(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """Return the nodes that outputs depend on."""
    wanted, kept = set(outputs) | {f"{name}_copy" for name in outputs}, []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.output):
            kept.append(node)
            wanted.update(reads(node))
    return kept[::-1]


@dataclasses.dataclass
class Missing:
    """Operators that a front end does not know: all of them, for one message.

    Parameters
    ----------
    label
        The model's name in messages.
    """

    label: str
    found: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    def add(self, kind: str, name: str) -> None:
        """Note an operator and its name in the model; those in loops come twice."""
        names = self.found.setdefault(kind, [])
        if name not in names:
            names.append(name)

    def __str__(self) -> str:
        listed = "\n  ".join(
            f"{kind}: {', '.join(names[:3])}{', …' if len(names) > 3 else ''}"
            for kind, names in self.found.items()
        )
        count = len(self.found)
        what = "an operator" if count == 1 else f"{count} operators"
        return f"{self.label} has {what} that cannot be converted:\n  {listed}"
