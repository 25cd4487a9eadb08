# SPDX-License-Identifier: Apache-2.0
"""Whole graphs through AMD's Python module, on a graph that copies."""

import numpy as np
import pytest

import vart
import vitis_ai_library
from opendpu_arch.errors import DPUError, UnsupportedError


def test_the_flow_of_amds_examples(copy_graph, fake_device, image):
    runner = vitis_ai_library.GraphRunner.create_graph_runner(copy_graph, device=fake_device)
    assert isinstance(runner, vart.RunnerExt)
    inputs, outputs = runner.get_inputs(), runner.get_outputs()
    assert inputs[0].get_tensor().dims == [1, 2, 3, 4]
    scale = 2 ** inputs[0].get_tensor().get_attr("fix_point")
    np.asarray(inputs[0])[0][:] = image[0]
    v = runner.execute_async(inputs, outputs)
    assert runner.wait(v) == 0
    np.testing.assert_array_equal(np.array(outputs[0]), image / np.float32(scale))
    assert list(runner.statistics(v).subgraphs) == ["subgraph_y"]


def test_the_environment_chooses_the_device(copy_graph, monkeypatch):
    monkeypatch.setenv("OPENDPU_DEVICE", "nothing")
    with pytest.raises(UnsupportedError, match="no device is called 'nothing'"):
        vitis_ai_library.GraphRunner.create_graph_runner(graph=copy_graph)


def test_an_unknown_job(copy_graph, fake_device):
    runner = vitis_ai_library.GraphRunner.create_graph_runner(copy_graph, device=fake_device)
    with pytest.raises(DPUError, match="job 7 is unknown"):
        runner.wait((7, 0))
