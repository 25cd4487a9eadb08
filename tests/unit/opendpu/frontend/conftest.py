# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models made on the spot, and a comparison with onnxruntime."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ir import to_xir
from opendpu.ops.session import Session

sys.path.append(str(Path(__file__).parent))  # lets tests import the helpers beside them

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write a model of ``nodes`` and return its path."""

    def make(
        nodes: Sequence[onnx.NodeProto],
        inputs: dict[str, Sequence[Any]],
        outputs: dict[str, Sequence[Any] | None],
        weights: dict[str, np.ndarray] | None = None,
        opset: int = 17,
    ) -> Path:
        graph = helper.make_graph(
            list(nodes),
            "small",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
            [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 10
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        return path

    return make


@pytest.fixture
def agrees(rng: np.random.Generator) -> Callable[[Path], Any]:
    """Compare a model's graph with onnxruntime on random inputs; return the graph."""

    def check(path: Path, *, tolerance: float = 1e-4) -> Any:
        graph = load_onnx(path)
        to_xir(graph)  # every op is as XIR defines it
        order = graph.attrs.get("onnx_order", {})
        session = onnxruntime.InferenceSession(str(path))
        feeds = {
            item.name: rng.standard_normal(
                [d if isinstance(d, int) else 1 for d in item.shape]
            ).astype(np.float32)
            for item in session.get_inputs()
        }
        expected = session.run(None, feeds)
        given = {n: a.transpose(order[n]) if n in order else a for n, a in feeds.items()}
        found = Session(graph).run(given)
        names = [item.name for item in session.get_outputs()]
        assert graph.outputs == names
        for name, array in zip(names, expected, strict=True):
            want = array.transpose(order[name]) if name in order else array
            assert found[name].shape == want.shape
            np.testing.assert_allclose(found[name], want, rtol=tolerance, atol=tolerance)
        return graph

    return check
