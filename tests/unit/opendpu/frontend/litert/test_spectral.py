# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms in TFLite files against LiteRT: networks that make spectrograms of sound."""

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")

from tflite_files import Network, agree, options

from opendpu.frontend.tflite import load_tflite
from opendpu_arch.errors import UnsupportedError

COMPLEX = np.complex64


def ints(*numbers):
    return np.array(numbers, np.int32)


def transformed(shape, lengths, dtype=COMPLEX):
    """Return a network that transforms ``x``, and the name of the result."""
    net = Network()
    x = net.data("x", shape)
    return net, net.op("RFFT2D", [x, net.const("lengths", ints(*lengths))], ["f"], dtype=dtype)


def compare(net, outputs, tmp_path, rng, tolerance=2e-5):
    path = net.write(tmp_path / "spectrum.tflite", outputs)
    shape = tuple(net.tensors["x"].shape)
    agree(load_tflite(path), path, {"x": rng.standard_normal(shape).astype(np.float32)}, tolerance)


@pytest.mark.parametrize("kind", ["REAL", "IMAG", "COMPLEX_ABS"])
@pytest.mark.parametrize(
    ("shape", "lengths"),
    [((2, 3, 1, 16), (1, 16)), ((2, 8, 16), (8, 16)), ((1, 1, 20), (1, 16)), ((1, 3, 6), (4, 8))],
)
def test_of_one_and_two_axes(kind, shape, lengths, tmp_path, rng):
    net, made = transformed(shape, lengths)
    net.op(kind, [made], ["y"])
    compare(net, ["y"], tmp_path, rng)


def test_moved_before_it_is_read(tmp_path, rng):
    """As BirdNET has it: squeezed, then the real parts by a cast."""
    net, made = transformed((1, 5, 1, 16), (1, 16))
    flat = net.op("SQUEEZE", [made], ["flat"], options("Squeeze", squeezeDims=[2]), dtype=COMPLEX)
    net.op("CAST", [flat], ["real"], options("Cast", inDataType=8, outDataType=0))
    turned = net.op("TRANSPOSE", [flat, net.const("order", ints(0, 2, 1))], ["turned"],
                    options("Transpose"), dtype=COMPLEX)  # fmt: skip
    ends = [net.const(n, ints(*a)) for n, a in (("a", (0, 1, 0)), ("b", (1, 8, 4)),
                                                ("c", (1, 2, 1)))]  # fmt: skip
    some = net.op("STRIDED_SLICE", [turned, *ends], ["some"], options("StridedSlice"),
                  dtype=COMPLEX)  # fmt: skip
    net.op("COMPLEX_ABS", [some], ["loud"])
    shape = net.op("SHAPE", [some], ["shape"], options("Shape", outType=2), dtype=np.int32)
    net.op("RESHAPE", [net.op("REAL", [some], ["parts"]), shape], ["again"])
    compare(net, ["real", "loud", "again"], tmp_path, rng)


def test_frames_by_a_range_and_a_scalar_without_bytes(tmp_path, rng):
    """The shape of a scalar has no elements, and so no bytes in the file."""
    net = Network()
    x = net.data("x", (1, 12))
    count = net.op("RESHAPE", [net.const("two", ints(2)), net.const("nothing", ints())], ["count"],
                   dtype=np.int32)  # fmt: skip
    ends = [net.const(name, np.int32(n)) for name, n in (("zero", 0), ("ten", 10))]
    starts = net.op("RANGE", [*ends, count], ["starts"], dtype=np.int32)
    net.op("GATHER", [x, starts], ["y"], options("Gather", axis=1))
    compare(net, ["y"], tmp_path, rng)


def test_arithmetic_of_complex_numbers_is_refused(tmp_path):
    net, made = transformed((1, 1, 16), (1, 16))
    net.op("REAL", [net.op("MUL", [made, made], ["square"], options("Mul"), dtype=COMPLEX)], ["y"])
    path = net.write(tmp_path / "square.tflite", ["y"])
    with pytest.raises(UnsupportedError, match=r"MUL \(arithmetic of complex numbers is not sup"):
        load_tflite(path)


def test_complex_outputs_and_inputs_are_refused(tmp_path):
    net, made = transformed((1, 1, 16), (1, 16))
    path = net.write(tmp_path / "out.tflite", [made])
    with pytest.raises(UnsupportedError, match="outputs f are complex numbers"):
        load_tflite(path)
    net = Network()
    net.op("REAL", [net.data("z", (1, 4), COMPLEX)], ["y"])
    path = net.write(tmp_path / "in.tflite", ["y"])
    with pytest.raises(UnsupportedError, match="input 'z' is no tensor of real numbers or bools"):
        load_tflite(path)


def test_a_range_without_end_is_refused(tmp_path):
    net = Network()
    ends = [net.const(n, np.int32(a)) for n, a in (("a", 0), ("b", 2**31 - 1), ("c", 1))]
    made = net.op("RANGE", ends, ["made"], dtype=np.int32)
    net.op("GATHER", [net.data("x", (1, 4)), made], ["y"], options("Gather", axis=1))
    path = net.write(tmp_path / "endless.tflite", ["y"])
    with pytest.raises(UnsupportedError, match="a range of 2147483647 numbers, more than 16777216"):
        load_tflite(path)
