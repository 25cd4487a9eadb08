# SPDX-License-Identifier: Apache-2.0
"""Markers in modules: they say what is quantized, and compute nothing."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import torch_nets as nets  # noqa: E402
from frameworks.torch_nets import seeded  # noqa: E402

from opendpu.frontend.pytorch import trace  # noqa: E402
from opendpu.frontend.pytorch.markers import mark  # noqa: E402


def test_what_is_between_is_quantized():
    found = trace(seeded(nets.Partial(), 3), torch.randn(2, 3, 12, 12))
    kinds = [node.kind for node in found.graph if node.kind not in ("const", "data")]
    assert kinds == ["conv2d", "relu", "conv2d", "tanh", "conv2d"]
    assert found.floating.ops == {"x", "middle", "tanh"}
    assert found.floating.results == {"middle"}  # the others are quantized for what follows


def test_without_stubs_all_but_marked_parts_are_quantized():
    class Net(torch.nn.Module):
        def forward(self, x):
            y = mark("float_end", torch.sin(mark("float_begin", x)) * 2)
            return y + x

    found = trace(Net(), torch.randn(2, 5))
    assert found.floating.ops == {"sin", "mul"}
    assert found.floating.results == {"sin"}
    assert [n.name for n in found.graph if n.kind not in ("const", "data")][-1] == "add"


def test_gradients_pass():
    x = torch.randn(3, requires_grad=True)
    (mark("quant_stub", x) * 2).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))
