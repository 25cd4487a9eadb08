# SPDX-License-Identifier: Apache-2.0
"""Programs that AMD's compiler made, on the RTL of their target, against recorded outputs."""

import pathlib

import numpy as np
import pytest

import vart
import xir

pytestmark = [pytest.mark.cosim, pytest.mark.system]


def dpu_subgraphs(path: pathlib.Path) -> list[xir.Subgraph]:
    graph = xir.Graph.deserialize(path)
    children = graph.get_root_subgraph().toposort_child_subgraph()
    found = [c for c in children if c.has_attr("device") and c.get_attr("device") == "DPU"]
    for subgraph in found:
        subgraph.keep = graph  # a subgraph does not own its graph
    return found


@pytest.mark.parametrize("memory", ["kv260", "ideal", "stall:1", "stall:2"])
@pytest.mark.parametrize(
    ("name", "count"), [("dpu_mnist_classifier", 1), ("tf2_custom_op", 2)], ids=["mnist", "custom"]
)
def test_outputs_are_bit_exact(models, monkeypatch, name, count, memory):
    monkeypatch.setenv("OPENDPU_DEVICE", "rtl")
    monkeypatch.setenv("OPENDPU_MEMORY", memory)
    folder = models / "amd_compiled"
    golden = np.load(folder / f"{name}.golden.npz")
    subgraphs = dpu_subgraphs(folder / f"{name}.xmodel")
    assert len(subgraphs) == count
    for number, subgraph in enumerate(subgraphs):
        runner = vart.Runner.create_runner(subgraph, "run")
        seeds = sorted({k.split("/")[1] for k in golden.files if k.startswith(f"s{number}/")})
        assert len(seeds) == 3
        for seed in seeds:
            key = f"s{number}/{seed}"
            inputs = [golden[f"{key}/in/{t.name}_upload_0"] for t in runner.get_input_tensors()]
            tensors = runner.get_output_tensors()
            outputs = [np.full(tuple(t.dims), 99, np.int8) for t in tensors]
            runner.wait(runner.execute_async(inputs, outputs))
            for tensor, output in zip(tensors, outputs, strict=True):
                np.testing.assert_array_equal(output, golden[f"{key}/out/{tensor.name}"])
