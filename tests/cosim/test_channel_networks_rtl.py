# SPDX-License-Identifier: Apache-2.0
"""Whole networks, quantized with a shift for each channel, on the RTL: results and cycles."""

import pathlib
import sys
from collections.abc import Callable

import numpy as np
import pytest

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.quantize import QuantizeConfig, quantize
from opendpu_arch.target import Target

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "unit" / "opendpu" / name) for name in ("compiler", "quantize")]

from float_nets import WINDOW, Net  # noqa: E402
from random_graphs.scales import by_integers  # noqa: E402

pytestmark = pytest.mark.cosim

EXTENDED = "B64+table+channel+scaled"
"""What other tests build too."""
SLOW = [
    (name, target)
    for name in ("kws_dscnn", "ic_resnet8", "vww_mobilenetv1_025", "ad01")
    for target in (EXTENDED, "B512+channel")
]


def inverted_residual() -> FloatGraph:
    """A block of MobileNetV2 whose channels differ by a factor of 200."""
    made = Net()
    uneven = np.logspace(-2, 0.3, 12, dtype=np.float32)
    wide = made.put("r1", "relu6", [made.conv("expand", "x", 12, size=1)])
    weights = made.random.standard_normal((1, 3, 3, 12)) / 3 * uneven
    inputs = {
        "input": [wide], "weights": [made.add_const("depth_w", weights).name],
        "bias": [made.add_const("depth_b", made.random.standard_normal(12) * uneven).name],
    }  # fmt: skip
    made.put("depth", "depthwise-conv2d", inputs, WINDOW, (1, 8, 8, 12))
    deep = made.put("r2", "relu6", ["depth"])
    project = made.conv("project", deep, 4, size=1)
    return made.done(made.conv("last", made.put("sum", "add", ["x", project]), 8))


def check(
    graph: FloatGraph, name: str, memory: str, as_reference: Callable[..., None], least: int
) -> None:
    """Quantize a network for a target, ``least`` of whose constants get a scale a channel."""
    (head,) = (node for node in graph if node.kind == "data")
    noise = np.random.default_rng(2)
    samples = noise.standard_normal((16, *head.shape[1:])).astype(np.float32)
    made = quantize(graph, {head.name: samples}, QuantizeConfig(target=Target.from_name(name)))
    fixes = [node for node in made if node.kind == "fix"]
    assert sum(len(node.quantization.scale) > 1 for node in fixes) >= least
    as_reference(made, memory=memory, name=name, reference=by_integers)


@pytest.mark.parametrize("memory", ["kv260", "stall:7"])
def test_an_inverted_residual(memory: str, as_reference: Callable[..., None]) -> None:
    check(inverted_residual(), EXTENDED, memory, as_reference, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name, target", SLOW)
def test_networks_of_mlperf_tiny(
    models: pathlib.Path, name: str, target: str, as_reference: Callable[..., None]
) -> None:
    graph = load_onnx(models / "mlperf_tiny" / f"{name}.onnx")
    check(graph, target, "kv260", as_reference, 4)
