# SPDX-License-Identifier: Apache-2.0
"""Places on chip and in DDR: what is alive at the same time is apart."""

import itertools

import pytest
from network_draws import draw_network
from oracle import engines

from opendpu.compiler.banks import Region
from opendpu.compiler.network import LayerRange, Network
from opendpu.compiler.network.live_range import alive, live_ranges
from opendpu.compiler.plan import WORKSPACE_REG
from opendpu.compiler.planner.cascade.costs import CascadeCosts
from opendpu.compiler.planner.first_fit import first_fit, holes
from opendpu.compiler.planner.free_words import Placer, apart_from
from opendpu.compiler.planner.memory import allocate_constants, feature_memory
from opendpu.compiler.planner.proposal import Proposal, Residency, Restrictions, Revision
from opendpu.compiler.planner.residency import allocate_banks
from opendpu.ops.average import average_factor
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def alone(network: Network, spilled: frozenset[str] = frozenset()) -> Proposal:
    """Return a proposal to run layer by layer."""
    costs = CascadeCosts(network, TARGET, spilled)
    restrictions = Restrictions(spilled=spilled)
    revision = Revision(network=network, restrictions=restrictions, costs=costs)
    return Proposal(revision=revision, cascades=())


@pytest.mark.parametrize("seed", range(20))
def test_regions_that_live_together_do_not_overlap(seed: int) -> None:
    network = draw_network(seed)
    banks = allocate_banks(alone(network), TARGET)
    regions = banks.regions
    for (a, one), (b, two) in itertools.combinations(regions.items(), 2):
        if one.bank_group == two.bank_group and banks.live_ranges[a].overlaps(banks.live_ranges[b]):
            assert one.base + one.words <= two.base or two.base + two.words <= one.base
    assert all(r.base >= 0 and r.base + r.words <= TARGET.bank_depth for r in regions.values())


@pytest.mark.parametrize("seed", range(20))
def test_memory_that_lives_together_does_not_overlap(seed: int) -> None:
    network = draw_network(seed)
    every = live_ranges(network)
    memory, ends = feature_memory(
        Residency(proposal=alone(network), regions={}, live_ranges={}), {}
    )
    for (a, one), (b, two) in itertools.combinations(memory.items(), 2):
        apart = not every[a].overlaps(every[b]) and one.reg_id == WORKSPACE_REG
        if one.reg_id != two.reg_id or apart:
            continue
        sizes = [m.row_bytes * network.features[n].height for n, m in ((a, one), (b, two))]
        assert one.address + sizes[0] <= two.address or two.address + sizes[1] <= one.address
        assert max(one.address + sizes[0], two.address + sizes[1]) <= ends[one.reg_id]


def test_spilled_features_are_not_on_chip() -> None:
    network = draw_network(2)
    name = next(iter(allocate_banks(alone(network), TARGET).regions))
    assert name not in allocate_banks(alone(network, frozenset({name})), TARGET).regions


def test_constants_are_aligned_and_row_major() -> None:
    drawn = map(draw_network, range(50))
    network = next(n for n in drawn if getattr(n.layers[0], "bias", None) is not None)
    layer = network.layers[0]
    addresses, blob = allocate_constants(network)
    assert all(at % 4096 == 0 for at in addresses.values())
    at = addresses[f"{layer.name}/bias"]
    assert blob[at : at + layer.bias.size] == layer.bias.tobytes()


def test_first_fit_and_holes() -> None:
    taken = [(10, 20), (4, 6)]
    assert first_fit(4, taken, 40) == 0
    assert first_fit(5, taken, 40) == 20
    assert first_fit(21, taken, 40) is None
    assert holes(taken, 40) == [(0, 4), (6, 10), (20, 40)]


def test_alive() -> None:
    assert alive({"a": LayerRange(0, 2), "b": LayerRange(2, 3)}, 2) == {"a", "b"}


@pytest.mark.parametrize("kernel_h", range(1, 20))
def test_average_factors_are_those_of_the_reference(kernel_h: int) -> None:
    for kernel_w in range(1, 26):
        wanted = engines.average_factor(kernel_w, kernel_h)
        assert average_factor(kernel_h=kernel_h, kernel_w=kernel_w) == wanted


def test_words_apart_from_regions() -> None:
    def region(group: int, base: int, words: int) -> Region:
        return Region(bank_group=group, base=base, words=words, stride=1, capacity=1)

    free = {0: [(0, 10), (20, 40)], 1: [(5, 6)], 2: []}
    regions = [region(0, 8, 2), region(0, 25, 5), region(1, 0, 100), region(2, 3, 4)]
    assert apart_from(free, regions) == {0: [(0, 8), (20, 25), (30, 40)], 1: [], 2: []}
    assert apart_from(free, [region(0, 12, 4)]) == free


def test_a_cascade_is_beside_the_words_of_the_one_before_where_there_is_room() -> None:
    busy = frozenset({Region(bank_group=0, base=0, words=40, stride=1, capacity=1)})
    placer = Placer({0: [(0, 100)], 1: [(10, 30)]}, busy)
    assert placer.place([50], [0]) == [(0, 50)]
    assert placer.place([70], [0]) == [(0, 30)]
    assert placer.place([10, 20], [0, 1]) == [(0, 90), (1, 10)]
    assert Placer(placer.free).place([50], [0]) == [(0, 0)]
    assert placer.place([30], [1]) is None
    assert placer.busy_words([70, 20], [(0, 30), (1, 10)]) == 10
