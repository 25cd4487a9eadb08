# SPDX-License-Identifier: Apache-2.0
"""Sums of terms far apart: quantized networks are measured as the DPU computes them."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.api import compile_graph
from opendpu.ops.formats import fake_quantize
from opendpu.ops.session import Session
from opendpu.quantize import quantize
from opendpu.quantize.finetune.blocks import find_blocks
from opendpu.quantize.finetune.examples import collect
from opendpu.quantize.finetune.forward import ForwardPass
from opendpu.quantize.finetune.model import BlockModel
from opendpu.quantize.finetune.rows import as_matrix, form_of
from opendpu.quantize.samples import calibration_samples
from opendpu.runtime import GraphRunner

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples

PLAIN = {"cross_layer": False, "bias_correction": False, "weight_correction": False,
         "refinement": False}  # fmt: skip
"""Nothing but scales."""


def far_apart(*, last="small", read=False, output=False, relu=False):
    """Return a network that adds layers which cancel out and a small one, whose steps count."""
    net = Net()
    for name in sorted(("large", "opposite", "small"), key=lambda name: name == last):
        net.conv(name, "x", 8)
    for kind in "wb":
        net[f"opposite_{kind}"].value = -net[f"large_{kind}"].value
        net[f"small_{kind}"].value /= 64
    ends = [net.put("sum", "add", ["large", "opposite", "small"])]
    if relu:
        ends = [net.put("positive", "relu", ["sum"])]
    if read:
        ends.append(net.conv("reader", "small", 8))
    return net.done(*ends, *(["small"] if output else []))


@pytest.mark.parametrize("other", [{}, {"read": True}, {"output": True}, {"relu": True}])
@pytest.mark.parametrize("options", [PLAIN, {}])
def test_the_quantized_network_computes_what_the_dpu_does(other, options):
    made = quantize(far_apart(**other), samples(), **options)
    points = [made[name].fix_point for name in made["sum"].inputs["input"]]
    assert points[2] > max(points[:2]) + 2
    given = samples(1, seed=5)
    wanted = Session(made, keep=made.outputs).run(given)
    compiled = compile_graph(made, target="DPUCZDX8G_ISA1_B4096").graph
    with GraphRunner(compiled, device="ref") as runner:
        (port,) = runner.get_input_tensors()
        tensor_of = {op.get_name(): op.get_output_tensor().name for op in compiled.get_ops()}
        points = {t.name: t.get_attr("fix_point") for t in runner.get_output_tensors()}
        found = runner.run({port.name: given["x"]})
    for op, name in zip(compiled.get_attr("return_ops"), made.outputs, strict=True):
        real = np.ldexp(found[tensor_of[op]].astype(np.float32), -points[tensor_of[op]])
        np.testing.assert_array_equal(real.reshape(wanted[name].shape), wanted[name])


@pytest.mark.parametrize("last", ["small", "large"])
def test_layers_are_fitted_to_what_the_sum_behind_them_gives(last):
    """Whether the term that the sum cuts is the layer's own or another one."""
    graph = far_apart(last=last)
    made = quantize(graph, samples(), **PLAIN)
    given = calibration_samples(graph, samples())
    blocks, _ = find_blocks(made, graph)
    block = next(one for one in blocks if one.layer.name == last)
    assert block.cuts == {"small_fix": made["large_fix"].fix_point + 2}
    form = form_of(made, block.layer)
    passes = [ForwardPass(made, given, given.count, size=4, batched=True) for _ in range(2)]
    examples, _ = collect(block, form, *passes, 1 << 12, np.random.default_rng(0))
    constants = [made[f"{last}_{kind}"].value for kind in "wb"]
    weights = as_matrix(form, block.layer, constants[0])
    found = BlockModel(block, form).result(examples, weights, constants[1], exact=True)
    wanted = fake_quantize(examples.wanted, made["sum_fix"].quantization)
    np.testing.assert_array_equal(found, wanted)
