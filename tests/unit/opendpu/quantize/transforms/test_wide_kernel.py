# SPDX-License-Identifier: Apache-2.0
"""Kernels with more than 16 taps along an axis: the same sums, of maps that the DPU takes."""

import dataclasses

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu import api
from opendpu.ir import FloatGraph, to_xir
from opendpu.quantize import quantize_with_report
from opendpu.quantize.transforms.wide_kernel import split_wide_kernels
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target


def network(
    size, channels, kernel, *, stride=(1, 1), dilation=(1, 1), pad=None, mode="FLOOR", group=1
):
    """A small convolution, and one with a wide kernel; all pairs are rows and columns."""
    rng = np.random.default_rng(3)
    net = FloatGraph("wide")
    net.add("x", "data", (1, *size, channels))
    pad = [0, 0, 0, 0] if pad is None else pad
    point = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
    net.add_const("a_w", rng.standard_normal((channels, 1, 1, channels)))
    net.add("a", "conv2d", (1, *size, channels), {"input": ["x"], "weights": ["a_w"]}, point)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padded = [size[0] + pad[2] + pad[3], size[1] + pad[0] + pad[1]]
    made = [(n - r) // s + 1 for n, r, s in zip(padded, reach, stride, strict=True)]
    if mode == "SAME":
        made = [-(-n // s) for n, s in zip(size, stride, strict=True)]
    outputs, each = 6 * group, channels // group
    weights = rng.standard_normal((outputs, *kernel, each)) / np.sqrt(np.prod(kernel) * each)
    net.add_const("b_w", weights)
    net.add_const("b_b", rng.standard_normal(outputs))
    attrs = {"kernel": list(kernel[::-1]), "stride": list(stride[::-1]), "pad": pad,
             "dilation": list(dilation[::-1]), "pad_mode": mode, "group": group}  # fmt: skip
    inputs = {"input": ["a"], "weights": ["b_w"], "bias": ["b_b"]}
    net.add("b", "conv2d", (1, *made, outputs), inputs, attrs)
    net.outputs = ["b"]
    if group > 1:  # what joins groups for an output would be the CPU's
        net.add("c", "relu", (1, *made, outputs), {"input": ["b"]})
        net.outputs = ["c"]
    return net


CASES = {
    "41 taps apart": network((1, 150), 8, (1, 41), dilation=(1, 3), pad=[60, 60, 0, 0]),
    "down": network((90, 1), 4, (21, 1), dilation=(2, 1), pad=[0, 0, 20, 20]),
    "both axes": network((24, 25), 3, (17, 19), pad=[9, 9, 8, 8]),
    "with a stride": network((40, 41), 3, (18, 5), stride=(2, 3), pad=[1, 2, 5, 6]),
    "a sequence with a stride": network((1, 203), 1, (1, 80), stride=(1, 4), pad=[5, 0, 0, 0]),
    "the rest is cut off": network((1, 209), 2, (1, 32), stride=(1, 4)),
    "groups of a few channels": network((1, 90), 24, (1, 128), pad=[64, 64, 0, 0], group=4),
    "groups of many channels": network((1, 50), 40, (1, 20), stride=(1, 2), group=2),
    "same": network((1, 96), 2, (1, 40), stride=(1, 2), mode="SAME"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_sums(case):
    graph = CASES[case].copy()
    x = np.random.default_rng(1).standard_normal((2, *graph["x"].shape[1:])).astype(np.float32)
    (end,) = graph.outputs
    wanted = evaluate_float(graph, {"x": x})[end]
    assert split_wide_kernels(graph, ["b"]) == 0
    assert split_wide_kernels(graph) == 1
    parts = graph["b"].inputs["input"] if graph["b"].kind == "concat" else ["b"]
    for part in parts:
        assert max(graph[part].attrs["kernel"]) <= 16
        assert graph[part].attrs["pad"] == [0, 0, 0, 0]
    np.testing.assert_allclose(evaluate_float(graph, {"x": x})[end], wanted, atol=1e-5)


@pytest.mark.parametrize(
    "case",
    [
        "41 taps apart", "both axes", "a sequence with a stride", "groups of a few channels",
        "groups of many channels",
    ],
)  # fmt: skip
def test_one_part_for_the_dpu(case):
    graph = CASES[case].copy()
    x = np.random.default_rng(1).standard_normal((8, *graph["x"].shape[1:])).astype(np.float32)
    made = quantize_with_report(graph, {"x": x})
    assert made.report.outputs_sqnr[graph.outputs[0]] > 25
    compiled = api.compile_graph(to_xir(made.graph), target="B512")
    report = compiled.report
    assert [part.device for part in report.subgraphs if part.device != "USER"] == ["DPU"]
    assert not report.on_cpu
    results = []
    for device in ("iss", "ref"):
        with GraphRunner(compiled.graph, device=device) as runner:
            results.append(runner.run({"x": x[:1]}))
    for one, other in zip(*(found.values() for found in results), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_would_need_too_many_copies_stays():
    graph = network((70, 70), 2, (65, 65))
    assert split_wide_kernels(graph) == 0
    assert graph["b"].attrs["kernel"] == [65, 65]


def test_what_no_bank_would_hold_stays():
    assert split_wide_kernels(network((24, 24), 64, (17, 17))) == 0
    graph = network((24, 24), 32, (17, 17))
    small = dataclasses.replace(Target.from_name("B4096"), bank_depth=512)
    assert split_wide_kernels(graph, target=small) == 0
    assert split_wide_kernels(graph, target=Target.from_name("B4096")) == 1


def test_groups_share_a_layer_until_its_lanes_are_full():
    graph = CASES["groups of a few channels"].copy()  # four groups of six channels
    split_wide_kernels(graph, target=Target.from_name("B512"))
    assert len(graph["b"].inputs["input"]) == 4
    graph = CASES["groups of a few channels"].copy()
    split_wide_kernels(graph, target=Target.from_name("B4096"))
    assert len(graph["b"].inputs["input"]) == 2
