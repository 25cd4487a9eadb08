# SPDX-License-Identifier: Apache-2.0
"""Random graphs: compiled, run on the functional simulator, compared with the integer reference.

A failing graph is named by its seed, and shown as small as it still fails: what a test that stays
is written from, because another generator draws another graph from the seed.
"""

import numpy as np
import pytest
from graph_draws import Quantized
from random_graphs import draw
from random_graphs.check import HangError, check
from random_graphs.shrink import listing, shrink

from opendpu.compiler.fixed import COMPUTE, MOVE
from opendpu.compiler.legalize import legalize
from opendpu.ir import Graph
from opendpu_arch.target import Target


def check_seed(seed: int, **extensions: bool) -> None:
    grower = draw(seed, **extensions)
    try:
        check(grower.graph, grower.target, seed)
    except Exception as error:
        kind = type(error)

        def fails(graph: Graph) -> bool:
            try:
                check(graph, grower.target, seed)
            except Exception as other:
                return type(other) is kind
            return False

        small = grower.graph if isinstance(error, HangError) else shrink(grower.graph, fails)
        error.add_note(
            f"seed {seed}, target {grower.target.name} with {grower.target.bank_depth} words a "
            f"bank; at its smallest:\n{listing(small)}"
        )
        raise


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(rng: np.random.Generator, part: int) -> None:
    for _ in range(12):
        check_seed(int(rng.integers(1 << 30)))


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_with_tables(rng: np.random.Generator, part: int) -> None:
    for _ in range(12):
        check_seed(int(rng.integers(1 << 30)), tables=True)


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_by_channel(rng: np.random.Generator, part: int) -> None:
    for number in range(12):
        check_seed(int(rng.integers(1 << 30)), channels=True, tables=number % 3 == 0)


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_with_products(rng: np.random.Generator, part: int) -> None:
    for number in range(8):
        check_seed(int(rng.integers(1 << 30)), products=True, tables=number % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_random_graphs_with_products(rng: np.random.Generator, part: int) -> None:
    for number in range(50):
        check_seed(int(rng.integers(1 << 30)), products=True, tables=number % 3 == 0)


@pytest.mark.parametrize("part", range(2))
def test_random_graphs_of_any_scale(rng: np.random.Generator, part: int) -> None:
    for number in range(8):
        check_seed(int(rng.integers(1 << 30)), scaled=True, tables=number % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_random_graphs_of_any_scale(rng: np.random.Generator, part: int) -> None:
    for number in range(50):
        check_seed(int(rng.integers(1 << 30)), scaled=True, tables=number % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_random_graphs_by_channel(rng: np.random.Generator, part: int) -> None:
    for number in range(50):
        check_seed(int(rng.integers(1 << 30)), channels=True, tables=number % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_random_graphs_with_tables(rng: np.random.Generator, part: int) -> None:
    for _ in range(50):
        check_seed(int(rng.integers(1 << 30)), tables=True)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(40))
def test_many_random_graphs(rng: np.random.Generator, part: int) -> None:
    for _ in range(50):
        check_seed(int(rng.integers(1 << 30)))


def test_a_slice_joined_with_itself_along_another_axis() -> None:
    check_seed(327031749)


def test_a_dilated_convolution_with_strides_padding_and_a_sum_behind_it() -> None:
    check_seed(706475333)


@pytest.mark.parametrize("seed", [199373252, 487405590])
def test_phases_with_fewer_pixels_than_their_input(seed: int) -> None:
    check_seed(seed)


@pytest.mark.parametrize("seed", [158255530, 754690234])
def test_a_transpose_on_the_cpu_behind_an_op_that_the_dpu_has_not(seed: int) -> None:
    check_seed(seed)


def test_stripes_that_wait_for_an_epilogue_stay_in_one_place_of_their_tile() -> None:
    """A depthwise 7x7 on the array, whose window lets it begin with one row, times its input."""
    check_seed(900301879)


def test_a_large_dilated_kernel_whose_padding_is_no_zero() -> None:
    """Gathered rows have zeros in their padding, so the CPU computes it."""
    check_seed(47, scaled=True)


def test_a_transpose_of_any_scale_on_the_cpu() -> None:
    """Its weights, which only exchange channels, have no scale in a compiled file."""
    check_seed(734058059, scaled=True, tables=True)


def test_every_kind_of_op_is_drawn() -> None:
    drawn = {node.kind for seed in range(150) for node in legalize(draw(seed).graph)}
    for seed in range(20):
        drawn |= {node.kind for node in legalize(draw(seed, tables=True).graph, tables=True)}
        drawn |= {node.kind for node in legalize(draw(seed, products=True).graph)}
    assert drawn >= {*COMPUTE, *MOVE}


def test_the_smallest_graph_with_the_same_trouble() -> None:
    q = Quantized()
    x = q.conv(q.data(8, 8, 3), "before", 6, pad=1)
    y = q.pool(x, "pool", "maxpool2d", 2, stride=2)
    graph = q.done(q.add([q.conv(y, "after", 6, pad=1), y], "sum"), q.dense(x, "other", 4))
    small = shrink(graph, lambda d: any(n.kind == "maxpool2d" for n in d))
    assert [n.kind for n in small] == ["data", "fix", "maxpool2d", "fix"]
    check(small, Target.from_name("B64"), 1)


def test_a_constant_that_begins_as_a_longer_one_of_the_segment() -> None:
    check(draw(393291861).graph, Target.from_name("B64"), 393291861)


def test_a_sum_of_maps_whose_fix_points_are_far_apart_is_not_drawn() -> None:
    check_seed(222521442, products=True)
