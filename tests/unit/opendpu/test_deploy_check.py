# SPDX-License-Identifier: Apache-2.0
"""The deploy check agrees where all is well, and names the layer that was spoilt where not."""

import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu import deploy_check as module
from opendpu.deploy_check import Checked, deploy_check
from opendpu.export import FORMS, to_onnx
from opendpu.frontend import load_onnx
from opendpu.ir import QuantizedGraph
from opendpu.quantize import quantize
from opendpu_arch.target import Target

sys.path.append(str(Path(__file__).parent / "export"))
from export_nets import BODIES, images, network

B512 = Target.from_name("B512")


def quantized(name: str) -> QuantizedGraph:
    return quantize(load_onnx(network(name)), {"image": images(16)}, refinement=False)


def sample(seed: int = 7) -> dict[str, np.ndarray]:
    return {"image": images(1, seed).transpose(0, 2, 3, 1)}


@pytest.mark.parametrize("name", BODIES)
def test_all_opinions_agree(name):
    graph = quantized(name)
    found = deploy_check(graph, sample(), target=B512, exported=to_onnx(graph))
    assert found == [Checked("ref"), Checked("iss"), Checked("file")]
    assert [str(one) for one in found] == ["ref: agrees", "iss: agrees", "file: agrees"]


@pytest.mark.parametrize("form", FORMS)
def test_files_of_every_form(form):
    graph = quantized("residual")
    found = deploy_check(graph, sample(), target=B512, devices=[], exported=to_onnx(graph, form))
    assert found == [Checked("file")]


def test_the_layer_that_a_device_computes_otherwise_is_named(monkeypatch):
    graph = quantized("residual")
    compile_as_usual = module.compile_with_report

    def compile_spoilt(given, target, **options):
        spoilt = given.copy()
        fix = spoilt[spoilt["d"].inputs["weights"][0]]
        weights = spoilt[fix.inputs["input"][0]]
        weights.value = weights.value.copy()
        weights.value[3, 1, 1] = -weights.value[3, 1, 1]
        return compile_as_usual(spoilt, target, **options)

    monkeypatch.setattr(module, "compile_with_report", compile_spoilt)
    (found,) = deploy_check(graph, sample(), target=B512, devices=["iss"])
    assert not found.agrees
    assert found.outputs[0].tensor == "y"
    assert found.first is not None
    assert (found.first.tensor, found.first.kind) == ("d", "conv2d")
    assert 0 < found.first.differing <= found.first.elements == 8 * 9 * 10
    assert str(found).startswith("iss: differs first at d (conv2d, Conv 'd'): ")


def test_a_file_that_rounds_otherwise_is_found():
    graph = quantized("gate")
    found = [
        one
        for seed in range(4)
        for one in deploy_check(
            graph, sample(seed), target=B512, devices=[], exported=to_onnx(graph, exact=False)
        )
    ]
    differing = [one for one in found if not one.agrees]
    assert differing
    assert {one.first.tensor for one in differing if one.first} <= {"c", "h", "m", "y"}
