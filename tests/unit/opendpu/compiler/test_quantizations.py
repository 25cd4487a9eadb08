# SPDX-License-Identifier: Apache-2.0
"""Which quantizations the compiler takes, and what it says of the others."""

import numpy as np
import pytest

from opendpu.compiler.legalize.run import legalize
from opendpu.ir import NumberFormat, Quantization, QuantizedGraph
from opendpu_arch.errors import UnsupportedError

INT8 = Quantization.power_of_two(4)


def graph(activation=INT8, weights=INT8) -> QuantizedGraph:
    made = QuantizedGraph("net")
    made.add("x", "data", (1, 4, 4, 2))
    made.add_fix("x_fix", "x", INT8)
    made.add_const("w", np.full((3, 1, 1, 2), -0.5))
    made.add_fix("w_fix", "w", weights)
    attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
    inputs = {"input": ["x_fix"], "weights": ["w_fix"]}
    made.add("y", "conv2d", (1, 4, 4, 3), inputs, attrs)
    made.add_fix("y_fix", "y", activation)
    made.outputs = ["y_fix"]
    return made


@pytest.mark.parametrize("bits", [2, 4, 7, 8])
def test_constants_of_fewer_bits_are_int8_values(bits):
    fixed = legalize(graph(weights=Quantization.power_of_two(2, bits=bits)))
    (weights,) = (node for node in fixed if node.kind == "const-fix")
    np.testing.assert_array_equal(weights.value, np.full((3, 1, 1, 2), -2, np.int8))
    assert weights.type.dtype == np.int8


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"activation": Quantization.power_of_two(4, bits=4)}, "'y_fix' has 4 signed bits, but"),
        ({"weights": Quantization.power_of_two(4, bits=16)}, "'w_fix' has 16 signed bits, but"),
        ({"weights": Quantization.power_of_two(4, signed=False)}, "'w_fix' has 8 unsigned bits"),
        (
            {"activation": Quantization((0.3,))},
            "'y_fix' has scale 0.3, but the DPU needs one",
        ),
        ({"activation": Quantization((0.5,), (3,))}, "'y_fix' has zero point 3, but the DPU needs"),
        (
            {"weights": Quantization((0.5, 0.3, 1.0), axis=0)},
            "'w_fix' has scales per channel (axis 0), but the DPU needs one power of two",
        ),
        (
            {"activation": Quantization((0.5, 0.5, 1.0), axis=3)},
            "'y_fix' has scales per channel (axis 3), but the DPU needs one power of two",
        ),
        (
            {"weights": Quantization((0.5, 1.0), axis=3)},
            "'w_fix' has fix points along axis 3, but 'y' (conv2d) needs a single one",
        ),
        (
            {"activation": Quantization((1.0,), number_format=NumberFormat.BFLOAT16)},
            "'y_fix' makes bfloat16, but the DPU computes with integers of 8 signed bits",
        ),
    ],
)
def test_what_the_dpu_cannot_compute_is_refused(given, text):
    with pytest.raises(UnsupportedError) as caught:
        legalize(graph(**given))
    assert text in str(caught.value)


def test_weights_may_have_a_fix_point_for_each_output_channel():
    fixed = legalize(graph(weights=Quantization.powers_of_two([1, 3, 2], 0)))
    (weights,) = (node for node in fixed if node.kind == "const-fix")
    assert weights.fix_points == (1, 3, 2)
    np.testing.assert_array_equal(weights.value[:, 0, 0, 0], [-1, -4, -2])


def test_constants_of_other_ops_may_not():
    made = graph(weights=Quantization.powers_of_two([1, 3, 2], 0))
    made.add("z", "add", (3, 1, 1, 2), {"input": ["w_fix", "w_fix"]})
    made.add_fix("z_fix", "z", INT8)
    made.outputs.append("z_fix")
    with pytest.raises(UnsupportedError, match=r"'z' \(add\) needs a single one; only weights"):
        legalize(made)
