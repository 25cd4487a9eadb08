# SPDX-License-Identifier: Apache-2.0
"""Training with quantization: a Keras layer that rounds where the DPU does.

Scales are powers of two, ``2**(ceil(log2_threshold) + 1 - bits)``, whose thresholds are trained
(Jain et al., Trained Quantization Thresholds, 2019) or stay as calibration chose them. Rounding has
the gradient of saturation alone (straight-through). Batch normalizations are in the weights.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import xir
from opendpu.frontend.tensorflow.quantized_keras import PACKAGE
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array, FloatGraph, Node, QuantizedGraph, from_xir, to_xir
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.layers import parameters_of
from opendpu.quantize.placement.insert import fix_name, insert
from opendpu.quantize.placement.place import place
from opendpu.quantize.scales.grid import best_fix_point
from opendpu.quantize.scales.shifts import make_legal
from opendpu.quantize.scales.template import template_of
from opendpu.quantize.tensor_spec import TensorSpec
from vai_q_tensorflow2.structure import inputs_like, nested_like
from vai_q_tensorflow2.translation import translate

LAYER = "vitis_qat"
START = 0.5
"""Where between two exponents a threshold begins: as far from either."""

Tensor = Any


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _half_up(x: Tensor) -> tuple[Tensor, Any]:
    return tf.floor(x + 0.5), lambda gradient: gradient


@tf.custom_gradient  # type: ignore[untyped-decorator]
def _scale(log2_step: Tensor) -> tuple[Tensor, Any]:
    """Return the power of two that an exponent is rounded up to, exactly."""
    bits = (tf.cast(tf.math.ceil(log2_step), tf.int32) + 127) * (1 << 23)
    made = tf.bitcast(bits, tf.float32)
    return made, lambda gradient: gradient * made * math.log(2.0)


def rounded(x: Tensor, log2_threshold: Tensor, bits: int) -> Tensor:
    """Return numbers on the grid of a threshold, halves up, saturated to signed ``bits``."""
    scale = _scale(log2_threshold + float(1 - bits))
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return tf.clip_by_value(_half_up(x / scale), float(low), float(high)) * scale


@tf.keras.utils.register_keras_serializable(package=PACKAGE)
class QuantizedTraining(tf.keras.layers.Layer):  # type: ignore[misc]
    """A network that is trained with the rounding of its program.

    Parameters
    ----------
    network
        Its float graph after all transformations: quantized XIR's file without ``fix``, base64.
    bits
        Widths by role: ``input``, ``weights``, ``bias``, ``activation``.
    train_scales
        Whether thresholds are trained.
    begun
        Whether thresholds are known; otherwise the first batch chooses them.
    """

    def __init__(
        self, network: str, bits: Mapping[str, int], train_scales: bool, begun: bool,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(**settings)
        self.supports_jit = False  # a batch may be looked at in Python
        self._settings = {
            "network": network, "bits": dict(bits), "train_scales": train_scales, "begun": begun,
        }  # fmt: skip
        self.reference = _decoded(network)
        specs: dict[str, Any] = {role: TensorSpec(bits=width) for role, width in bits.items()}
        config = QuantizeConfig(**specs)
        placement = place(self.reference, config)
        self.groups, self._specs = placement.groups, placement.specs
        self._weighted = {
            name: self.reference[name].inputs[parameters_of(self.reference[name]).weights][0]
            for name in self.groups.results
            if name in self._specs.weights
        }
        self.input_names = [node.name for node in self.reference if node.kind == "data"]
        self._constants: dict[str, Any] = {}
        self._thresholds: dict[str, Any] = {}
        self._make_variables(train_scales)

    def _make_variables(self, train_scales: bool) -> None:
        zeros = tf.keras.initializers.Zeros()
        for name, weights in self._weighted.items():
            arguments = parameters_of(self.reference[name])
            biases = self.reference[name].inputs.get(arguments.bias, ())
            for constant in (weights, *biases):
                if constant not in self._constants:
                    value = self.reference[constant].value
                    assert value is not None
                    self._constants[constant] = self.add_weight(
                        name=f"constant{len(self._constants)}", shape=value.shape, dtype="float32",
                        initializer=tf.keras.initializers.Constant(value), trainable=True,
                    )  # fmt: skip
        keys = [*dict.fromkeys(self.groups.group.values()), *self._weighted.values()]
        for key in dict.fromkeys(keys):
            self._thresholds[key] = self.add_weight(
                name=f"log2_threshold{len(self._thresholds)}", shape=(), dtype="float32",
                initializer=zeros, trainable=train_scales,
            )  # fmt: skip
        self._ready = self.add_weight(
            name="ready", shape=(), dtype="float32", initializer=zeros, trainable=False
        )

    def begin(self, quantized: QuantizedGraph) -> None:
        """Begin with the scales of a quantized graph of the same network."""
        for name, key in [*self.groups.group.items(), *((w, w) for w in self._weighted.values())]:
            fix = quantized.nodes.get(fix_name(name))
            if fix is not None:
                self._set(key, fix.fix_point, fix.quantization.bits)
        self._ready.assign(1.0)

    def call(self, inputs: Any) -> Any:
        """Return the network's results, rounded on the way."""
        given = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
        if self._settings["begun"]:
            return self._computed(given)
        first = tf.numpy_function(self._observe, given, tf.float32)
        with tf.control_dependencies([first]):
            return self._computed([tf.identity(x) for x in given])

    def _computed(self, given: list[Tensor]) -> Any:
        feeds = dict(zip(self.input_names, given, strict=True))
        found = translate(self.reference, feeds, constant=self._constant, rounded=self._rounded)
        made = [found[name] for name in self.reference.outputs]
        return made[0] if len(made) == 1 else made

    def _constant(self, node: Node) -> Tensor:
        value = self._constants.get(node.name)
        if value is None:
            assert node.value is not None
            return self._rounded(node, tf.constant(node.value))
        made = tf.convert_to_tensor(value)
        if node.name not in self._thresholds:  # a bias: deployment chooses its grid
            return made
        layer = next(n for n, weights in self._weighted.items() if weights == node.name)
        return rounded(made, self._threshold(node.name), self._specs.weights[layer].bits)

    def _rounded(self, node: Node, value: Tensor) -> Tensor:
        key = self.groups.group.get(node.name)
        if key is None:
            return value
        return rounded(value, self._threshold(key), self._specs.results[node.name].bits)

    def _threshold(self, key: str) -> Tensor:
        return tf.convert_to_tensor(self._thresholds[key])

    def _set(self, key: str, fix_point: int, bits: int) -> None:
        self._thresholds[key].assign(bits - 1 - fix_point - START)

    def _observe(self, *arrays: Array) -> Array:
        """Let the first batch choose the thresholds: those with the least squared error."""
        if float(self._ready.numpy()):
            return np.zeros((), np.float32)

        def chosen(key: str, value: Tensor, bits: int) -> Tensor:
            point = best_fix_point(np.asarray(value, np.float32))
            self._set(key, point + bits - 8, bits)
            return rounded(value, self._threshold(key), bits)

        def observed(node: Node, value: Tensor) -> Tensor:
            key = self.groups.group.get(node.name)
            return value if key is None else chosen(key, value, self._specs.results[key].bits)

        for name, weights in self._weighted.items():
            chosen(weights, self._constants[weights], self._specs.weights[name].bits)
        feeds = {n: tf.constant(a) for n, a in zip(self.input_names, arrays, strict=True)}
        translate(self.reference, feeds, constant=self._constant, rounded=observed)
        self._ready.assign(1.0)
        return np.zeros((), np.float32)

    def quantized(self) -> QuantizedGraph:
        """Return what was trained as a quantized graph; fix points end within the DPU's shifts."""
        graph = self.reference.copy()
        for name, variable in self._constants.items():
            graph[name].value = np.asarray(variable.numpy(), np.float32)
        points = {
            key: self._bits_of(key) - 1 - math.ceil(float(variable.numpy()))
            for key, variable in self._thresholds.items()
        }
        chosen = {name: points[key] for name, key in self.groups.group.items()}
        for name, key in self.groups.group.items():
            chosen[name] = max(chosen[name], self.groups.lower_bounds.get(key, chosen[name]))
        by_layer = {
            name: template_of(self._specs.weights[name]).at(points[weights])
            for name, weights in self._weighted.items()
        }
        constants = make_legal(graph, self.groups, chosen, by_layer, self._specs.bias)
        templates = self._specs.templates()
        results = {name: templates[name].at(point) for name, point in chosen.items()}
        return insert(graph, results | constants)

    def _bits_of(self, key: str) -> int:
        if key in self._specs.results:
            return self._specs.results[key].bits
        layer = next(n for n, weights in self._weighted.items() if weights == key)
        return self._specs.weights[layer].bits

    def compute_output_shape(self, *_: Any, **__: Any) -> Any:
        """Return the shapes of the results, of any number of samples."""
        shapes = [(None, *self.reference[name].shape[1:]) for name in self.reference.outputs]
        return shapes[0] if len(shapes) == 1 else shapes

    def get_config(self) -> dict[str, Any]:
        """Return what makes the layer again."""
        return {**super().get_config(), **self._settings, "begun": bool(self._ready.numpy())}


def trainable_model(
    reference: FloatGraph, quantized: QuantizedGraph | None, bits: Mapping[str, int], like: Any,
    *, train_scales: bool,
) -> Any:  # fmt: skip
    """Return a Keras model of one layer, :class:`QuantizedTraining`.

    Parameters
    ----------
    reference
        The float graph after all transformations.
    quantized
        Whose scales it begins with; none for those that the first batch needs.
    bits
        Widths by role.
    like
        The model that it comes from, whose name and nested inputs and outputs it has.
    train_scales
        Whether thresholds are trained.
    """
    layer = QuantizedTraining(
        _encoded(reference), bits, train_scales, quantized is not None, name=LAYER
    )
    if quantized is not None:
        layer.begin(quantized)
    inputs = [
        tf.keras.Input(reference[item].shape[1:], name=item, dtype="float32")
        for item in layer.input_names
    ]
    made = layer(inputs[0] if len(inputs) == 1 else inputs)
    outputs = nested_like(like, "outputs", made if isinstance(made, list) else [made])
    return tf.keras.Model(inputs_like(like, inputs), outputs, name=like.name)


def training_layer(model: Any) -> QuantizedTraining | None:
    """Return the layer of :func:`trainable_model` in a model; nothing in another one."""
    found = [item for item in model.layers if isinstance(item, QuantizedTraining)]
    return found[0] if len(found) == 1 else None


def _encoded(graph: FloatGraph) -> str:
    return base64.b64encode(to_xir(graph).to_bytes()).decode()


def _decoded(network: str) -> FloatGraph:
    return from_xir(xir.Graph.from_bytes(base64.b64decode(network))).moved(FloatGraph)
