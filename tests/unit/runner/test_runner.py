# SPDX-License-Identifier: Apache-2.0
"""Programs for Vitis AI 1.2, whose runners have a module of their own."""

import pathlib

import numpy as np

import runner
import xir.graph
import xir.subgraph


def test_a_program_for_vitis_ai_1_2(models):
    path = pathlib.Path(models / "amd_compiled" / "tf2_custom_op.xmodel")
    graph = xir.graph.Graph.deserialize(path)
    children = graph.get_root_subgraph().children
    assert all(isinstance(child, xir.subgraph.Subgraph) for child in children)
    found = [child for child in children if child.metadata.get_attr_str("device") == "DPU"]
    dpu = runner.Runner(found[0], "run")
    assert dpu.get_tensor_format() == dpu.TensorFormat.NHWC
    given = [np.zeros(tensor.dims, np.float32) for tensor in dpu.get_input_tensors()]
    results = [np.full(tensor.dims, np.nan, np.float32) for tensor in dpu.get_output_tensors()]
    dpu.wait(dpu.execute_async(given, results))
    assert all(np.isfinite(result).all() for result in results)
