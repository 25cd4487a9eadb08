# SPDX-License-Identifier: Apache-2.0
"""Networks in half, double and mixed precision through ``torch.compile``."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        pytest.param(torch.bfloat16, marks=pytest.mark.slow),
        pytest.param(torch.float64, marks=pytest.mark.slow),
    ],
)
def test_networks_of_other_types_give_results_of_these(dtype, seed, runs):
    net = seeded(Small(), seed).eval()
    images = torch.randn(2, *SHAPE)
    exact = net(images)
    found = on_dpu(net.to(dtype), samples().to(dtype))(images.to(dtype))
    assert found.dtype is dtype
    assert close(found.float(), exact)
    assert runs == [2]


def test_autocast_around_a_program(seed, runs):
    net = seeded(Small(), seed).eval()
    images = torch.randn(2, *SHAPE)
    exact = net(images)
    compiled = on_dpu(net)
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = compiled(images), net(images)
        assert found.dtype is wanted.dtype is torch.bfloat16
    assert close(found.float(), exact)
    found = compiled(images)  # without: another graph, of the same data
    assert found.dtype is torch.float32
    assert close(found, exact)
    assert runs == [2, 2]


def test_autocast_in_a_network(seed, runs):
    class Mixed(Small):
        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x).half()

    net = seeded(Mixed(), seed).eval()
    images = torch.randn(2, *SHAPE)
    found = on_dpu(net)(images)
    assert found.dtype is torch.float16
    assert close(found.float(), Small.forward(net, images))
    assert runs == [2]
