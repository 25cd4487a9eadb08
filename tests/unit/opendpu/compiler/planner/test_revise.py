# SPDX-License-Identifier: Apache-2.0
"""Refusals of the planner: each rules out one thing more, and only that."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from network_draws import draw_network, replace_pass

from opendpu.compiler import backend
from opendpu.compiler.layers import ConvLayer, EltwiseLayer, Feature, Window
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.choose_cascades import LONGEST
from opendpu.compiler.planner.proposal import Proposal, Refusal, Residency
from opendpu.compiler.planner.revise import BankCapacityError, revise, unrestricted
from opendpu_arch.errors import PassError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def refusal(network: Network, layers: LayerRange, **alive: int) -> Refusal:
    proposal = Proposal(revision=unrestricted(network, TARGET), cascades=())
    residency = Residency(proposal=proposal, regions={}, live_ranges={})
    return Refusal(
        residency=residency, layers=layers, is_cascade=layers.last > layers.first, alive=alive,
        free_words=7,
    )  # fmt: skip


def again(found: Refusal, revision: Any) -> Refusal:
    """Return the same refusal of what was proposed after a revision."""
    proposal = Proposal(revision=revision, cascades=())
    residency = dataclasses.replace(found.residency, proposal=proposal)
    return dataclasses.replace(found, residency=residency)


def test_the_largest_feature_map_in_the_way_goes_through_ddr() -> None:
    network = draw_network(3)
    found = refusal(network, LayerRange(0, 0), f0=10, f1=30)
    revision = revise(found, TARGET)
    assert revision.restrictions.spilled == {"f1"} and not revision.restrictions.apart
    with pytest.raises(PassError, match="the planner keeps 'f1' on chip again, which goes through"):
        revise(again(found, revision), TARGET)


def test_a_cascade_that_does_not_fit_is_split_and_nothing_else() -> None:
    network = draw_network(3)
    found = refusal(network, LayerRange(1, 2), f0=10, f1=30)
    revision = revise(found, TARGET)
    assert revision.restrictions.apart == {LayerRange(1, 2)} and not revision.restrictions.spilled
    assert revision.costs is found.residency.proposal.revision.costs
    with pytest.raises(
        PassError, match=r"proposes layers LayerRange\(first=1, last=2\) as a casca"
    ):
        revise(again(found, revision), TARGET)


def test_nothing_in_the_way_is_an_error_that_names_layer_and_words() -> None:
    network = draw_network(3)
    name = network.layers[0].name
    with pytest.raises(BankCapacityError, match=f"layer {name} does not fit .*, of which 7 are fr"):
        revise(refusal(network, LayerRange(0, 0)), TARGET)


def test_costs_that_a_revision_keeps_are_those_found_anew(rng: np.random.Generator) -> None:
    kept = 0
    for _ in range(10):
        network = draw_network(int(rng.integers(1 << 30)), 8)
        count = len(network.layers)
        ranges = [LayerRange(a, b) for a in range(count) for b in range(a, min(count, a + LONGEST))]
        costs = CascadeCosts(network, TARGET)
        for layers in ranges:
            costs.best(layers)
        for name in costs.resident:
            revised, fresh = costs.without(name), CascadeCosts(network, TARGET, {name})
            kept += len(revised._known)
            assert [revised.best(r) for r in ranges] == [fresh.best(r) for r in ranges]
    assert kept


def test_every_revision_rules_out_more(monkeypatch: pytest.MonkeyPatch) -> None:
    target = dataclasses.replace(Target.from_name("B64"), bank_depth=128)
    seen: list[Any] = []
    tile = next(one.run for one in backend.BACKEND_PASSES if one.name == "tile")

    def watched(residency: Residency, target: Target) -> Any:
        seen.append(residency.proposal.revision.restrictions)
        return tile(residency, target)

    monkeypatch.setattr(backend, "BACKEND_PASSES", replace_pass("tile", watched))
    revisions = 0
    for seed in range(40):
        network = draw_network(seed)
        seen.clear()
        try:
            backend.build(network, target)
        except BankCapacityError:
            continue
        sizes = [len(restrictions.spilled) + len(restrictions.apart) for restrictions in seen]
        assert sizes == list(range(sizes[0], sizes[0] + len(sizes)))
        revisions += len(sizes) - 1
    assert revisions


def conv(name: str, kernel: int, channels: int) -> ConvLayer:
    return ConvLayer(
        name=name, op=f"op of {name}", source="x", output=name,
        window=Window(
            kernel_h=kernel, kernel_w=kernel, pad_top=kernel // 2, pad_left=kernel // 2
        ),
        weights=np.zeros((channels, kernel, kernel, channels), np.int8),
        bias=np.zeros(channels, np.int8), shift_cut=0, shift_bias=0,
    )  # fmt: skip


def test_the_error_knows_the_op_although_layers_were_put_in_another_order() -> None:
    """Their numbers are those of the network that was planned, not of the one that was given."""
    total = EltwiseLayer(
        name="sum", op="op of sum", sources=("last", "short"), output="sum", shift_read=(0, 0),
        shift_write=0,
    )  # fmt: skip
    layers = (
        conv("short", 1, 64),
        conv("first", 1, 64),
        dataclasses.replace(conv("last", 5, 64), source="first"),
        total,
    )
    names = ("x", "short", "first", "last", "sum")
    network = Network(
        features={n: Feature(name=n, height=5, width=5, channels=64) for n in names},
        layers=layers, inputs=("x",), outputs=("sum",),
    )  # fmt: skip
    target = dataclasses.replace(Target.from_name("B64"), bank_depth=64)
    with pytest.raises(BankCapacityError, match="layer last does not fit") as caught:
        backend.build(network, target)
    assert caught.value.layer.op == "op of last"
