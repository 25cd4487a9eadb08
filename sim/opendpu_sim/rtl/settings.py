# SPDX-License-Identifier: Apache-2.0
"""A memory model as the C++ of ``ddr_timing.h`` takes it."""

import ctypes

from opendpu_sim.rtl.memory import MAX_OUTSTANDING, MemoryModel


class Settings(ctypes.Structure):
    """Mirrors ``opendpu::Settings``."""

    _fields_ = [
        ("latency", ctypes.c_uint64),
        ("beats_a_window", ctypes.c_uint64),
        ("accept_limit", ctypes.c_uint64),
        ("rule_limit", ctypes.c_uint64),
        ("random", ctypes.c_uint64),
        ("seed", ctypes.c_uint64),
        ("check_paths", ctypes.c_uint64),
    ]


def settings(model: MemoryModel) -> Settings:
    """Return the settings of a model."""
    return Settings(
        latency=model.latency,
        beats_a_window=model.beats_a_window,
        accept_limit=model.accept_limit,
        rule_limit=MAX_OUTSTANDING,
        random=model.seed is not None,
        seed=model.seed or 0,
        check_paths=model.seed is not None,
    )
