# SPDX-License-Identifier: Apache-2.0
"""A small network through ``torch.compile``, and what tests look at."""

import pytest
import torch

from wego_torch.network import Network

SHAPE = (3, 8, 8)


class Small(torch.nn.Module):
    """Two convolutions, a normalization and a classifier."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def features(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))

    def forward(self, x):
        return self.last(self.features(x).mean((2, 3)))


@pytest.fixture(autouse=True)
def forgotten():
    """Let TorchDynamo begin anew, without gradients."""
    torch._dynamo.reset()
    with torch.no_grad():
        yield
    torch._dynamo.reset()


@pytest.fixture
def runs(monkeypatch):
    """Return how many samples each call of a compiled network was given."""
    found = []
    run = Network.run
    monkeypatch.setattr(
        Network, "run", lambda self, inputs: found.append(len(inputs[0])) or run(self, inputs)
    )
    return found


def samples(*shape):
    """Return what to calibrate with: more than tests run, and wider, so that nothing saturates."""
    return 1.5 * torch.randn(32, *(shape or SHAPE))


def on_dpu(net, calibration=None, **settings):
    data = samples() if calibration is None else calibration
    options = {"calibration": data, "target": "B512"}
    return torch.compile(net, backend="opendpu", options=options, **settings)


def close(found, wanted):
    """Return whether a result is the float one but for quantization, by 15 dB or more."""
    assert found.shape == wanted.shape
    return 0 < (found - wanted).square().sum() < wanted.square().sum() / 30
