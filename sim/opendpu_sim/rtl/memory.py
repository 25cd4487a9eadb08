# SPDX-License-Identifier: Apache-2.0
"""The DDR models of the harness, by name."""

import dataclasses
import re

from opendpu_arch.errors import UnsupportedError

MAX_OUTSTANDING = 8
"""Bursts the DPU may have outstanding a port and direction."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryModel:
    """How the memory behind the AXI ports answers."""

    name: str
    latency: int = 1
    """Cycles from an address to its first beat, and from the last write beat to the response."""
    beats_a_window: int = 0
    """Beats of 16 bytes both data ports may move in any 256 cycles; 0: no limit."""
    accept_limit: int = 64
    """Bursts a port takes before it stops accepting addresses."""
    seed: int | None = None
    """Seed of random stalls on every channel and of random latencies; ``None``: no stalls."""


KV260 = MemoryModel(
    name="kv260", latency=64, beats_a_window=48 * 256 // 16, accept_limit=MAX_OUTSTANDING
)
"""A KV260: DDR4-2400 x64 seen at 300 MHz, at most 48 bytes a cycle for both data ports."""

IDEAL = MemoryModel(name="ideal")
"""Answers in the next cycle."""


def memory_model(name: str) -> MemoryModel:
    """Return the model called ``name``: ``kv260``, ``ideal`` or ``stall:<seed>``.

    Raises
    ------
    UnsupportedError
        There is no such model.
    """
    if name == KV260.name:
        return KV260
    if name == IDEAL.name:
        return IDEAL
    if re.fullmatch(r"stall:\d{1,18}", name):
        return MemoryModel(name=name, seed=int(name.partition(":")[2]))
    raise UnsupportedError(
        f"no memory model is called {name!r}; must be 'kv260', 'ideal' or 'stall:<seed>'"
    )
