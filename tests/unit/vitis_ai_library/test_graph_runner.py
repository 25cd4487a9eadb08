# SPDX-License-Identifier: Apache-2.0
"""Whole graphs through AMD's Python module, on a graph that copies."""

import numpy as np
import pytest

import opendpu.runtime
import vart
import vitis_ai_library
import xir
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


def test_many_jobs_with_arrays_for_lists_are_waited_for_in_any_order(copy_graph, fake_device):
    """As a forecast does it: a sample and a row of the results for each, jobs in a set."""
    runner = vitis_ai_library.GraphRunner.create_graph_runner(copy_graph, device=fake_device)
    scale = np.float32(2 ** runner.get_input_tensors()[0].get_attr("fix_point"))
    samples = np.random.default_rng(5).integers(-128, 128, (300, 1, 2, 3, 4)) / scale
    results = np.zeros((300, 1, 2, 3, 4), np.float32)
    jobs = {
        runner.execute_async(sample, result)
        for sample, result in zip(samples.astype(np.float32), results, strict=True)
    }
    assert len(jobs) == 300
    assert {runner.wait(job) for job in jobs} == {0}
    np.testing.assert_array_equal(results, samples)


def test_an_unknown_job(copy_graph, fake_device):
    runner = vitis_ai_library.GraphRunner.create_graph_runner(copy_graph, device=fake_device)
    with pytest.raises(DPUError, match="job 7 is unknown"):
        runner.wait((7, 0))


def test_inputs_are_in_amds_order_and_outputs_by_name():
    """AMD's PointPillars samples take the second input of the model for the first."""
    graph = xir.Graph("two")
    ops = {}
    for name in ("pillars", "voxels", "anchors"):
        ops[name] = graph.create_op(name, "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    for name, source in zip("ba", ("pillars", "voxels"), strict=True):
        ops[name] = graph.create_op(name, "relu", {}, {"input": [ops[source]]})
    ops["c"] = graph.create_op("c", "relu", {}, {"input": [ops["anchors"]]})
    root = graph.get_root_subgraph()
    root.split([(name, [op]) for name, op in ops.items()])
    for child in root.get_children():
        child.set_attr("device", "CPU" if child.get_name() in "abc" else "USER")
    for runner in (
        vitis_ai_library.GraphRunner.create_graph_runner(graph),
        vart.RunnerExt.create_runner(root, "run"),
    ):
        found = [tensor.name for tensor in runner.get_input_tensors()]
        assert found == ["anchors", "voxels", "pillars"]
        assert [buffer.get_tensor().name for buffer in runner.get_inputs()] == found
        assert [tensor.name for tensor in runner.get_output_tensors()] == ["a", "b", "c"]
        inputs, outputs = runner.get_inputs(), runner.get_outputs()
        for number, buffer in enumerate(inputs):
            buffer[...] = number
        runner.wait(runner.execute_async(inputs, outputs))
        assert [int(np.asarray(buffer)[0, 0]) for buffer in outputs] == [1, 2, 0]
    by_name = [t.name for t in opendpu.runtime.GraphRunner(graph).get_input_tensors()]
    assert by_name == ["anchors", "pillars", "voxels"]


def test_a_graph_that_ends_on_the_dpu_gives_real_numbers(copy_graph, fake_device, image):
    """AMD's compiler leaves the last step to the CPU, and programs read floats."""
    (download,) = [op for op in copy_graph.get_ops() if op.get_type() == "download"]
    copy_graph.set_attr("return_ops", [download.get_name()])
    runner = vitis_ai_library.GraphRunner.create_graph_runner(copy_graph, device=fake_device)
    (output,) = runner.get_outputs()
    own = download.get_output_tensor()
    told = output.get_tensor()
    assert (told.name, told.dims, told.dtype) == (f"{own.name}_", own.dims, "float32")
    assert not told.has_attr("fix_point")
    runner.wait(runner.execute_async([image], [output]))
    expected = image / np.float32(2 ** own.get_attr("fix_point"))
    np.testing.assert_array_equal(np.asarray(output), expected)
    integers = np.zeros(own.dims, np.int8)
    runner.wait(runner.execute_async([image], [integers]))
    np.testing.assert_array_equal(integers, image)
    ours = opendpu.runtime.GraphRunner(copy_graph, device=fake_device)
    assert [tensor.dtype for tensor in ours.get_output_tensors()] == ["xint8"]
