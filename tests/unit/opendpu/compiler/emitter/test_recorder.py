# SPDX-License-Identifier: Apache-2.0
"""Words of weight banks: given out in turn, found again until others take their place."""

import pytest

from opendpu.compiler.emitter.recorder import CircularBuffer
from opendpu_arch.errors import GraphError


def test_words_are_held_until_others_take_their_place() -> None:
    capacity = CircularBuffer("DWCONVW", 100)
    assert capacity.take(60, "a") == 0
    assert capacity.take(40, "b") == 60
    assert (capacity.held("a"), capacity.held("b"), capacity.held("c")) == (0, 60, None)
    assert capacity.take(1) == 0
    assert (capacity.held("a"), capacity.held("b")) == (None, 60)
    assert capacity.take(100, "d") == 1
    assert (capacity.held("b"), capacity.held("d")) == (None, 1)


def test_words_that_do_not_fit() -> None:
    with pytest.raises(GraphError, match="101 words do not fit CONVW, which holds 100"):
        CircularBuffer("CONVW", 100).take(101)
