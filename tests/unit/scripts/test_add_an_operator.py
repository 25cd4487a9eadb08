# SPDX-License-Identifier: Apache-2.0
"""The page that adds an operator, done as it says: its own code, then a model with the operator."""

import re
from collections.abc import Iterator

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.compiler.legalize.registry import RULES
from opendpu.compiler.pipeline import compile_with_report
from opendpu.frontend import load_onnx
from opendpu.frontend.ops.registry import HANDLERS
from opendpu.ops import OPERATORS
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

SHAPE = (1, 3, 6, 6)


@pytest.fixture
def blocks(repository) -> Iterator[dict[str, str]]:
    """The code of the page by file; what it registers is gone afterwards."""
    page = (repository / "docs" / "contributing" / "add_an_operator.md").read_text()
    found = re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.DOTALL)
    yield dict(found)
    for table, key in ((OPERATORS, "abs"), (HANDLERS, "Abs"), (RULES, "abs")):
        table.pop(key, None)


def model() -> onnx.ModelProto:
    weights = np.random.default_rng(0).standard_normal((4, 3, 1, 1)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
            helper.make_node("Abs", ["c"], ["y"], name="Abs"),
        ],
        "absolute",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 6, 6])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def result(samples: np.ndarray) -> tuple[np.ndarray, dict[str, str]]:
    """Return what the compiled model gives for the first sample, and which ops are on the CPU."""
    quantized = quantize(load_onnx(model()), {"x": samples})
    compiled = compile_with_report(quantized, Target.from_name("B512"))
    with GraphRunner(compiled.graph, device="iss") as runner:
        (tensor,) = runner.get_output_tensors()
        given = samples[:1].transpose(0, 2, 3, 1).copy()
        (found,) = runner.run({"x": given}).values()
    scale = 2.0 ** -tensor.get_attr("fix_point") if tensor.has_attr("fix_point") else 1.0
    return found.transpose(0, 3, 1, 2) * scale, dict(compiled.report.on_cpu)


def wanted(samples: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model().SerializeToString())
    return session.run(None, {"x": samples[:1]})[0]


def test_the_page_does_what_it_says(blocks, rng):
    samples = rng.standard_normal((16, *SHAPE[1:])).astype(np.float32)
    found, on_cpu = result(samples)
    assert any("Abs" in why for why in on_cpu.values()), "before, it stays ONNX on the CPU"
    np.testing.assert_allclose(found, wanted(samples), atol=0.2)
    assert list(blocks)[:3] == [
        "sw/opendpu/ops/absolute.py", "sw/opendpu/frontend/ops/absolute.py",
        "sw/opendpu/compiler/legalize/absolute.py",
    ]  # fmt: skip
    for file in list(blocks)[:3]:
        exec(compile(blocks[file], file, "exec"), {"__name__": file})
    found, on_cpu = result(samples)
    assert on_cpu == {}
    np.testing.assert_allclose(found, wanted(samples), atol=0.2)
    scope: dict[str, object] = {}
    exec(compile(blocks["tests/unit/opendpu/ops/test_absolute.py"], "test", "exec"), scope)


def test_one_file_is_enough_for_the_cpu(blocks, rng):
    table = blocks["sw/opendpu/ops/absolute.py"].replace(', fixed="leaky-relu-fix"', "")
    exec(compile(table, "table", "exec"), {"__name__": "table"})
    exec(compile(blocks["sw/opendpu/frontend/ops/absolute.py"], "handler", "exec"), {})
    samples = rng.standard_normal((16, *SHAPE[1:])).astype(np.float32)
    found, on_cpu = result(samples)
    assert on_cpu["y"].startswith("the DPU has no abs")
    np.testing.assert_allclose(found, wanted(samples), atol=0.2)
