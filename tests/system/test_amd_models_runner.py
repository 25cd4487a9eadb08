# SPDX-License-Identifier: Apache-2.0
"""AMD-compiled models through the drop-in modules, as applications use them."""

import threading

import numpy as np
import pytest

import vart
import vitis_ai_library
import xir
from opendpu import api
from opendpu.runtime import GraphRunner, cpu

pytestmark = pytest.mark.system

FILES = [("dpu_mnist_classifier", 0), ("tf2_custom_op", 0), ("tf2_custom_op", 1)]


def dpu_subgraphs(graph: xir.Graph) -> list[xir.Subgraph]:
    """Find the DPU subgraphs the way applications do."""
    root = graph.get_root_subgraph()
    assert root is not None
    return [
        child
        for child in root.toposort_child_subgraph()
        if child.has_attr("device") and child.get_attr("device").upper() == "DPU"
    ]


@pytest.mark.parametrize("mode", ["run", "ref", "sim"])
@pytest.mark.parametrize(("name", "index"), FILES)
def test_golden_results(models, name, index, mode):
    folder = models / "amd_compiled"
    subgraph = dpu_subgraphs(xir.Graph.deserialize(folder / f"{name}.xmodel"))[index]
    golden = np.load(folder / f"{name}.golden.npz")
    runner = vart.Runner.create_runner(subgraph, mode)
    seeds = sorted({key.split("/")[1] for key in golden.files if key.startswith(f"s{index}/")})
    assert len(seeds) == 3
    jobs = []
    for seed in seeds:
        inputs = [
            golden[f"s{index}/{seed}/in/{t.name}_upload_0"] for t in runner.get_input_tensors()
        ]
        outputs = [np.zeros(t.dims, np.int8) for t in runner.get_output_tensors()]
        jobs.append((runner.execute_async(inputs, outputs), seed, outputs))
    for job, seed, outputs in jobs:
        assert runner.wait(job) == 0
        for tensor, output in zip(runner.get_output_tensors(), outputs, strict=True):
            np.testing.assert_array_equal(output, golden[f"s{index}/{seed}/out/{tensor.name}"])


@pytest.mark.slow
@pytest.mark.cosim
@pytest.mark.parametrize("memory", ["kv260", "ideal", "stall:1"])
@pytest.mark.parametrize(("name", "index"), FILES)
def test_golden_results_on_rtl(models, name, index, memory):
    folder = models / "amd_compiled"
    subgraph = dpu_subgraphs(xir.Graph.deserialize(folder / f"{name}.xmodel"))[index]
    golden = np.load(folder / f"{name}.golden.npz")
    runner = vart.Runner.create_runner(subgraph, "run", device="rtl", memory=memory)
    for seed in ("seed1", "seed2", "seed3"):
        inputs = [
            golden[f"s{index}/{seed}/in/{t.name}_upload_0"] for t in runner.get_input_tensors()
        ]
        outputs = [np.zeros(t.dims, np.int8) for t in runner.get_output_tensors()]
        assert runner.wait(runner.execute_async(inputs, outputs)) == 0
        for tensor, output in zip(runner.get_output_tensors(), outputs, strict=True):
            np.testing.assert_array_equal(output, golden[f"s{index}/{seed}/out/{tensor.name}"])
        assert runner.last_statistics.cycles > 0
        assert runner.last_statistics.memory == memory


def test_the_multi_threaded_example_flow(models, rng):
    """What AMD's multi-threaded Python examples do, on the MNIST classifier."""
    graph = xir.Graph.deserialize(str(models / "amd_compiled/dpu_mnist_classifier.xmodel"))
    subgraphs = dpu_subgraphs(graph)
    assert len(subgraphs) == 1
    runners = [vart.Runner.create_runner(subgraphs[0], "run") for _ in range(3)]
    input_fixpos = runners[0].get_input_tensors()[0].get_attr("fix_point")
    input_scale = 2**input_fixpos
    images = [
        (rng.random((28, 28, 1), np.float32) * 1.9 * input_scale).astype(np.int8) for _ in range(10)
    ]
    count = 20
    results: list[list[np.ndarray]] = [[] for _ in runners]

    def work(number: int, runner: vart.Runner) -> None:
        input_tensors = runner.get_input_tensors()
        output_tensors = runner.get_output_tensors()
        input_ndim = tuple(input_tensors[0].dims)
        output_ndim = tuple(output_tensors[0].dims)
        output_fixpos = output_tensors[0].get_attr("fix_point")
        output_scale = 1 / (2**output_fixpos)
        done = 0
        while done < count:
            run_size = input_ndim[0]
            input_data = [np.empty(input_ndim, dtype=np.int8, order="C")]
            output_data = [np.empty(output_ndim, dtype=np.int8, order="C")]
            for j in range(run_size):
                input_data[0][j, ...] = images[(done + j) % len(images)].reshape(input_ndim[1:])
            job_id = runner.execute_async(input_data, output_data)
            runner.wait(job_id)
            for j in range(run_size):
                scores = np.exp(output_data[0][j].reshape(-1) * output_scale)
                results[number].append(scores / np.sum(scores))
            done += run_size

    threads = [
        threading.Thread(target=work, args=(number, runner))
        for number, runner in enumerate(runners)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del runners

    with GraphRunner(graph) as whole:
        expected = [whole.run([image[np.newaxis]]) for image in images]
    for answers in results:
        assert len(answers) == count
        for i, answer in enumerate(answers):
            softmax = expected[i % len(images)]["quant_dense_1_softmax"][0]
            np.testing.assert_allclose(answer, softmax, rtol=1e-5, atol=1e-12)


class Mylayer:
    """The custom op of the model, in the form VART wants: PReLU."""

    def __init__(self, op: xir.Op) -> None:
        self.name = op.get_name()

    def calculate(self, output: np.ndarray, inputs: list[np.ndarray]) -> None:
        values, alpha = inputs
        output[...] = np.where(values >= 0, values, values * alpha)


def test_a_model_with_a_custom_op(models, rng):
    graph = api.load(models / "amd_compiled/tf2_custom_op.xmodel")
    image = rng.integers(-128, 128, (1, 28, 28, 1)).astype(np.int8)
    cpu.register_class("Mylayer", Mylayer)
    try:
        with api.create_runner(graph) as runner:
            ((name, scores),) = runner.run([image]).items()
            statistics = runner.last_statistics
    finally:
        cpu.unregister("Mylayer")
    assert list(statistics.subgraphs) == [s.get_name() for s in dpu_subgraphs(graph)]

    first, second = (api.create_runner(graph, subgraph=i) for i in range(2))
    features = first.run([image])["quant_max_pooling2d_1_fix"].astype(np.float32) / 8
    alpha = np.frombuffer(
        graph.get_op("custom_layer/p_re_lu_9/alpha:0_const").get_attr("data"), "<f4"
    ).reshape(2, 2, 64)
    custom = np.where(features >= 0, features, features * alpha)
    fixed = np.clip(np.floor(custom * 8 + 0.5), -128, 127).astype(np.int8)
    expected = second.run([fixed])["quant_dense_sigmoid_sigmoid_fix"] / np.float32(128)
    assert name == "quant_dense_sigmoid_sigmoid_fix_"
    np.testing.assert_array_equal(scores, expected)


def test_the_graph_runner_example_flow(models, rng):
    """What AMD's Python example of a custom op does, with buffers in and out."""
    graph = xir.Graph.deserialize(str(models / "amd_compiled/tf2_custom_op.xmodel"))
    image = rng.integers(0, 128, (28, 28, 1)).astype(np.int8)
    cpu.register_class("Mylayer", Mylayer)
    try:
        with GraphRunner(graph) as whole:
            ((_, expected),) = whole.run([image[np.newaxis]]).items()
        runner = vitis_ai_library.GraphRunner.create_graph_runner(graph)
        inputs, outputs = runner.get_inputs(), runner.get_outputs()
        for i in range(inputs[0].get_tensor().dims[0]):
            np.asarray(inputs[0])[i][:] = image
        runner.wait(runner.execute_async(inputs, outputs))
    finally:
        cpu.unregister("Mylayer")
    assert outputs[0].get_tensor().get_element_num() == 10
    np.testing.assert_array_equal(np.array(outputs[0]), expected)


@pytest.mark.parametrize(("name", "index"), FILES)
def test_the_cpus_fixed_point_ops_agree_with_amd(models, name, index):
    """The same subgraphs op by op, with the weights out of the program's constants."""
    folder = models / "amd_compiled"
    subgraph = dpu_subgraphs(xir.Graph.deserialize(folder / f"{name}.xmodel"))[index]
    golden = np.load(folder / f"{name}.golden.npz")
    constants = subgraph.get_attr("reg_id_to_parameter_value")["REG_0"]
    values = {}
    for op in subgraph.toposort():
        tensor = op.get_output_tensor()
        if op.get_type() == "const-fix":
            start = tensor.get_attr("ddr_addr")
            data = constants[start : start + tensor.get_data_size()]
            values[tensor.name] = np.frombuffer(data, np.int8).reshape(tensor.dims)
    computed = 0
    for seed in ("seed1", "seed2", "seed3"):
        found = dict(values)
        for op in subgraph.toposort():
            tensor = op.get_output_tensor()
            if op.get_type() == "upload":
                found[tensor.name] = golden[f"s{index}/{seed}/in/{tensor.name}"]
            elif op.get_type() != "const-fix":
                inputs = [found[given.name] for given in op.get_input_tensors()]
                found[tensor.name] = cpu.evaluate(op, inputs)
                computed += 1
        for tensor in subgraph.get_output_tensors():
            expected = golden[f"s{index}/{seed}/out/{tensor.name}"]
            np.testing.assert_array_equal(found[tensor.name], expected)
    assert computed >= 12
