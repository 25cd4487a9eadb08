# SPDX-License-Identifier: Apache-2.0
"""Random quantized graphs: onnxruntime computes the exported file as the DPU computes the graph."""

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.deploy_check import deploy_check
from opendpu.export import to_onnx
from opendpu.export.reference import IntegerReference, computed_fixes, with_outputs
from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.ops.inference import open_session
from opendpu.quantize import complete
from opendpu_arch.target import Target

sys.path.append(str(Path(__file__).parents[1] / "compiler"))
from graph_draws import Quantized
from random_graphs import draw
from random_graphs.check import inputs_of

B512 = Target.from_name("B512")


def drawn(seed: int) -> QuantizedGraph:
    """Return a graph; the index of a maximum is an integer, which its generator leaves open."""
    graph = draw(seed).graph
    for node in graph:
        if node.kind == "argmax":
            node.type = dataclasses.replace(node.type, dtype=np.dtype(np.int32))
    return graph


def given(graph: QuantizedGraph, seed: int) -> dict[str, np.ndarray]:
    """Return inputs that are on the grid of their fix."""
    found = {}
    for name, integers in inputs_of(graph, seed).items():
        fixes = [user for user in graph.consumers(name) if user.kind == "fix"]
        scale = fixes[0].quantization.scale[0] if fixes else 1.0
        found[name] = integers.astype(np.float32) * np.float32(scale)
    return found


def leaves_padding_out(graph: QuantizedGraph) -> bool:
    """Return whether averages have windows of several sizes, which a file has one factor for."""
    return any(
        node.kind == "avgpool2d" and not node.attrs.get("count_include_pad", True) for node in graph
    )


@pytest.mark.parametrize("part", range(4))
def test_the_file_computes_what_the_dpu_does(rng, part):
    checked = 0
    for _ in range(10):
        seed = int(rng.integers(1 << 30))
        graph = drawn(seed)
        if leaves_padding_out(graph):
            continue
        inputs = given(graph, seed)
        (found,) = deploy_check(graph, inputs, target=B512, devices=[], exported=to_onnx(graph))
        assert found.agrees, f"seed {seed}: {found}"
        checked += 1
    assert checked


def test_cubes_whose_order_of_axes_nothing_tells():
    graph = drawn(88606882)  # [1, 3, 3, 3], channels first in the file
    (found,) = deploy_check(
        graph, given(graph, 88606882), target=B512, devices=[], exported=to_onnx(graph)
    )
    assert found.agrees, found


def by_file(graph: QuantizedGraph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the integers of a file's tensors that are no feature maps."""
    model = to_onnx(graph)
    names = computed_fixes(graph)
    session = open_session(with_outputs(model, names))
    return dict(zip(names, session.run(names, inputs), strict=True))


@pytest.mark.parametrize("points", [(6, 1), (1, 6), (5, 4), (7, 0)])
def test_terms_of_a_sum_that_are_far_apart(points):
    q = Quantized()
    one, other = (
        q.data(4, 4, 8, name=name, point=point) for name, point in zip("ab", points, strict=True)
    )
    graph = q.done(q.add([one, other], "sum", point=min(points)))
    random = np.random.default_rng(2)
    inputs = {
        node.name: random.normal(0, 30 * 2.0**-point, node.shape).astype(np.float32)
        for node, point in zip((n for n in graph if n.kind == "data"), points, strict=True)
    }
    wanted = IntegerReference(graph).run(inputs)
    found = by_file(graph, inputs)
    for name, integers in found.items():
        np.testing.assert_array_equal(integers, wanted[name], err_msg=name)
    model = to_onnx(graph)
    rounded = [node for node in model.graph.node if node.op_type == "RoundDown"]
    assert len(rounded) == (abs(points[0] - points[1]) > 2)
    back = complete(load_onnx(model))
    assert sorted(n.kind for n in back) == sorted(n.kind for n in graph)
