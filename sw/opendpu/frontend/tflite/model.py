# SPDX-License-Identifier: Apache-2.0
"""From a TFLite file to a float graph."""

import pathlib
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import tflite
from onnx import helper

from opendpu.frontend.binding import Sizes, bind_inputs
from opendpu.frontend.building import Builder, Missing
from opendpu.frontend.channels_last.fixing import fixed
from opendpu.frontend.control_flow import InnerGraphs, UnconvertedError, branch, while_loop
from opendpu.frontend.input_values import Values
from opendpu.frontend.refusal import FaultError, Refusal
from opendpu.frontend.requantizing import Requantize
from opendpu.frontend.tflite import complex_numbers, ops, quantization
from opendpu.frontend.tflite.dilation import joined
from opendpu.frontend.tflite.file import OTHER, File, Operator, Tensor, read
from opendpu.frontend.tflite.registry import HANDLERS, Call
from opendpu.frontend.tflite.variables import stateless
from opendpu.ir import FloatGraph, Origin
from opendpu_arch.errors import ModelFormatError, UnsupportedError

assert ops  # registers the handlers
CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")
"""Between integers and the real numbers that they stand for, which are the same here."""
_MALFORMED = (
    ArithmeticError, AttributeError, KeyError, IndexError, TypeError, ValueError, struct.error,
)  # fmt: skip
"""What handlers come across in options that make no sense."""


def load_tflite(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    requantize: Requantize = Requantize.NO,
    any_scale: bool = False,
) -> FloatGraph:
    """Convert a TFLite file to a float graph.

    Feature maps are NHWC as in the file; ops have the names of the file's tensors. Weights that are
    stored in integers become the real numbers that they stand for. Tensors that are computed in
    integers become real numbers too, inputs and outputs among them, with a ``fix`` behind each
    where the scales stay or come from the file's ranges. Variables become inputs and outputs, see
    :mod:`opendpu.frontend.tflite.variables`.

    Parameters
    ----------
    path
        The file.
    input_shapes, input_values
        As of :func:`opendpu.frontend.load_onnx`; values of integers are the real numbers.
    requantize
        What becomes of scales that are not powers of two.
    any_scale
        They stay what they are, zero points too, where nobody asks for others.

    Raises
    ------
    ModelFormatError
        The file is missing or damaged.
    UnsupportedError
        Operators that cannot be converted, all of them; scales that are not powers of two where
        nobody asks for others; activations of 16 bits that stay what they are.
    """
    label = str(path)
    file = stateless(label, read(pathlib.Path(path)))
    return _Import(
        label, file, input_shapes or {}, input_values or {}, requantize, any_scale=any_scale
    ).graph()


def input_ranges(path: str | pathlib.Path) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest number that each quantized input of a file can hold.

    Raises
    ------
    ModelFormatError
        The file is missing or damaged.
    """
    file = stateless(str(path), read(pathlib.Path(path)))
    inputs = [file.tensors[index] for index in file.inputs]
    return {item.name: quantization.range_of(item) for item in inputs if item.is_quantized}


def has_other_scales(path: str | pathlib.Path) -> bool:
    """Return whether a file has quantized feature maps that the DPU does not compute with.

    Raises
    ------
    ModelFormatError
        The file is missing or damaged.
    """
    quantized = _quantized(stateless(str(path), read(pathlib.Path(path))))
    return not all(quantization.is_power_of_two(tensor) for tensor in quantized)


def _quantized(file: File) -> list[Tensor]:
    """Return the tensors of integers that stand for real numbers and are no constants."""
    computed = {index for op in file.operators for index in op.outputs} | set(file.inputs)
    return [t for i, t in enumerate(file.tensors) if i in computed and t.is_quantized]


class _Import:
    """Goes over the operators of a file."""

    def __init__(
        self, label: str, file: File, sizes: Sizes, values: Values, requantize: Requantize, *,
        any_scale: bool,
    ) -> None:  # fmt: skip
        self.label, self.file = label, file
        quantized = _quantized(file)
        self.native = (
            any_scale
            and requantize is Requantize.NO
            and not all(quantization.is_power_of_two(tensor) for tensor in quantized)
        )
        """Whether quantized tensors stay as they are."""
        if requantize is Requantize.NO and not self.native:
            quantization.check(label, quantized)
        if self.native:
            quantization.check_width(label, quantized)
        self.rounds = requantize is not Requantize.DATA
        self._graphs = file.graphs
        inputs = [self._item(index) for index in file.inputs]
        self._bound = bind_inputs(label, inputs, sizes, values)
        self.b = Builder(label, file.name, self._bound.types)
        self.values: dict[int, str] = {}
        self.missing = Missing(label)
        self._active: list[int] = []
        """Graphs that are being converted inside of others."""
        self._inner = InnerGraphs()

    def _item(self, index: int) -> onnx.ValueInfoProto:
        """Return what ONNX calls an input; integers become the real numbers they stand for."""
        tensor = self.file.tensors[index]
        dtype = np.dtype(np.float32) if tensor.is_quantized else tensor.dtype
        if dtype == OTHER or dtype.kind == "c":
            raise UnsupportedError(
                f"{self.label}: input {tensor.name!r} is no tensor of real numbers or bools"
            )
        kind = helper.np_dtype_to_tensor_dtype(dtype)
        dims = [size if size >= 0 else "" for size in tensor.dims]
        return helper.make_tensor_value_info(tensor.name, kind, dims)

    def graph(self) -> FloatGraph:
        """Return the graph."""
        with self._bound.checked():
            return self._graph()

    def _graph(self) -> FloatGraph:
        file = self.file
        if not file.outputs:
            raise ModelFormatError(f"{self.label} has no outputs")
        heads = [file.tensors[index].name for index in file.inputs]
        fixed = {name: self.b.constant(array, name) for name, array in self._bound.fixed.items()}
        self._run([fixed.get(name, name) for name in heads])
        if self.missing.found:
            raise UnsupportedError(str(self.missing))
        lost = [file.tensors[i].name for i in file.outputs if i not in self.values]
        constants = [i for i in file.outputs if self._is_constant(i)]
        if len(lost) > len(constants):
            raise ModelFormatError(f"{self.label}: nothing makes the outputs {', '.join(lost)}")
        pairs = [file.tensors[i].name for i in file.outputs if self._is_complex(i)]
        if pairs:
            raise UnsupportedError(f"{self.label}: outputs {', '.join(pairs)} are complex numbers")
        outputs = {file.tensors[i].name: self._value(i) for i in file.outputs}
        for index in file.outputs:
            tensor = file.tensors[index]
            made = self.b.shape(self._value(index)) or ()
            self._bound.check_batch(self.label, tensor.name, tensor.dims, made)
        graph = self.b.load(outputs, any_scale=self.native)
        if self.native:
            quantization.round_away(graph)
        return graph

    def _run(self, given: Sequence[str]) -> None:
        """Convert the operators of a graph whose inputs have the given values."""
        for index, value in zip(self.file.inputs, given, strict=True):
            self._bind(index, value)
        for operator in joined(self.file):
            if all(index in self.values or self._is_constant(index) for index in operator.inputs):
                self._convert(operator)

    def _inside(self, number: int, b: Builder, given: Sequence[str]) -> list[str]:
        """Convert another graph of the file into a builder; return the values of its results."""
        if number in self._active or not 0 < number < len(self._graphs):
            raise FaultError(f"it refers to graph {number} of {len(self._graphs)}")
        self._inner.enter()
        outside, origin = (self.b, self.file, self.values), b.origin
        self.b, self.file, self.values = b, self._graphs[number], {}
        self._active.append(number)
        try:
            self._run(given)
            outputs = self.file.outputs
            if any(not (i in self.values or self._is_constant(i)) for i in outputs):
                raise UnconvertedError
            return [self._shaped(index) for index in outputs]
        finally:
            self._active.pop()
            (self.b, self.file, self.values), b.origin = outside, origin

    def _shaped(self, index: int) -> str:
        """Return the value of a result, in the shape that the file says if no other is known."""
        value, dims = self._value(index), self.file.tensors[index].dims
        if self.b.shape(value) is None and min(dims, default=0) >= 0:
            return self.b.node("Reshape", [value, self.b.integers(*dims)])
        return value

    def _is_constant(self, index: int) -> bool:
        return index < 0 or self.file.tensors[index].value is not None

    def _is_complex(self, index: int) -> bool:
        return index >= 0 and self.file.tensors[index].dtype.kind == "c"

    def _value(self, index: int) -> str:
        """Return the name of a tensor's value; empty if there is none."""
        if index < 0:
            return ""
        if index not in self.values:
            tensor = self.file.tensors[index]
            if self._is_complex(index):
                self.values[index] = complex_numbers.constant(self.b, tensor.real, tensor.name)
            elif self.native and tensor.is_quantized:
                self.values[index] = quantization.dequantized(self.b, tensor)
            else:
                self.values[index] = self.b.constant(tensor.real, tensor.name)
        return self.values[index]

    def _bind(self, index: int, value: str) -> None:
        """Say where a computed tensor is, rounded if it is quantized."""
        tensor = self.file.tensors[index]
        if tensor.is_quantized and self.b.dtype(value) == np.float32:
            if self.native:
                value = quantization.quantized(self.b, tensor, value)
            elif self.rounds:
                value = fixed(self.b, value, quantization.fix_point(tensor))
        self.values[index] = value

    def _convert(self, operator: Operator) -> None:
        names = [_first(self.file.tensors[index].name) for index in operator.outputs]
        if not names:
            raise ModelFormatError(f"{self.label}: {operator.kind} makes nothing")
        self.b.origin = Origin(names[0], operator.kind)
        try:
            results = self._results(operator, names)
        except UnconvertedError:
            return
        except Refusal as reason:
            self.missing.add(f"{operator.kind} ({reason})", names[0])
            return
        except FaultError as fault:
            raise ModelFormatError(f"{self.label}: {operator.kind} {names[0]!r}: {fault}") from None
        except _MALFORMED as error:
            raise ModelFormatError(
                f"{self.label}: options of {operator.kind} {names[0]!r} make no sense: {error!r}"
            ) from error
        if len(results) != len(names):
            raise ModelFormatError(
                f"{self.label}: {operator.kind} {names[0]!r} has {len(names)} results, but makes "
                f"{len(results)}"
            )
        for index, value in zip(operator.outputs, results, strict=True):
            self._bind(index, value)

    def _results(self, operator: Operator, names: list[str]) -> list[str]:
        inputs = [self._value(index) for index in operator.inputs]
        tensors = [self.file.tensors[i] for i in (*operator.inputs, *operator.outputs) if i >= 0]
        others = [tensor.name for tensor in tensors if tensor.dtype == OTHER]
        if others:
            raise Refusal(f"tensor {others[0]!r} is not of numbers")
        if operator.kind in CONVERSIONS:
            return [self._converted(inputs[0], self.file.tensors[operator.outputs[0]])]
        if operator.kind == "WHILE":
            return self._loop(operator.options(tflite.WhileOptions), inputs)
        if operator.kind == "IF":
            return self._branch(operator.options(tflite.IfOptions), inputs)
        if operator.kind not in HANDLERS:
            raise Refusal("no counterpart")
        dtypes = [self.file.tensors[index].dtype for index in operator.outputs]
        call, handler = Call(self.b, operator, inputs, names, dtypes), HANDLERS[operator.kind]
        pairs = [self._is_complex(index) for index in operator.inputs]
        found = complex_numbers.converted(call, pairs, handler) if any(pairs) else handler(call)
        return [found] if isinstance(found, str) else found

    def _loop(self, options: Any, states: Sequence[str]) -> list[str]:
        def condition(b: Builder, given: Sequence[str]) -> str:
            return self._inside(options.CondSubgraphIndex(), b, given)[0]

        def body(b: Builder, given: Sequence[str]) -> list[str]:
            return self._inside(options.BodySubgraphIndex(), b, given)

        return while_loop(self.b, states, condition, body)

    def _branch(self, options: Any, inputs: Sequence[str]) -> list[str]:
        condition, *given = inputs
        return branch(
            self.b, condition,
            lambda b: self._inside(options.ThenSubgraphIndex(), b, given),
            lambda b: self._inside(options.ElseSubgraphIndex(), b, given),
        )  # fmt: skip

    def _converted(self, value: str, result: Tensor) -> str:
        """Return what a conversion makes: half precision becomes float32."""
        constant = self.b.value(value)
        if constant is not None and constant.dtype != np.float32:
            return self.b.constant(constant.astype(np.float32), result.name)
        return value


def _first(name: str) -> str:
    """Return the name of a fused operator's first part; converters list all, behind semicolons."""
    return name.split(";", 1)[0] or name
