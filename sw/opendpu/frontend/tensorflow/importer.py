# SPDX-License-Identifier: Apache-2.0
"""From the nodes of a GraphDef to a float graph."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opendpu.frontend.binding import Sizes, bind_inputs
from opendpu.frontend.building import Builder, Missing
from opendpu.frontend.control_flow import InnerGraphs, UnconvertedError, while_loop
from opendpu.frontend.input_values import Values
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.frontend.tensorflow import ops
from opendpu.frontend.tensorflow.frames import Frame, frames_of
from opendpu.frontend.tensorflow.graphdef import CONTROL, Node, split
from opendpu.frontend.tensorflow.lists import CONVERTERS, Reserved, with_shapes
from opendpu.frontend.tensorflow.registry import HANDLERS, Call
from opendpu.ir import FloatGraph, Origin
from opendpu_arch.errors import ModelFormatError, UnsupportedError

assert ops  # registers the handlers
INPUT = "Placeholder"
WITH_DEFAULT = "PlaceholderWithDefault"
"""Has a value, which the user may replace."""
NO_RESULT = ("NoOp", "Assert", "SaveV2", "RestoreV2", "Print")
DEAD = object()
"""Value of the branch that a ``Switch`` with a known condition does not take."""
Value = str | Reserved | object
"""The name of a value, a list without elements, or ``DEAD``."""
_MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, KeyError, IndexError, TypeError, ValueError,
)  # fmt: skip


def load_nodes(
    nodes: Mapping[str, Node],
    label: str,
    name: str,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    shorten: Callable[[str], str] = str,
) -> FloatGraph:
    """Convert nodes to a float graph.

    Ops have the names of the nodes. Orders of axes are the model's own.

    Parameters
    ----------
    nodes
        All nodes by name.
    label, name
        The model's name in messages, and that of the graph.
    input_shapes, input_values
        As of :func:`opendpu.frontend.load_onnx`; by name of a placeholder, or its new name.
    inputs
        New names of placeholders, by node; where it is given, other placeholders are refused.
    outputs
        By name of an output, the result that it is: ``node`` or ``node:1``. By default the nodes
        whose results nobody reads.
    shorten
        Gives the name of an op, by that of its node.

    Raises
    ------
    ModelFormatError
        Nodes read what nobody makes, or have attributes that make no sense.
    UnsupportedError
        Operators that cannot be converted, all of them; inputs without sizes.
    """
    made = _Import(
        nodes, label, name, input_shapes or {}, input_values or {}, inputs, outputs, shorten
    )
    return made.graph()


def sinks(nodes: Mapping[str, Node]) -> list[str]:
    """Return the nodes that make something which no other node reads."""
    read = {split(item)[0] for node in nodes.values() for item in node.inputs
            if not item.startswith(CONTROL)}  # fmt: skip
    return [
        node.name for node in nodes.values()
        if node.name not in read and node.op not in (*NO_RESULT, INPUT, "Const")
    ]  # fmt: skip


class _Import:
    def __init__(
        self, nodes: Mapping[str, Node], label: str, name: str, sizes: Sizes, values: Values,
        inputs: Mapping[str, str] | None, outputs: Mapping[str, str] | None,
        shorten: Callable[[str], str],
    ) -> None:  # fmt: skip
        self.nodes, self.label, self._shorten = nodes, label, shorten
        self.missing = Missing(label)
        if outputs is None:
            found = sinks(nodes)
            if not found:
                raise ModelFormatError(f"{label} has no outputs: every result is read")
            outputs = {node: node for node in found}
        self.outputs = outputs
        self.frames = frames_of(nodes, label)
        self._inner = InnerGraphs()
        self.values: dict[tuple[str, int], Value] = {}
        heads = [
            node for node in self._reached(outputs.values())
            if node.op == INPUT or (node.op == WITH_DEFAULT and node.name in values)
        ]  # fmt: skip
        names = {node.name: node.name for node in heads} if inputs is None else dict(inputs)
        names |= {node.name: node.name for node in heads if node.op == WITH_DEFAULT}
        unknown = [node.name for node in heads if node.name not in names]
        if unknown:
            raise UnsupportedError(f"{label}: placeholder {unknown[0]!r} is no input of the model")
        self.inputs = names
        items = [_item(label, names[node.name], node) for node in heads]
        renamed = {names.get(key, key): value for key, value in sizes.items()}
        fixed = {names.get(key, key): value for key, value in values.items()}
        self._bound = bind_inputs(label, items, renamed, fixed)
        self.b = Builder(label, name, self._bound.types)
        known = {key: self.b.constant(array, key) for key, array in self._bound.fixed.items()}
        for node in heads:
            self.values[node.name, 0] = known.get(names[node.name], names[node.name])

    def _reached(self, wanted: Iterable[str]) -> Iterator[Node]:
        """Return the nodes without values that results depend on, inputs before users.

        A loop is one step, made by its ``Exit`` nodes.
        """
        done = {name for name, _ in self.values}
        active: set[str] = set()
        stack = [split(item)[0] for item in reversed(list(wanted))]
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            if name not in self.nodes:
                raise ModelFormatError(f"{self.label}: nothing makes {name!r}")
            node = self.nodes[name]
            given = self.frames[name].outside if name in self.frames else node.inputs
            before = [split(item)[0] for item in given if not item.startswith(CONTROL)]
            waiting = [item for item in before if item not in done]
            if not waiting:
                stack.pop()
                done.add(name)
                active.discard(name)
                yield node
            elif name in active:
                raise UnsupportedError(f"{self.label} has a loop through {name!r}")
            else:
                active.add(name)
                stack.extend(reversed(waiting))

    def graph(self) -> FloatGraph:
        """Return the graph."""
        with self._bound.checked():
            return self._graph()

    def _graph(self) -> FloatGraph:
        self._run(self.outputs.values())
        if self.missing.found:
            raise UnsupportedError(str(self.missing))
        outputs = {name: self._value(item) for name, item in self.outputs.items()}
        return self.b.load(outputs)

    def _run(self, wanted: Iterable[str]) -> None:
        """Convert what results depend on."""
        for node in list(self._reached(wanted)):
            if node.op != INPUT and (node.name, 0) not in self.values:
                self._convert(node)

    def _value(self, reference: str) -> str:
        """Return the name of the value of a result."""
        found = self.values[split(reference)]
        if not isinstance(found, str):
            raise Refusal(f"{reference!r} is in a branch that is not taken")
        return found

    def _convert(self, node: Node) -> None:
        frame = self.frames.get(node.name)
        given = node.inputs if frame is None else frame.outside
        references = [item for item in given if not item.startswith(CONTROL)]
        if any(split(item) not in self.values for item in references):
            return
        if frame is None:
            self.b.origin = Origin(self._short(node.name), node.op)
        else:
            self.b.origin = Origin(self._short(frame.name), "While")
        values = [self.values[split(item)] for item in references]
        try:
            if frame is None:
                results = {(node.name, i): v for i, v in enumerate(self._results(node, values))}
            else:
                results = self._loop(frame)
        except UnconvertedError:
            return
        except Refusal as reason:
            self.missing.add(f"{node.op} ({reason})", node.name)
            return
        except FaultError as fault:
            raise ModelFormatError(f"{self.label}: {node.op} {node.name!r}: {fault}") from None
        except _MALFORMED as error:
            raise ModelFormatError(
                f"{self.label}: attributes of {node.op} {node.name!r} make no sense: {error!r}"
            ) from error
        self.values |= results

    def _loop(self, frame: Frame) -> dict[tuple[str, int], Value]:
        """Return the values of a loop's ``Exit`` nodes."""
        entered = {
            (name, 0): self.values[split(self.nodes[name].inputs[0])] for name in frame.constants
        }
        first = [self.values[split(self.nodes[s.enter].inputs[0])] for s in frame.states]

        def condition(b: Builder, states: Sequence[Value]) -> str:
            bound = {(s.merge, 0): v for s, v in zip(frame.states, states, strict=True)}
            with self._inside(b, entered | bound):
                (goes_on,) = self._made([frame.condition])
            return str(goes_on)

        def body(b: Builder, states: Sequence[Value]) -> list[Any]:
            bound = {(s.switch, 1): v for s, v in zip(frame.states, states, strict=True)}
            bound |= {(s.merge, 0): v for s, v in zip(frame.states, states, strict=True)}
            with self._inside(b, entered | bound):
                return self._made([state.following for state in frame.states])

        first = with_shapes(self.b, first, body)
        last = while_loop(self.b, [str(value) for value in first], condition, body)
        return {(name, 0): last[number] for name, number in frame.exits.items()}

    def _made(self, wanted: Sequence[str]) -> list[Value]:
        """Return the values of results inside a loop."""
        self._run(wanted)
        if any(split(item) not in self.values for item in wanted):
            raise UnconvertedError
        return [self.values[split(item)] for item in wanted]

    @contextlib.contextmanager
    def _inside(self, b: Builder, bound: Mapping[tuple[str, int], Value]) -> Iterator[None]:
        """Convert into another builder, where some results have other values."""
        self._inner.enter()
        outside, values, origin = self.b, self.values, b.origin
        self.b, self.values = b, {**values, **bound}
        try:
            yield
        finally:
            self.b, self.values, b.origin = outside, values, origin

    def _results(self, node: Node, values: list[Value]) -> list[Value]:
        if node.op == "Merge":
            living = [(i, value) for i, value in enumerate(values) if value is not DEAD]
            if len(living) == 1:
                return [living[0][1], self.b.constant(np.array(living[0][0], np.int32))]
            raise Refusal("its branches depend on the data")
        if any(value is DEAD for value in values):
            return [DEAD, DEAD]
        if node.op in CONVERTERS:
            made = CONVERTERS[node.op](self.b, node, values)
            return [*made] if isinstance(made, list) else [made]
        if node.op == "Identity" and isinstance(values[0], Reserved):
            return values
        inputs = [value for value in values if isinstance(value, str)]
        if node.op == "Switch":
            taken = self.b.value(inputs[1])
            if taken is None:
                raise Refusal("its condition depends on the data")
            return [DEAD, inputs[0]] if bool(taken) else [inputs[0], DEAD]
        if node.op not in HANDLERS:
            raise Refusal("no counterpart")
        call = Call(self.b, node, inputs, self._short(node.name), self.nodes, self._value)
        found = HANDLERS[node.op](call)
        return [found] if isinstance(found, str) else [*found]

    def _short(self, name: str) -> str:
        return self._shorten(name) or name


def _item(label: str, name: str, node: Node) -> onnx.ValueInfoProto:
    """Return what ONNX calls an input."""
    dtype, shape = node.attr("dtype"), node.attr("shape")
    if dtype is None:
        raise UnsupportedError(f"{label}: input {name!r} is no tensor of numbers or bools")
    if not isinstance(shape, tuple | None) or not isinstance(dtype, np.dtype):
        raise ModelFormatError(f"{label}: attributes of input {name!r} are no dtype and no shape")
    dims = None if shape is None else [size if size >= 0 else "" for size in shape]
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), dims)
