# SPDX-License-Identifier: Apache-2.0
"""Names of memory models."""

import pytest

from opendpu_arch.errors import UnsupportedError
from opendpu_sim.rtl.memory import memory_model


def test_models_by_name():
    kv260, ideal = memory_model("kv260"), memory_model("ideal")
    assert (kv260.latency, kv260.beats_a_window * 16 / 256, kv260.accept_limit) == (64, 48, 8)
    assert (ideal.latency, ideal.beats_a_window, ideal.seed) == (1, 0, None)
    assert memory_model("stall:17").seed == 17


@pytest.mark.parametrize("name", ["", "KV260", "stall", "stall:", "stall:x", "stall:-1"])
def test_unknown_name(name):
    with pytest.raises(UnsupportedError, match=r"'kv260', 'ideal' or 'stall:<seed>'"):
        memory_model(name)
