# SPDX-License-Identifier: Apache-2.0
"""Loops whose rounds are known: what they compute is written out where it is the DPU's."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_text import compare, parse
from test_fallback import kinds, with_weights

BLOCK = """
g (float[1,4,8,8] x) => (float[1,4,8,8] y) {
  y = Loop(m, {condition}, x) <
    body = b (int64 i, bool go, float[1,4,8,8] state) => (bool on, float[1,4,8,8] next) {
      {on} w = Gather(weights, i) a = Conv<pads=[1,1,1,1]>(state, w) next = Relu(a) }
  >
}
"""
"""A convolution with other weights in every round."""

FRAMES = """
g (float[3,2,8,8] x) => (float[N] y, float[N] z) {
  y, z = Loop(m, , x) <
    body = b (int64 i, bool go, float[3,2,8,8] all) =>
             (bool on, float[3,2,8,8] same, float[2,8,8] made) {
      on = Identity(go) same = Identity(all) f = Gather(all, i) f4 = Unsqueeze(f, first)
      a = Conv<pads=[1,1,1,1]>(f4, w) made = Squeeze(a, first) }
  >
}
"""
"""Every frame on its own, side by side in the end."""

LAYERS = """
g (float[5,8] x) => (float[5,8] y, float[N] z) {
  y, z = Scan<num_scan_inputs=1 {options},
    body = b (float[5,8] state, float[8,8] w) => (float[5,8] next, float[5,8] made) {
      p = MatMul(state, w) next = Tanh(p) made = Relu(p) }
  >(x, weights)
}
"""
"""Layers of one form, as JAX folds over them."""

STEPS = """
g (float[6,1,4] x, float[1,4] h) => (float[1,4] y, float[N] z) {
  y, z = Scan<num_scan_inputs=1,
    body = b (float[1,4] state, float[1,4] w) => (float[1,4] next, float[1,4] made) {
      p = MatMul(state, square) s = Add(p, w) next = Tanh(s) made = Identity(next) }
  >(h, x)
}
"""
"""A recurrent layer: one row in every step."""


def model(text, opset=17, **weights):
    return with_weights(parse(text, opset), **weights)


def kernels(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32) * 0.4


@pytest.mark.parametrize("condition", ["", "yes"])
@pytest.mark.parametrize(
    "on", ["on = Identity(go)", "two = Constant<value_int=1>() on = Less(i, two)"]
)
def test_rounds_with_weights_of_their_own(rng, condition, on):
    """The condition of a round may end a loop before the number of rounds does."""
    text = BLOCK.replace("{condition}", condition).replace("{on}", on)
    given = {"m": np.array(3), "weights": kernels(rng, 3, 4, 4, 3, 3)}
    graph = compare(model(text, **given, **({"yes": np.array(True)} if condition else {})), rng)
    assert kinds(graph).count("conv2d") == (3 if on == "on = Identity(go)" else 2)
    assert "onnx" not in kinds(graph)


def test_results_of_all_rounds_are_side_by_side(rng):
    graph = compare(
        model(FRAMES, m=np.array(3), w=kernels(rng, 2, 2, 3, 3), first=np.array([0])), rng
    )
    assert graph["z"].shape == (3, 8, 8, 2)
    assert kinds(graph).count("conv2d") == 3


@pytest.mark.parametrize(
    "options",
    ["", ", scan_input_directions=[1]", ", scan_input_axes=[1]",
     ", scan_output_axes=[1], scan_output_directions=[1]", ", scan_output_axes=[-1]"],
)  # fmt: skip
def test_layers_of_one_form(rng, options):
    graph = compare(model(LAYERS.replace("{options}", options), weights=kernels(rng, 8, 8, 8)), rng)
    assert kinds(graph).count("conv2d") == 8
    assert "onnx" not in kinds(graph)


def test_steps_of_one_row_stay_a_loop(rng):
    """A step waits for the one before; onnxruntime computes it at once."""
    assert kinds(compare(model(STEPS, square=kernels(rng, 4, 4)), rng)) == ["onnx", "onnx"]


def test_rounds_that_are_not_known_stay_a_loop(rng):
    text = BLOCK.replace("{condition}", "").replace("{on}", "on = Identity(go)")
    text = text.replace("x) =>", "x, int64 m) =>", 1)
    weights = kernels(rng, 3, 4, 4, 3, 3)
    for rounds in (0, 3):
        graph = compare(model(text, weights=weights), rng, feeds={"m": np.array(rounds)})
        assert kinds(graph) == ["onnx"]


@pytest.mark.parametrize("rounds", [0, 400])
def test_no_rounds_and_very_many(rng, rounds):
    """Nothing to stack has no shape; thousands of nodes are not written out."""
    given = {"w": kernels(rng, 2, 2, 3, 3), "first": np.array([0])}
    text = FRAMES.replace("Gather(all, i)", "Gather(all, zero)").replace(
        "y, z = Loop", "y, z = Loop"
    )
    graph = compare(model(text, m=np.array(rounds), zero=np.array(0), **given), rng)
    assert "conv2d" not in kinds(graph)


def test_a_list_that_grows_in_a_loop(rng):
    """As TorchScript writes ``append``: a sequence is among the states."""
    frame = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 2, 8, 8])
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]),
         helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
         helper.make_node("SequenceInsert", ["held", "a"], ["more"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_value_info("held", helper.make_sequence_type_proto(frame))],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_value_info("more", helper.make_sequence_type_proto(frame))],
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("SequenceEmpty", [], ["none"]),
         helper.make_node("Loop", ["m", "", "none"], ["list"], body=body),
         helper.make_node("ConcatFromSequence", ["list"], ["y"], axis=1)],
        "g", [helper.make_value_info("x", frame)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with_weights(made, m=np.array(2), w=kernels(rng, 2, 2, 3, 3))
    assert kinds(compare(made, rng)) == ["conv2d", "conv2d", "concat"]
