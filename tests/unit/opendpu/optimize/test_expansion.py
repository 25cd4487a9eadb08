# SPDX-License-Identifier: Apache-2.0
"""Networks with zero channels more: multiples everywhere, and what they compute stays."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")

from prunable_nets import NETWORKS, Mixing, settled  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from opendpu.optimize.expansion import expandable, expanded  # noqa: E402


class Joined(nn.Module):
    """A concatenation with one branch twice, a flatten behind it, and one that is split."""

    size = (2, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Conv2d(3, 6, 3), nn.Conv2d(3, 9, 3)
        self.bn = nn.BatchNorm2d(21)
        self.split = nn.Conv2d(21, 10, 3)
        self.last = nn.Conv2d(5, 7, 3, bias=False)
        self.fc = nn.Linear(28, 5)

    def forward(self, x):
        left, right = self.left(x), self.right(x)
        first, second = self.split(F.relu(self.bn(torch.cat([left, right, left], 1)))).chunk(2, 1)
        return self.fc(self.last(torch.sigmoid(first * second)).flatten(1))


def made(model, multiple, excludes=()):
    """Return a network filled up, with what was found out about it."""
    x = torch.randn(model.size)
    found, added = expandable(model, x, multiple, excludes)
    larger = expanded(model, found, added)
    wanted, result = model(x), larger(x)
    torch.testing.assert_close(result[:, : wanted.shape[1]], wanted, rtol=1e-4, atol=1e-5)
    assert not result[:, wanted.shape[1] :].any()
    return larger, found, added


@pytest.mark.parametrize("network", [*NETWORKS, Joined])
@pytest.mark.parametrize("multiple", [5, 32])
def test_a_network_with_more_channels_computes_what_it_did(network, multiple, seed):
    larger, found, added = made(settled(network()), multiple)
    layers = dict(larger.named_modules())
    filled = [layers[name] for name in found.groups if isinstance(layers[name], nn.Conv2d)]
    assert added
    assert all(layer.out_channels % multiple == 0 for layer in filled)


def test_what_is_read_in_parts_stays_with_the_reason(seed):
    larger, found, added = made(settled(Joined()), 8)
    assert added == {"left": 2, "right": 7, "last": 1}
    assert "not all of them" in found.kept["split"]
    assert larger.split.in_channels == larger.bn.num_features == 8 + 16 + 8
    assert larger.fc.in_features == 8 * 4


def test_means_over_channels_stay_with_the_reason(seed):
    _, found, added = made(settled(Mixing()), 16)
    assert set(added) == {"free", "last"}
    assert "computes something else" in found.kept["mixed"]


def test_layers_are_left_out(seed):
    _, found, added = made(settled(Mixing()), 16, ["free"])
    assert set(added) == {"last"}
    assert "excluded" in found.kept["free"]
