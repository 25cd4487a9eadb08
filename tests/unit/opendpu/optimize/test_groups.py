# SPDX-License-Identifier: Apache-2.0
"""Dependency groups: what goes together, what has to stay, and that cutting is setting to zero."""

import copy
import dataclasses

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")

from prunable_nets import NETWORKS, Averaged, Branches, Mixing, Plain, Residual, settled  # noqa: E402
from torch import nn  # noqa: E402

from opendpu.optimize.equivalence import tried  # noqa: E402
from opendpu.optimize.groups import analyze, excluded_paths  # noqa: E402
from opendpu.optimize.layers import Shapes, layers_of  # noqa: E402
from opendpu.optimize.objective import Macs, Params  # noqa: E402
from opendpu.optimize.sparse import slim_network, sparse_network  # noqa: E402
from opendpu.optimize.surgery import slim, zero  # noqa: E402
from opendpu.pruning.structure import Dependencies  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402


def drawn(dependencies, rng):
    """Return units to remove: at least one of each group, and not all."""
    return {
        name: sorted(rng.choice(group.units, rng.integers(1, group.units), replace=False).tolist())
        for name, group in dependencies.groups.items()
    }


@pytest.mark.parametrize("network", NETWORKS)
def test_a_slim_network_computes_what_one_with_zeros_does(network, rng, seed):
    model = settled(network())
    x = torch.randn(3, *network.size[1:])
    dependencies = analyze(model, x[:1])
    removed = drawn(dependencies, rng)
    small, sparse = slim(model, dependencies, removed), copy.deepcopy(model)
    zero(sparse, dependencies, removed)
    torch.testing.assert_close(small(x), sparse(x), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(model(x), sparse(x), rtol=1e-3, atol=1e-3)
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("network", NETWORKS)
def test_costs_are_those_of_the_slim_network(network, rng, seed):
    model = settled(network())
    x = torch.randn(network.size)
    dependencies = analyze(model, x)
    removed = drawn(dependencies, rng)
    widths = {n: g.units - len(removed[n]) for n, g in dependencies.groups.items()}
    small = slim(model, dependencies, removed)
    assert Params(model, dependencies).exact(widths) == sum(p.numel() for p in small.parameters())
    macs = Macs(Shapes(dependencies, layers_of(model, x)))
    counted = 0

    def count(module, arguments, result):
        nonlocal counted
        per_output = module.weight[0].numel()
        if isinstance(module, nn.ConvTranspose2d):
            per_output, result = module.weight[0].numel(), arguments[0]
        counted += result[0].numel() * per_output

    for module in small.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            module.register_forward_hook(count)
    small(x)
    assert macs.exact(widths) == counted


def test_what_is_added_is_cut_together():
    dependencies = analyze(Residual(), torch.randn(Residual.size))
    assert set(dependencies.groups) == {"stem", "conv1"}
    group = dependencies.groups["stem"]
    assert {(m.path, m.side) for m in group.members} == {
        ("stem", "out"), ("bn", "out"), ("conv1", "in"), ("conv2", "out"), ("bn2", "out"),
        ("fc", "in"),
    }  # fmt: skip
    assert dependencies.kept == {"fc": "they are an output of the network"}


def test_a_flatten_takes_a_feature_map_a_channel():
    dependencies = analyze(Plain(), torch.randn(Plain.size))
    (reader,) = [m for m in dependencies.groups["conv2"].members if m.path == "fc1"]
    assert len(reader.indices) == 192 and reader.units[:17] == (0,) * 16 + (1,)


def test_grouped_convolutions_lose_the_same_places_of_every_group():
    dependencies = analyze(Branches(), torch.randn(Branches.size))
    assert dependencies.groups["expand"].depthwise
    assert (dependencies.groups["expand"].units, dependencies.groups["expand"].size) == (4, 4)
    assert (dependencies.groups["grouped"].units, dependencies.groups["grouped"].size) == (3, 4)
    model = Branches().eval()
    small = slim(model, dependencies, {"expand": [0], "grouped": [1]})
    assert (small.grouped.groups, small.grouped.in_channels, small.grouped.out_channels) == (
        4, 12, 8,
    )  # fmt: skip
    assert (small.depthwise.groups, small.depthwise.in_channels) == (12, 12)


def test_channels_that_are_mixed_stay():
    model, x = Mixing().eval(), torch.randn(Mixing.size)
    found = tried(model, x, analyze(model, x))
    assert list(found.groups) == ["free"]
    assert "computes something else than with zeros there" in found.kept["mixed"]


def test_groups_with_channels_that_a_module_has_not_stay():
    """As of InceptionNeXt: its trace counts those of a split for each of the parts."""
    model, x = settled(Plain()), torch.randn(Plain.size)
    found = analyze(model, x)
    name, group = next(iter(found.groups.items()))
    first, *rest = group.members
    beyond = dataclasses.replace(first, indices=tuple(1000 + i for i in first.indices))
    strange = dataclasses.replace(group, members=(beyond, *rest))
    left = tried(model, x, Dependencies({**found.groups, name: strange}, found.kept))
    assert set(left.groups) == set(found.groups) - {name}
    assert left.kept[name] == "the trace has more of them than one of its modules"


def test_channels_that_are_not_read_one_by_one_stay():
    found = analyze(Averaged(), torch.randn(Averaged.size))
    assert list(found.groups) == ["second"]
    assert found.kept["first"] == "second takes 1 channels, which are not these one by one"


def test_excluded_layers_keep_their_outputs():
    model = Residual()
    x = torch.randn(Residual.size)
    paths = excluded_paths(model, [model.conv2, "Residual::conv1"])
    assert paths == ["conv2", "conv1"]
    found = analyze(model, x, paths)
    assert not found.groups
    assert found.kept["stem"] == "conv2 is excluded"
    with pytest.raises(UnsupportedError, match=r"INVALID_ARGUMENT_ERROR\] excludes has 'conv9'"):
        excluded_paths(model, ["conv9"])
    with pytest.raises(UnsupportedError, match="excludes has Linear, which is no module of Resid"):
        excluded_paths(model, [nn.Linear(1, 1)])


def test_what_cannot_be_traced_is_refused():
    class Wrong(nn.Module):
        def forward(self, x):
            raise ValueError("no such thing\nas this")

    with pytest.raises(
        UnsupportedError,
        match=r"^\[OPTIMIZER_PARSE_GRAPH_FAILED\] Wrong cannot be traced: no such thing$",
    ):
        analyze(Wrong(), torch.zeros(1))
    with pytest.raises(
        UnsupportedError, match=r"^\[OPTIMIZER_DATA_PARALLEL_NOT_ALLOWED_ERROR\] .*model\.module"
    ):
        analyze(nn.DataParallel(Residual()), torch.randn(Residual.size))


def test_frozen_networks_and_several_inputs_are_traced():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), nn.Conv2d(8, 2, 1)

        def forward(self, x, y):
            return self.c(torch.relu(self.a(x) + self.b(y)))

    model = Two().requires_grad_(False)
    x = torch.randn(1, 3, 4, 4)
    for inputs in ([x, x], (x, x), {"x": x, "y": x}):
        assert list(analyze(model, inputs).groups) == ["a"]
    assert not any(p.requires_grad for p in model.parameters())


def test_zeros_stay_zero_in_training(seed):
    model = settled(Residual())
    x, y = torch.randn(16, 3, 8, 8), torch.randint(5, (16,))
    dependencies = analyze(model, x[:1])
    removed = {"stem": [1, 5], "conv1": [0, 2, 3]}
    sparse = sparse_network(model, dependencies, removed)
    optimizer = torch.optim.SGD(sparse.parameters(), 0.1, momentum=0.9, weight_decay=1e-3)
    sparse.train()
    for _ in range(5):
        optimizer.zero_grad()
        nn.functional.cross_entropy(sparse(x), y).backward()
        with torch.no_grad():  # an optimizer that would bring them back
            for parameter in sparse.parameters():
                parameter.grad += 0.01
        optimizer.step()
    state = sparse.slim_state_dict()
    assert set(sparse.state_dict()) == set(model.state_dict())
    assert not sparse.state_dict()["conv1.weight"][[0, 2, 3]].any()
    small = slim_network(model, dependencies, removed)
    small.load_state_dict(state)
    torch.testing.assert_close(small.eval()(x), sparse.eval()(x), rtol=1e-4, atol=1e-5)
    wide = model
    wide.load_state_dict(small.sparse_state_dict())
    torch.testing.assert_close(wide.eval()(x), small(x), rtol=1e-4, atol=1e-5)


def test_copies_of_a_sparse_network_are_by_themselves(seed):
    model = settled(Residual())
    dependencies = analyze(model, torch.randn(Residual.size))
    sparse = sparse_network(model, dependencies, {"conv1": [0]})
    other = copy.deepcopy(sparse)
    with torch.no_grad():
        other.conv1.weight.fill_(7)
    assert other.slim_state_dict()["conv1.weight"].mean() == 7
    assert sparse.slim_state_dict()["conv1.weight"].mean() != 7
    assert not other.state_dict()["conv1.weight"][0].any()
    again = sparse_network(sparse, dependencies, {"conv1": [0, 1]})
    assert len(again._forward_pre_hooks) == 1
    assert again.slim_state_dict()["conv1.weight"].shape[0] == 14
