# SPDX-License-Identifier: Apache-2.0
"""TFLite files in int8 whose scales are drawn, and what LiteRT's reference kernels make of them."""

import numpy as np
from tflite_files import Network, interpreter, schema

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3
X = (1, 7, 6, 4)
SAMPLES = 8


def reference(path, feeds):
    """Return what LiteRT's reference kernels make of samples, by output."""
    made = interpreter.Interpreter(
        str(path), experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF
    )
    made.allocate_tensors()
    found = {item["name"]: [] for item in made.get_output_details()}
    for number in range(len(next(iter(feeds.values())))):
        for item in made.get_input_details():
            made.set_tensor(item["index"], feeds[item["name"]][number : number + 1])
        made.invoke()
        for item in made.get_output_details():
            found[item["name"]].append(made.get_tensor(item["index"]))
    return {name: np.concatenate(parts) for name, parts in found.items()}


class Draws(Network):
    """A network in int8 whose scales and zero points are drawn."""

    def drawn(self, seed):
        self.random = np.random.default_rng(seed)
        return self

    def scale(self, low, high):
        return float(np.float32(np.exp(self.random.uniform(np.log(low), np.log(high)))))

    def zero(self):
        return int(self.random.integers(-128, 128))

    def integers(self, name, shape, scale=None):
        scale = scale or self.scale(0.01, 0.2)
        return self.data(name, shape, np.int8, scale, self.zero())

    def weights(self, name, shape, axis, per_channel):
        count = shape[axis] if per_channel else 1
        scales = np.array([self.scale(0.002, 0.02) for _ in range(count)], np.float32)
        values = self.random.integers(-127, 128, shape).astype(np.int8)
        return self.const(name, values, scales, np.zeros(count), axis), scales

    def bias(self, name, count, scales, given):
        values = self.random.integers(-3000, 3000, count).astype(np.int32)
        return self.const(name, values, np.float32(given) * scales, np.zeros(len(scales)))

    def scale_of(self, name):
        return float(self.tensors[name].quantization.scale[0])

    def zero_of(self, name):
        return int(self.tensors[name].quantization.zeroPoint[0])

    def result(self, kind, inputs, given, shape, scale=None, zero=None):
        return self.op(
            kind, inputs, ["y"], given, dtype=np.int8, shape=shape,
            scale=scale or self.scale(0.02, 0.4), zero=self.zero() if zero is None else zero,
        )  # fmt: skip

    def alike(self, kind, inputs, given, shape):
        """Append an operator whose result has its input's scale."""
        x = inputs[0]
        return self.result(kind, inputs, given, shape, self.scale_of(x), self.zero_of(x))


class UnsignedDraws(Draws):
    """The same as TensorFlow 1 wrote it: uint8, and weights with a zero point."""

    def integers(self, name, shape, scale=None):
        scale = scale or self.scale(0.01, 0.2)
        return self.data(name, shape, np.uint8, scale, self.zero() + 128)

    def weights(self, name, shape, axis, per_channel):
        scales = np.array([self.scale(0.002, 0.02)], np.float32)
        values = self.random.integers(0, 256, shape).astype(np.uint8)
        return self.const(name, values, scales, self.random.integers(60, 200, 1)), scales

    def result(self, kind, inputs, given, shape, scale=None, zero=None):
        return self.op(
            kind, inputs, ["y"], given, dtype=np.uint8, shape=shape,
            scale=scale or self.scale(0.02, 0.4),
            zero=self.zero() + 128 if zero is None else zero,
        )  # fmt: skip


def feeds_of(net, random):
    """Return samples: random bytes, and bytes near the zero point, for results in the middle."""
    found, kind = {}, np.uint8 if isinstance(net, UnsignedDraws) else np.int8
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    for name in net.inputs:
        shape = (SAMPLES, *net.tensors[name].shape[1:])
        few = net.zero_of(name) + random.integers(-12, 13, shape)
        many = random.integers(low, high + 1, shape)
        half = np.arange(SAMPLES).reshape(-1, *[1] * (len(shape) - 1)) % 2
        found[name] = np.clip(np.where(half, few, many), low, high).astype(kind)
    return found
