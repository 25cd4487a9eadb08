# SPDX-License-Identifier: Apache-2.0
"""Device ``ref``: results of compiled subgraphs, computed from their ops."""

import threading

import numpy as np
import pytest
from oracle import evaluate_quantized

import xir
from opendpu.compiler.pipeline import compile
from opendpu.ir import Quantization, QuantizedGraph
from opendpu.runtime import GraphRunner, Runner
from opendpu.runtime.device import Job
from opendpu.runtime.program import Program, dpu_subgraphs
from opendpu.runtime.reference import ReferenceDevice
from opendpu_arch.errors import GraphError, ModelFormatError, UnsupportedError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def layered(kind: str = "conv2d", **attrs: object) -> QuantizedGraph:
    """Return one layer with weights."""
    noise = np.random.default_rng(11)
    graph = QuantizedGraph("net")
    graph.add("x", "data", (1, 8, 8, 6))

    def fix(name: str, point: int) -> str:
        return graph.add_fix(f"{name}_fix", name, Quantization.power_of_two(point)).name

    def const(name: str, *shape: int) -> str:
        graph.add(name, "const", shape, value=noise.normal(size=shape).astype(np.float32))
        return fix(name, 6)

    given = {"input": [fix("x", 4)], "weights": [const("w", 4, 3, 3, 6)], "bias": [const("b", 4)]}
    values = {"kernel": [3, 3], "stride": [2, 2], "pad": [1] * 4, "pad_mode": "FLOOR", **attrs}
    size = {"conv2d": 4, "transposed-conv2d": 15}[kind]
    if "dilation" in attrs:
        size = 6
    graph.add("y", kind, (1, size, size, 4), given, values)
    graph.outputs = [fix("y", 2)]
    return graph


LAYERS = {
    "plain": (layered(), set()),
    "dilated": (layered(stride=[1, 1], dilation=[2, 2]), set()),
    "transposed": (layered("transposed-conv2d"), {4 * 3 * 3 * 6, 4}),
}
"""Graphs, and the sizes of the constants that their segment has not as they are."""


@pytest.mark.parametrize("name", LAYERS)
def test_constants_come_from_the_segment_or_stay_in_the_op(rng, name):
    graph, stays = LAYERS[name]
    image = rng.integers(-128, 128, (1, 8, 8, 6), np.int8)
    made = xir.Graph.from_bytes(compile(graph, TARGET).to_bytes())
    with GraphRunner(made, device=ReferenceDevice(TARGET)) as runner:
        (found,) = runner.run([image]).values()
    np.testing.assert_array_equal(found, evaluate_quantized(graph, {"x": image})["y_fix"])
    held = {op.get_name(): len(op.get_attr("data")) for op in made.get_ops()
            if op.get_type() == "const-fix"}  # fmt: skip
    assert {size for size in held.values() if size} == stays


def test_jobs_at_the_same_time(rng):
    graph = LAYERS["plain"][0]
    (subgraph,) = dpu_subgraphs(compile(graph, TARGET))
    images = rng.integers(-128, 128, (16, 1, 8, 8, 6), np.int8)
    wanted = evaluate_quantized(graph, {"x": images[:, 0]})["y_fix"]
    results: dict[int, np.ndarray] = {}
    with Runner(subgraph, device=ReferenceDevice(TARGET)) as runner:

        def work(number: int) -> None:
            (results[number],) = runner.run([images[number]]).values()

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(images))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert runner.last_statistics.device == "ref"
    for number, found in results.items():
        np.testing.assert_array_equal(found[0], wanted[number])


def test_strided_tensors(copy_subgraph, image):
    with Runner(copy_subgraph, device=ReferenceDevice(Target.from_name("B64"))) as runner:
        np.testing.assert_array_equal(runner.run([image])["y"], image)


def test_a_job_without_its_subgraph(copy_subgraph):
    program = Program.from_subgraph(copy_subgraph)
    with pytest.raises(UnsupportedError, match="device 'ref' computes the ops of a subgraph, but"):
        ReferenceDevice(TARGET).run(Job(program.code, {}))


def test_constants_that_are_nowhere():
    (subgraph,) = dpu_subgraphs(compile(LAYERS["plain"][0], TARGET))
    (weights,) = (op for op in subgraph.get_ops() if op.get_name().startswith("w"))
    weights.get_output_tensor().set_attr("ddr_addr", 1 << 20)
    with (
        Runner(subgraph, device=ReferenceDevice(TARGET)) as runner,
        pytest.raises(
            ModelFormatError, match=r"constant 'w_fix' is at 1048576..1048792, but its se"
        ),
    ):
        runner.run([np.zeros((1, 8, 8, 6), np.int8)])


def test_constants_on_each_other():
    """As files say whose transposed convolutions were compiled before constants stayed in ops."""
    (subgraph,) = dpu_subgraphs(compile(LAYERS["plain"][0], TARGET))
    for op in subgraph.get_ops():
        if op.get_type() == "const-fix":
            op.get_output_tensor().set_attr("ddr_addr", 0)
    with (
        Runner(subgraph, device=ReferenceDevice(TARGET)) as runner,
        pytest.raises(
            ModelFormatError, match=r"'b_fix' at 0\.\.4 and 'w_fix' at 0\.\.216 lie on each"
        ),
    ):
        runner.run([np.zeros((1, 8, 8, 6), np.int8)])


@pytest.mark.parametrize("value", [{}, [1], float("nan"), "x", 1 << 40])
@pytest.mark.parametrize("attribute", ["reg_id", "ddr_addr", "fix_point"])
def test_attributes_that_a_program_has_changed_to_what_nothing_reads(attribute, value):
    (subgraph,) = dpu_subgraphs(compile(LAYERS["plain"][0], TARGET))
    weights = next(op for op in subgraph.get_ops() if op.get_type() == "const-fix")
    weights.get_output_tensor().set_attr(attribute, value)
    runner = Runner(subgraph, device="ref")
    with pytest.raises(GraphError, match=f"tensor .*: attribute '{attribute}' is"):
        runner.run({"x": np.zeros((1, 8, 8, 6), np.int8)})


def test_an_op_that_gives_other_dimensions():
    (subgraph,) = dpu_subgraphs(compile(LAYERS["plain"][0], TARGET))
    layer = next(op for op in subgraph.get_ops() if op.get_type() == "conv2d-fix")
    layer.set_attr("stride", [1, 2])
    runner = Runner(subgraph, device="ref")
    with pytest.raises(ModelFormatError, match=r"has dimensions \[1, 4, 4, 4\], but its op gives"):
        runner.run([np.zeros((1, 8, 8, 6), np.int8)])


def test_a_result_among_the_constants():
    (subgraph,) = dpu_subgraphs(compile(LAYERS["plain"][0], TARGET))
    (result,) = subgraph.get_output_tensors()
    result.producer.get_input_ops_list()[0].get_output_tensor().set_attr("reg_id", 0)
    result.set_attr("reg_id", 0).set_attr("ddr_addr", 0)
    with pytest.raises(ModelFormatError, match="is in REG_0, but that is constant"):
        Runner(subgraph, device="ref")
