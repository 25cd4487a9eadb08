# SPDX-License-Identifier: Apache-2.0
"""Weights with zero points: onnxruntime's results, on the DPU."""

import numpy as np
import pytest
from onnxruntime.quantization import QuantType
from qdq_models import draw
from test_qdq_models import compare
from test_scaled_programs import TARGET, Made, check

from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.ir import Quantization
from opendpu.quantize import complete
from opendpu_arch.target import Target

KINDS = {
    "uint8": {
        "activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8, "per_channel": False,
    },
    "seven bits": {
        "activation_type": QuantType.QUInt8, "weight_type": QuantType.QUInt8, "reduce_range": True,
    },
    "asymmetric": {
        "weight_type": QuantType.QInt8, "per_channel": True,
        "extra_options": {"WeightSymmetric": False},
    },
}  # fmt: skip
SEEDS = {"uint8": (3, 4, 6), "seven bits": (0, 5), "asymmetric": (2, 9, 11)}


@pytest.mark.parametrize(("kind", "seed"), [(k, s) for k, seeds in SEEDS.items() for s in seeds])
def test_results_are_those_of_onnxruntime_and_none_is_made_by_the_cpu(kind, seed, tmp_path):
    found = compare(seed, tmp_path, **KINDS[kind])
    assert found.elements > 0
    path, _ = draw(seed, tmp_path, **KINDS[kind])
    graph = complete(load_onnx(path, any_scale=True))
    report = compile_with_report(graph, Target.from_name(TARGET)).report
    assert not [reason for reason in report.on_cpu.values() if "zero point" in reason]


def weights(made: Made, shape, axis=None) -> str:
    """Add weights that need nine bits around their zero points."""
    integers = made.random.integers(-128, 128, shape)
    count = 1 if axis is None else shape[axis]
    zero = tuple(int(z) for z in made.random.integers(20, 90, count))
    grid = Quantization((0.01,) * count, zero, axis)
    real = (integers - np.array(zero).reshape([-1 if a == axis else 1 for a in range(4)])) * 0.01
    node = made.graph.add_const(f"w{len(made.graph.nodes)}", real)
    return made.graph.add_fix(f"{node.name}_fix", node.name, grid).name


@pytest.mark.parametrize("kind", ["conv2d", "depthwise-conv2d", "grouped", "dilated", "shared"])
def test_layers_give_the_bytes_of_the_integer_reference(kind, tmp_path):
    made = Made(9, 11, 8)
    depthwise = kind == "depthwise-conv2d"
    shape = (1, 3, 3, 8) if depthwise else (8, 3, 3, 4 if kind == "grouped" else 8)
    w = weights(made, shape, 3 if depthwise else 0)
    name = "x_fix"
    for number in range(2 if kind == "shared" else 1):
        gap = 2 if kind == "dilated" else 1
        attrs = {
            "kernel": [3, 3], "stride": [1, 1] if kind == "shared" else [2, 1], "pad": [1, 2, 0, 1],
            "pad_mode": "FLOOR", "dilation": [gap, gap], "group": 2 if kind == "grouped" else 1,
        }  # fmt: skip
        width = (11 + 3 - 2 * gap - 1) // attrs["stride"][0] + 1 + number
        height = 9 + 1 - 2 * gap - number
        node = made.graph.add(
            f"layer{number}", "depthwise-conv2d" if depthwise else "conv2d",
            (1, height, width, 8), {"input": [name], "weights": [w]}, attrs,
        )  # fmt: skip
        name = made.fix(node.name, made.scale(0.5, 1.0))
    made.graph.outputs = [name]
    compiled = check(made.graph, tmp_path)
    assert not compiled.report.on_cpu
