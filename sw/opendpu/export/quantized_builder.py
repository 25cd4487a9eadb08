# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs as ONNX nodes: float kernels, and quantizing operators where a ``fix`` is."""

from collections import Counter

import numpy as np
import numpy.typing as npt
from onnx import numpy_helper

from opendpu.export.forms import Form
from opendpu.export.functions import METHODS, functions_of, rounding_function
from opendpu.ir import Array, Graph, Node, NumberFormat, Quantization, Rounding
from opendpu.ops import OnnxBuilder, operator_of
from opendpu.ops.average import average_factor
from opendpu.ops.formats import BLOCK_FORMATS, emit_fake_quantize, fake_quantize
from opendpu.ops.onnx_builder import TO_NHWC, Arranged, Output
from opendpu.ops.pooling import reduced_window
from opendpu.ops.quantizing import DOWN, HALF_UP, ROUNDING_DOMAIN
from opendpu_arch.errors import UnsupportedError

HARD_SIGMOID_FACTOR = 2731 / (1 << 14) * 6
"""What the DPU's one sixth is, over one sixth."""

STORAGE = {8: (np.int8, np.uint8), 16: (np.int16, np.uint16), 32: (np.int32, np.uint32)}
"""Element types that hold as many bits, signed and unsigned."""

WIDE_OPSET = 21
"""First operator set whose QuantizeLinear takes 16 bits."""


class QuantizedBuilder(OnnxBuilder):
    """Adds the ops of a quantized graph to a model.

    Parameters
    ----------
    graph
        Where the ops are.
    form
        The operators that quantize.
    exact
        Whether numbers are rounded as each ``fix`` says; else ONNX's own operators round halves to
        even. AMD's operators always round as the ``fix`` says.
    pairs
        Whether constants are floats with the operators behind, or integers.
    simulate
        Whether average pools and hard-sigmoids between quantized tensors get the factor by which
        the DPU's differ, as AMD's quantizer for ONNX writes it.
    """

    def __init__(
        self,
        graph: Graph,
        form: Form,
        *,
        opset: int,
        batched: bool,
        exact: bool,
        pairs: bool,
        simulate: bool,
    ) -> None:
        super().__init__(graph, opset=opset, batched=batched)
        self.form = form
        self.exact = exact
        self.cuts = exact or not form.is_native
        self.pairs = pairs
        self.simulate = simulate
        self.values: dict[str, str] = {}
        """By node of the graph, the ONNX value of its result."""
        self._integers: dict[str, Output] = {}
        self._rounding = Rounding.PY3_ROUND if form.is_native else _usual_rounding(graph)
        """How the form's operators round."""

    # Constants

    def initializer(self, value: Array) -> str:
        """Add a constant, whatever its size: the file has all of them."""
        name = self.unique("constant")
        array = np.ascontiguousarray(value).reshape(value.shape)
        self.initializers[name] = numpy_helper.from_array(array, name)
        return name

    def parameter(self, name: str, arranged: Arranged) -> str:
        """Add a constant in another arrangement, quantized where a ``fix`` is behind it."""
        node = self.graph[name]
        if node.kind != "fix":
            return super().parameter(name, arranged)
        value = self.graph[node.inputs["input"][0]].value
        assert value is not None
        found = node.quantization
        if found.number_format is not NumberFormat.INT:
            return self.initializer(arranged(fake_quantize(value, found)))
        axis = _moved_axis(found, value.shape, arranged)
        if self.pairs and found.axis is None and found.bits <= 16:
            real = self.initializer(arranged(fake_quantize(value, found)))
            return self._dequantized(self._quantized(real, found), found, axis)
        integers = self.initializer(arranged(quantized(value, found)))
        return self._native_dequantized(integers, found, axis)

    def cut(self, value: str, point: int) -> str:
        """Round down by our function, which front ends know."""
        return self._round(DOWN, value, 2.0**-point)

    # Ops

    def add(self, node: Node) -> None:
        """Add an op."""
        if node.kind == "fix":
            self._fix(node)
            return
        operator = operator_of(node)
        if operator.emit is None:
            raise UnsupportedError(
                f"op {node.name!r} ({node.kind}) has no float kernel, so that ONNX cannot say it"
            )
        operator.emit(self, node)
        factor = self._simulated(node)
        if factor != 1:
            value = self.values[node.name]
            made = self.op("Mul", [value, self.initializer(np.array(factor, np.float32))])
            self.bind(node, made, channels_first=self.is_first(node.name))

    def bind(self, node: Node, name: str, *, channels_first: bool = False) -> None:
        """Say which ONNX value is the result of a node."""
        super().bind(node, name, channels_first=channels_first)
        self.values[node.name] = name

    def rebind(self, node: Node, name: str, *, channels_first: bool = False) -> None:
        """Say which value an input is in the order of axes that its readers want."""
        self._plain.pop(node.name, None)
        super().bind(node, name, channels_first=channels_first)

    def integers_of(self, name: str) -> Output | None:
        """Return the integers of a ``fix`` and their order of axes, where the form has any."""
        return self._integers.get(name)

    def first_values(self) -> set[str]:
        """Return the ONNX names of all feature maps that are NCHW, integers included."""
        integers = {found.name for found in self._integers.values() if found.channels_first}
        return super().first_values() | integers

    def _fix(self, node: Node) -> None:
        (source,) = node.inputs["input"]
        if self.constant(node.name) is not None:
            return
        found = node.quantization
        first = self.is_first(source) and found.number_format not in BLOCK_FORMATS
        value = self.channels_first(source) if first else self.plain(source)
        rank = len(node.shape)
        if found.number_format is not NumberFormat.INT:
            made = emit_fake_quantize(self, value, found, rank, channels_first=first)
            self.bind(node, made, channels_first=first)
            return
        if found.axis is not None and not self.form.is_native:
            raise UnsupportedError(
                f"op {node.name!r}: a computed tensor has one scale in form {self.form.name!r}, "
                f"but this one has {len(found.scale)}; form 'native' can say it"
            )
        axis = None if found.axis is None else found.axis % rank
        if axis is not None and first:
            axis = TO_NHWC[axis]
        if self.form.is_native or found.narrow:
            value = self._bounded(value, node)
        value = self._rounded(value, node, first=first)
        made = self._quantized(value, found, axis)
        if not self.form.both:
            self._integers[node.name] = Output(made, first)
        self.bind(node, self._dequantized(made, found, axis), channels_first=first)

    def _is_quantized(self, node: Node) -> bool:
        """Return whether an op is between quantized tensors, so that the DPU may have it."""
        terms = (self.graph[name] for name in node.inputs.get("input", ()))
        users = list(self.users[node.name])
        for user in list(users):
            if user.kind in operator_of(node).fuses:
                users += self.users[user.name]
        return all(t.kind == "fix" for t in terms) and any(user.kind == "fix" for user in users)

    def _bounded(self, value: str, node: Node) -> str:
        """Saturate before an operator that would let more integers through than the ``fix``."""
        found = node.quantization
        if (found.bits in STORAGE and not found.narrow) or found.axis is not None:
            return value
        zero = found.zero_point[0]
        low, high = ((limit - zero) * found.scale[0] for limit in found.limits)
        limits = [self.initializer(np.array(limit, np.float32)) for limit in (low, high)]
        return self.op("Clip", [value, *limits])

    def _rounded(self, value: str, node: Node, *, first: bool) -> str:
        """Round before the form's operator does, where that would be different."""
        found, form = node.quantization, self.form
        source = self.graph[node.inputs["input"][0]]
        same = found.rounding is self._rounding or (form.is_native and not self.exact)
        if same or self._is_on_grid(source, node):
            return value
        if not form.is_native or found.rounding is not Rounding.DPU_ROUND or found.axis is not None:
            return emit_fake_quantize(self, value, found, len(node.shape), channels_first=first)
        return self._round(HALF_UP, value, found.scale[0])

    def _round(self, name: str, value: str, scale: float) -> str:
        """Add one of our functions that round."""
        self.opsets[ROUNDING_DOMAIN] = 1
        self.functions[ROUNDING_DOMAIN, name] = rounding_function(name, self.opset)
        given = self.initializer(np.array(scale, np.float32))
        return self.op(name, [value, given], domain=ROUNDING_DOMAIN)

    def _is_on_grid(self, source: Node, fix: Node) -> bool:
        """Return whether an op only hands on elements that are on the grid of the ``fix``."""
        if operator_of(source).keeps_grid(source):
            before = [self.graph[name] for name in source.inputs["input"]]
            return all(n.type.quantization == fix.quantization for n in before)
        return False

    def _quantized(self, value: str, found: Quantization, axis: int | None = None) -> str:
        """Add the operator that quantizes, or the one that does both."""
        form = self.form
        if not form.is_native:
            self.opsets[form.domain] = 1
            for function in functions_of(form, self._rounding, self.opset):
                self.functions[function.domain, function.name] = function
        scale, zero = self._scale(found), self._zero(found)
        if form.name == "nndct":
            limits = [self.initializer(np.array(limit, np.int32)) for limit in found.limits]
            method = np.array(METHODS.get(found.rounding, 0), np.int8)
            last = [self.initializer(method), self.initializer(np.array(1, np.int8))]
            given = [value, *limits, scale, zero, *last]
            return self.op(form.quantize, given, domain=form.domain)
        attrs = {"bit_width": found.bits, "signed": int(found.signed)}
        if form.is_native:
            attrs = {} if axis is None else {"axis": axis}
        return self.op(
            form.both or form.quantize, [value, scale, zero], domain=form.domain, **attrs
        )

    def _dequantized(self, integers: str, found: Quantization, axis: int | None) -> str:
        """Add the other half of a pair; nothing where one operator does both."""
        form = self.form
        if form.both:
            return integers
        if form.is_native:
            return self._native_dequantized(integers, found, axis)
        given = [integers, self._scale(found), self._zero(found)]
        if form.name == "nndct":
            given.append(self.initializer(np.array(1, np.int8)))
        return self.op(form.dequantize, given, domain=form.domain)

    def _native_dequantized(self, integers: str, found: Quantization, axis: int | None) -> str:
        attrs = {} if axis is None else {"axis": axis}
        given = [integers, self._scale(found), self._zero(found)]
        return self.op("DequantizeLinear", given, **attrs)

    def _scale(self, found: Quantization) -> str:
        scale = np.array(found.scale, np.float32)
        return self.initializer(scale if found.axis is not None else scale.reshape(()))

    def _zero(self, found: Quantization) -> str:
        zero = np.array(found.zero_point, storage_of(found))
        if found.axis is None:
            return self.initializer(zero.reshape(()))
        return self.initializer(np.broadcast_to(zero, len(found.scale)))

    def _simulated(self, node: Node) -> float:
        """Return the factor that makes a float result the DPU's."""
        if not self.simulate or node.value is not None or not self._is_quantized(node):
            return 1.0
        if node.kind == "hard-sigmoid":
            return HARD_SIGMOID_FACTOR
        if node.kind == "avgpool2d":
            width, height = (int(n) for n in node.attrs["kernel"])
            factor, shift = average_factor(kernel_h=height, kernel_w=width)
            return factor * width * height / (1 << shift)
        if node.kind == "reduction_mean" and len(self.graph[node.sources()[0]].shape) == 4:
            height, width = reduced_window(node, self.graph)
            factor, shift = average_factor(kernel_h=height, kernel_w=width)
            return factor * width * height / (1 << shift)
        return 1.0


def _usual_rounding(graph: Graph) -> Rounding:
    """Return how most computed tensors of a graph are rounded."""
    found = Counter(
        node.quantization.rounding
        for node in graph
        if node.kind == "fix" and graph[node.sources()[0]].value is None
    )
    return found.most_common(1)[0][0] if found else Rounding.DPU_ROUND


def storage_of(found: Quantization) -> npt.DTypeLike:
    """Return the element type that holds the integers of a quantization."""
    bits = next((size for size in STORAGE if size >= found.bits), 32)
    return STORAGE[bits][0 if found.signed else 1]


def quantized(value: Array, found: Quantization) -> Array:
    """Return the integers of a constant, which lies on the grid or nearly."""
    shape = [1] * value.ndim
    if found.axis is not None:
        shape[found.axis] = len(found.scale)
    scale = np.array(found.scale).reshape(shape)
    zero = np.array(found.zero_point)
    zero = zero.reshape(shape if zero.size > 1 else [1] * value.ndim)
    integers = np.floor(value.astype(np.float64) / scale + 0.5) + zero
    return np.asarray(np.clip(integers, *found.limits).astype(storage_of(found)))


def _moved_axis(found: Quantization, shape: tuple[int, ...], arranged: Arranged) -> int | None:
    """Return the axis of the arranged array along which the scales run."""
    if found.axis is None:
        return None
    count = shape[found.axis]
    marks = np.arange(count).reshape([-1 if a == found.axis else 1 for a in range(len(shape))])
    after = arranged(np.broadcast_to(marks, shape))
    for axis, size in enumerate(after.shape):
        lines = np.moveaxis(after, axis, 0).reshape(size, -1)
        if size == count and (lines == lines[:, :1]).all() and (lines[:, 0] == range(count)).all():
            return axis
    raise UnsupportedError(
        f"scales along axis {found.axis} of a constant {list(shape)} are along none of its axes "
        f"{list(after.shape)} in ONNX"
    )
