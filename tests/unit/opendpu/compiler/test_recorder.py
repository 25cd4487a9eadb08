# SPDX-License-Identifier: Apache-2.0
"""Words of weight banks: given out in turn, found again until others take their place."""

import pytest

from opendpu.compiler.emission.recorder import WeightRing
from opendpu_arch.errors import GraphError


def test_words_are_held_until_others_take_their_place() -> None:
    ring = WeightRing("DWCONVW", 100)
    assert ring.take(60, "a") == 0
    assert ring.take(40, "b") == 60
    assert (ring.held("a"), ring.held("b"), ring.held("c")) == (0, 60, None)
    assert ring.take(1) == 0
    assert (ring.held("a"), ring.held("b")) == (None, 60)
    assert ring.take(100, "d") == 1
    assert (ring.held("b"), ring.held("d")) == (None, 1)


def test_words_that_do_not_fit() -> None:
    with pytest.raises(GraphError, match="101 words do not fit CONVW, which holds 100"):
        WeightRing("CONVW", 100).take(101)
