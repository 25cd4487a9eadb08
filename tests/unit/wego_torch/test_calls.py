# SPDX-License-Identifier: Apache-2.0
"""Numbers among arguments, weights that programs write, operators that cannot be converted."""

import logging

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from small_programs import SHAPE, Small, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402

from opendpu.frontend.pytorch import model  # noqa: E402
from wego_torch import messages  # noqa: E402


@pytest.fixture(autouse=True)
def unsaid():
    messages._said.clear()


def test_a_number_by_keyword_that_changes(runs):
    """TorchDynamo makes a tensor without axes of it, from the second value on."""

    class Scaled(Small):
        def forward(self, x, *, scale=1.0):
            return self.last((self.features(x) * scale).mean((2, 3)))

    net = Scaled().eval()
    batches = [{"x": samples(), "scale": scale} for scale in (1.0, 3.0, 2.0)]
    compiled = on_dpu(net, batches)
    x = torch.randn(2, *SHAPE)
    for scale in (1.0, 2.0, 2.5):
        assert close(compiled(x, scale=scale), net(x, scale=scale))
    assert len(runs) >= 3


@pytest.mark.parametrize("inference", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_weights_that_are_written_past_counters(inference, runs):
    """As moving averages of weights are: through ``data``; or in inference mode."""
    with torch.inference_mode(inference):
        net, other, x = Small().eval(), Small().eval(), torch.randn(2, *SHAPE)
        compiled = on_dpu(net)
        assert close(compiled(x), net(x))
        for mine, wanted in zip(net.parameters(), other.parameters(), strict=True):
            mine.data.copy_(wanted.data)
        assert close(compiled(x), other(x))
        net.last.bias.data[2] += 5
        assert close(compiled(x), net(x))
        assert runs == [2, 2, 2]


class Largest(Small):
    def forward(self, x):
        y = self.features(x)
        return self.last(y.mean((2, 3))), y.amax()


def test_an_operator_that_the_exporter_fails_at_stays_in_pytorch(runs, monkeypatch, caplog):
    monkeypatch.setattr(model, "repaired", dict)  # PyTorch's own needs axes
    net, x = Largest().eval(), torch.randn(1, *SHAPE)
    with caplog.at_level(logging.WARNING, "wego_torch"):
        found = on_dpu(net)(x)
    assert all(map(close, found, net(x)))
    assert runs
    assert "aten.amax.default (no counterpart in ONNX)" in caplog.text


def test_the_largest_of_all_is_part_of_the_network(runs, caplog):
    net, x = Largest().eval(), torch.randn(1, *SHAPE)
    assert all(map(close, on_dpu(net)(x), net(x)))
    assert runs
    assert "no counterpart" not in caplog.text


def test_a_graph_that_stays_in_pytorch_says_why(runs, caplog):
    net = torch.nn.Sequential(torch.nn.Conv3d(1, 4, 3, bias=False), torch.nn.ReLU()).eval()
    x = torch.randn(2, 1, 40, 5, 6)
    with caplog.at_level(logging.WARNING, "wego_torch"):
        assert torch.equal(on_dpu(net, torch.randn(4, 1, 40, 5, 6))(x), net(x))
    assert not runs
    (text,) = [one for one in caplog.messages if "no part of it is for the DPU" in one]
    assert "conv3d: input has shape [1, 1, 40, 5, 6], but only 1-D and 2-D feature maps" in text
    assert "nothing of the graph" not in text
