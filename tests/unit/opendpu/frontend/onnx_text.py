# SPDX-License-Identifier: Apache-2.0
"""Models written in ONNX's text form, and what the graph and onnxruntime make of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session

DTYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip


def parse(text: str, opset: int = 17, domains: Mapping[str, int] | None = None) -> onnx.ModelProto:
    """Return the model of a graph in text; one of functions too if it begins with ``<``."""
    if not text.lstrip().startswith("<"):
        imports = {"": opset, **(domains or {})}
        listed = ", ".join(f'"{domain}": {version}' for domain, version in imports.items())
        text = f"<ir_version: 10, opset_import: [{listed}]>\n{text}"
    return onnx.parser.parse_model(text)


def random_inputs(
    session: onnxruntime.InferenceSession, rng: np.random.Generator, shapes: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Return numbers for every input: small integers where they are integers."""
    feeds = {}
    for item in session.get_inputs():
        dims = [size if isinstance(size, int) else 1 for size in item.shape]
        shape = shapes.get(item.name, dims)
        dtype = np.dtype(DTYPES[item.type])
        values = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
        feeds[item.name] = np.asarray(values).astype(dtype)
    return feeds


def compare(
    model: onnx.ModelProto,
    rng: np.random.Generator,
    *,
    sizes: Mapping[str, Sequence[int]] | None = None,
    feeds: Mapping[str, np.ndarray] | None = None,
    tolerance: float = 1e-5,
) -> FloatGraph:
    """Convert a model and run it next to onnxruntime; return the graph."""
    graph = load_onnx(model, sizes)
    run_both(graph, model.SerializeToString(), rng, sizes or {}, feeds, tolerance)
    return graph


def run_both(
    graph: FloatGraph,
    original: bytes | str,
    rng: np.random.Generator,
    sizes: Mapping[str, Sequence[int]],
    feeds: Mapping[str, np.ndarray] | None = None,
    tolerance: float = 1e-5,
) -> None:
    """Compare a graph with the model that it was made from."""
    session = onnxruntime.InferenceSession(original)
    given = random_inputs(session, rng, sizes) | dict(feeds or {})
    wanted = session.run(None, given)
    order = graph.attrs.get("onnx_order", {})
    own = {
        name: (array.transpose(order[name]) if name in order else array).reshape(graph[name].shape)
        for name, array in given.items()
    }
    found = Session(graph).run(own)
    for name, array in zip(graph.outputs, wanted, strict=True):
        want = array.transpose(order[name]) if name in order else array
        got = found[name]
        assert got.dtype == want.dtype, name
        assert got.shape == (want.shape or (1,)), name
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=tolerance, atol=tolerance)
        if not graph[name].attrs.get("dynamic_axes"):
            assert graph[name].shape == got.shape
            assert graph[name].type.dtype == got.dtype
