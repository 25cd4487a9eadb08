# SPDX-License-Identifier: Apache-2.0
"""Whole graphs, CPU subgraphs, custom ops and batches."""

import sys
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import xir
from opendpu.runtime import CpuRunner, GraphRunner, Runner, cpu
from opendpu.runtime.batch import run_batch
from opendpu_arch.errors import BusError, DPUError, GraphError, TensorError, UnsupportedError


def custom_graph(kind: str) -> xir.Graph:
    graph = xir.Graph("custom")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    two = graph.create_const_op("two", np.full(4, 2, np.float32))
    attrs = {"shape": [1, 4], "data_type": "FLOAT32"}
    y = graph.create_op("y", kind, attrs, {"input": [x, two]})
    graph.create_op("z", "relu", {}, {"input": [y]})
    return graph


ONES = np.ones((1, 4), np.float32)


def test_a_graph_on_both_devices(copy_graph, fake_device, image):
    with GraphRunner(copy_graph, device=fake_device) as runner:
        assert [t.name for t in runner.get_input_tensors()] == ["x"]
        assert [t.name for t in runner.get_output_tensors()] == ["z"]
        output = np.zeros(image.shape, np.float32)
        job = runner.execute_async([image], [output])
        assert runner.wait(job) == 0
        assert (output == image / 4).all()
        assert (runner.run({"x": image})["z"] == output).all()
        statistics = runner.statistics(job)
        assert statistics.subgraphs["subgraph_y"].device == "fake"
        assert statistics.cycles == 1
        assert runner.last_statistics.cycles == 2
        assert statistics.as_dict()["subgraph_y"]["cycles"] == 1
    assert fake_device.closed == 0


def test_float_input_of_a_graph_is_rounded_and_saturates(copy_graph, fake_device, image):
    floats = (image / 4).astype(np.float32)
    floats[0, 0, 0] = [0.124, 0.125, -0.125, -0.126]
    floats[0, 0, 1] = [100, -100, 31.7, -0.4]
    expected = floats.copy()
    expected[0, 0, 0] = [0, 0.25, 0, -0.25]
    expected[0, 0, 1] = [31.75, -32, 31.75, -0.5]
    with GraphRunner(copy_graph, device=fake_device) as runner:
        assert (runner.run([floats])["z"] == expected).all()
        floats[0, 0, 0, 0] = np.inf
        with pytest.raises(TensorError, match="input 'x': float32 values are not all finite"):
            runner.run([floats])


def test_arrays_are_checked(copy_graph, fake_device, image):
    with GraphRunner(copy_graph, device=fake_device) as runner:
        with pytest.raises(TensorError, match="input 'x' has dtype int16, but must be int8 or flo"):
            runner.run([image.astype(np.int16)])
        output = np.zeros(image.shape, np.int8)
        with pytest.raises(TensorError, match="output 'z' has dtype int8, but must be float32"):
            runner.execute_async([image], [output])


def test_a_failure_in_the_device_surfaces(copy_graph, fake_device, image):
    def fail(_job):
        raise BusError("broken")

    fake_device.work = fail
    with GraphRunner(copy_graph, device=fake_device) as runner:
        job = runner.execute_async([image], [np.zeros(image.shape, np.float32)])
        with pytest.raises(BusError, match="broken"):
            runner.wait(job)


def test_graphs_without_devices_run_on_the_cpu():
    graph = custom_graph("add")
    with GraphRunner(graph) as runner:
        assert runner.run([ONES])["z"].tolist() == [[3, 3, 3, 3]]
        assert runner.last_statistics.cycles == 0


def test_return_ops_choose_the_outputs():
    graph = custom_graph("add")
    graph.set_attr("return_ops", ["z", "y"])
    with GraphRunner(graph) as runner:
        assert list(runner.run([-3 * ONES])) == ["y", "z"]
    graph.set_attr("return_ops", ["ghost"])
    with pytest.raises(GraphError, match="graph 'custom' has no op 'ghost', a return op"):
        GraphRunner(graph)


def test_unknown_ops_are_named_with_what_to_do():
    message = (
        r"op 'y' has type 'Strange', which the CPU cannot compute; register it with "
        r"opendpu\.runtime\.cpu\.register\('Strange'\), or put a class Strange with "
        r"calculate\(self, output, input\) into vart_op_imp/Strange\.py"
    )
    with pytest.raises(UnsupportedError, match=message):
        GraphRunner(custom_graph("Strange"))
    with pytest.raises(UnsupportedError, match=message):
        CpuRunner(custom_graph("Strange").get_root_subgraph())
    with pytest.raises(UnsupportedError, match="has type 'not-a-name', which the CPU cannot"):
        GraphRunner(custom_graph("not-a-name"))


def test_an_unsupported_graph_leaves_no_device_open(copy_graph, monkeypatch, fake_device):
    graph = copy_graph
    last = graph.get_op("z")
    attrs = {"shape": [1, 2, 3, 4], "data_type": "FLOAT32"}
    leaf = graph.get_leaf_subgraph(last)
    graph.create_op("strange", "Strange", attrs, {"input": [last]}, leaf.get_parent())
    monkeypatch.setattr("opendpu.runtime.runner.open_device", lambda *_a, **_k: fake_device)
    with pytest.raises(UnsupportedError, match="'Strange'"):
        GraphRunner(graph)
    assert fake_device.closed == 1


def test_ops_registered_as_functions():
    @cpu.register("Twice", "TwiceToo")
    def twice(op: xir.Op, inputs):
        assert op.get_type() == "TwiceToo"
        return inputs[0] * inputs[1]

    try:
        with GraphRunner(custom_graph("TwiceToo")) as runner:
            assert runner.run([ONES * 3])["z"].tolist() == [[6, 6, 6, 6]]
        assert "Twice" in cpu.registered()
    finally:
        cpu.unregister("Twice")
        cpu.unregister("TwiceToo")


def test_ops_found_as_vart_finds_them(tmp_path, monkeypatch):
    package = tmp_path / "vart_op_imp"
    package.mkdir()
    (package / "PlusTwo.py").write_text(
        "import numpy as np\n"
        "class PlusTwo:\n"
        "    def __init__(self, op):\n"
        "        self.shape = op.get_attr('shape')\n"
        "    def calculate(self, output, input):\n"
        "        np_input = np.array(input[0], copy=False)\n"
        "        np.asarray(output)[...] = np_input.reshape(self.shape) + input[1]\n"
    )
    (package / "Broken.py").write_text("import missing_module_of_this_op\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with GraphRunner(custom_graph("PlusTwo")) as runner:
            assert runner.run([ONES])["z"].tolist() == [[3, 3, 3, 3]]
        with pytest.raises(ModuleNotFoundError, match="missing_module_of_this_op"):
            GraphRunner(custom_graph("Broken"))
    finally:
        cpu.unregister("PlusTwo")
        for name in [name for name in sys.modules if name.startswith("vart_op_imp")]:
            del sys.modules[name]


def test_results_of_the_wrong_shape_are_refused():
    cpu.register("Wrong")(lambda _op, inputs: inputs[0][0])
    try:
        with (
            GraphRunner(custom_graph("Wrong")) as runner,
            pytest.raises(
                GraphError, match=r"'y' \(Wrong\) gave dimensions \[4\], but .* has \[1, 4\]"
            ),
        ):
            runner.run([ONES])
    finally:
        cpu.unregister("Wrong")


def test_a_failing_implementation_is_named():
    def fail(_op, _inputs):
        raise ZeroDivisionError("oops")

    cpu.register("Fails")(fail)
    try:
        with GraphRunner(custom_graph("Fails")) as runner:
            with pytest.raises(ZeroDivisionError, match="oops") as raised:
                runner.run([ONES])
            assert raised.value.__notes__ == ["while computing op 'y' (Fails)"]
    finally:
        cpu.unregister("Fails")


def test_many_jobs_of_a_graph_at_once(copy_graph, rng):
    images = rng.integers(-128, 128, (40, 1, 2, 3, 4)).astype(np.int8)
    outputs = np.zeros(images.shape, np.float32)
    with GraphRunner(copy_graph, device="iss") as runner:

        def work(part: range) -> None:
            jobs = [runner.execute_async([images[i]], [outputs[i]]) for i in part]
            for job in jobs:
                runner.wait(job)

        threads = [threading.Thread(target=work, args=(range(i, 40, 2),)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (outputs == images / 4).all()


def test_cpu_runner(copy_graph):
    cpu_part = copy_graph.get_root_subgraph().get_children()[2]
    values = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    with CpuRunner(cpu_part) as runner:
        assert [t.name for t in runner.get_input_tensors()] == ["y"]
        assert (runner.run({"y": values})["z"] == values / 4).all()
        assert runner.last_statistics.device == "cpu"
    with pytest.raises(DPUError, match="the runner is closed"):
        runner.run([values])


@pytest.mark.parametrize("whole", [True, False])
def test_batches(copy_graph, copy_subgraph, fake_device, rng, whole):
    images = rng.integers(-128, 128, (20, 1, 2, 3, 4)).astype(np.int8)
    make = GraphRunner if whole else Runner
    with make(copy_graph if whole else copy_subgraph, device=fake_device) as runner:
        name = "z" if whole else "y"
        expected = images / 4 if whole else images
        outputs, statistics = run_batch(runner, {"x": images})
        assert list(outputs) == [name]
        assert (outputs[name] == expected).all()
        assert len(statistics) == 20
        assert statistics[0]["subgraph_y"]["device"] == "fake"
        outputs, statistics = run_batch(runner, {"x": images[:, 0]})
        assert (outputs[name] == expected[:, 0]).all()
        assert len(statistics) == 20
        outputs, statistics = run_batch(runner, {"x": images[3]})
        assert (outputs[name] == expected[3]).all()
        assert len(statistics) == 1


def test_batches_that_do_not_fit(copy_graph, fake_device, image):
    with GraphRunner(copy_graph, device=fake_device) as runner:
        with pytest.raises(TensorError, match="unknown input 'foo'; needed: x"):
            run_batch(runner, {"foo": image})
        with pytest.raises(TensorError, match="input 'x' is missing; needed: x"):
            run_batch(runner, {})
        with pytest.raises(TensorError, match=r"'x' has shape \(0, 1, 2, 3, 4\), which is no job"):
            run_batch(runner, {"x": np.zeros((0, 1, 2, 3, 4), np.int8)})
        with pytest.raises(TensorError, match=r"input 'x' has shape \(1, 9\), but must be"):
            run_batch(runner, {"x": np.zeros((1, 9), np.int8)})


def test_batches_of_different_sizes():
    graph = custom_graph("add")
    w = graph.create_op("w", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    graph.create_op("v", "mul", {}, {"input": [w, graph.get_op("z")]})
    with GraphRunner(graph) as runner:
        with pytest.raises(TensorError, match="same number of jobs, but are 'w' for 3, 'x' for 2"):
            run_batch(runner, {"w": np.ones((3, 1, 4), np.float32), "x": np.ones((2, 1, 4))})
        with pytest.raises(TensorError, match="but are 'w' for None, 'x' for 2"):
            run_batch(runner, {"w": np.ones((1, 4), np.float32), "x": np.ones((2, 1, 4))})


def places_graph() -> xir.Graph:
    """Return a graph that gives the places of what is not zero."""
    nodes = [helper.make_node("NonZero", ["x"], ["y"])]
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("y", TensorProto.INT64, [2, "found"]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "places", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=9,
    )  # fmt: skip
    graph = xir.Graph("places")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    attrs = {"shape": [2, 1], "data_type": "INT64", "model": model.SerializeToString(),
             "call": "places", "output": 0, "dynamic_axes": [1]}  # fmt: skip
    graph.create_op("y", "onnx", attrs, {"input": [x]})
    return graph


def test_outputs_are_as_large_as_they_become():
    with GraphRunner(places_graph()) as runner:
        (tensor,) = runner.get_output_tensors()
        for count in range(5):
            x = (np.arange(4) < count).astype(np.float32)[None]
            wanted = [[0] * count, list(range(count))]
            assert runner.run({"x": x})[tensor.name].tolist() == wanted
            found, _ = run_batch(runner, {"x": x})
            assert found[tensor.name].tolist() == wanted
        job = runner.execute_async({"x": ONES}, {tensor.name: np.zeros((2, 1), np.int64)})
        with pytest.raises(TensorError, match=r"'y' has shape \(2, 4\) .* its array has \(2, 1\)"):
            runner.wait(job)
        two = np.concatenate([ONES, ONES])
        assert run_batch(runner, {"x": two[:, None]})[0][tensor.name].shape == (2, 2, 4)
        two[1, 0] = 0
        with pytest.raises(TensorError, match=r"shape \(2, 3\), \(2, 4\) .* of 2 jobs cannot be"):
            run_batch(runner, {"x": two})
