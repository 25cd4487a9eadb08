# SPDX-License-Identifier: Apache-2.0
"""Sizes of networks, beside sums by hand."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")

from torch import nn  # noqa: E402

from pytorch_nndct.utils import profiler, summary  # noqa: E402


class Net(nn.Module):
    """A convolution that is called twice, a depthwise one, a transposed one, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.Conv2d(4, 4, 3, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.larger = nn.ConvTranspose2d(4, 2, 2, stride=2, bias=False)
        self.last = nn.Linear(2, 5)
        self.norm.weight.requires_grad = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.depthwise(self.twice(self.twice(x))))
        return self.last(self.larger(x).mean((2, 3)))


MACS = 2 * 4 * 4 * 9 * 36 + 4 * 9 * 36 + 4 * 2 * 4 * 36 + 2 * 5
BIASES = 2 * 4 * 36 + 5
TRAINED = (4 * 4 * 9 + 4) + 4 * 9 + 4 + 4 * 2 * 4 + (2 * 5 + 5)


@pytest.mark.parametrize("several", [False, True])
def test_multiply_accumulates_and_parameters(several: bool) -> None:
    net, x = Net().train(), torch.randn(1, 4, 6, 6)
    before = net.norm.running_mean.clone()
    given = [x] if several else x
    assert profiler.model_complexity(net, given) == (MACS, TRAINED)
    assert summary.model_complexity is profiler.model_complexity
    assert profiler.model_complexity(net, given, return_flops=True)[0] == 2 * MACS + BIASES
    assert net.training
    assert torch.equal(net.norm.running_mean, before)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = Net(), torch.randn(1, 4, 6, 6)
    assert profiler.model_complexity(net, x, readable=True) == ("12.83K", str(TRAINED))
    assert not capsys.readouterr().out
    profiler.model_complexity(net, x, print_model_analysis=True)
    assert "Conv2d                    2            11664" in capsys.readouterr().out
    assert profiler.model_complexity(nn.Linear(1500, 1000), torch.randn(1, 1500), readable=True)[
        0
    ] == ("1.50M")
