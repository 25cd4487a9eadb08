# SPDX-License-Identifier: Apache-2.0
"""Operators that PyTorch's ONNX exporter does not convert, or wrongly: results are PyTorch's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from opendpu.frontend.pytorch import trace  # noqa: E402
from opendpu.ops.session import Session  # noqa: E402


class Call(torch.nn.Module):
    """A function of twice the input, as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(2 * x)


def check(module, x):
    graph = trace(module, x).graph
    order = graph.attrs.get("onnx_order", {})
    (name,) = [node.name for node in graph if node.kind == "data"]
    given = x.numpy().transpose(order[name]) if name in order else x.numpy()
    (found,) = Session(graph).run({name: np.ascontiguousarray(given)}).values()
    (result,) = graph.outputs
    if result in order:
        found = found.transpose(np.argsort(order[result]))
    wanted = module(x).detach().numpy()
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5)
    assert np.any(wanted)


@pytest.mark.parametrize(
    ("bias", "settings"),
    [
        (False, {}),
        (False, {"padding": 1, "stride": 2}),
        (False, {"padding": (0, 1, 2), "dilation": (1, 2, 1), "groups": 2}),
        (False, {"padding": "same"}),
        (True, {"padding": 1, "stride": (1, 2, 1)}),
    ],
)
def test_convolutions_of_three_axes(bias, settings, rng):
    torch.manual_seed(int(rng.integers(1 << 31)))
    net = torch.nn.Conv3d(2, 4, 3, bias=bias, **settings).eval()
    check(net, torch.randn(1, 2, 5, 6, 7))
    check(torch.nn.Sequential(net, torch.nn.BatchNorm3d(4), torch.nn.ReLU()).eval(),
          torch.randn(1, 2, 5, 6, 7))  # fmt: skip


@pytest.mark.parametrize("name", ["amax", "amin"])
@pytest.mark.parametrize(
    "settings", [{}, {"dim": 1}, {"dim": (2, 3), "keepdim": True}, {"dim": -1}]
)
def test_largest_and_smallest(name, settings):
    check(Call(lambda x: getattr(x, name)(**settings) + 1), torch.randn(1, 3, 4, 5))


def test_axes_that_cannot_be_left_out_stay():
    torch.manual_seed(0)
    check(Call(lambda x: x.squeeze(-1) + x.squeeze(2)), torch.randn(1, 5, 4, 3))
    check(Call(lambda x: x.squeeze(-1) * x.mean((1, 2, 3)).squeeze(-1)), torch.randn(1, 5, 4, 1))
