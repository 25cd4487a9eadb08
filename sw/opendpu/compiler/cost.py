# SPDX-License-Identifier: Apache-2.0
"""The cost model: cycles that the compiler expects of an instruction.

Only choices depend on it, never results. The figures are those of two 128-bit ports to DDR with
64 cycles to the first beat and 8 bursts under way on each.
"""

BEAT_BYTES = 16
BURST_BEATS = 16
PORTS = 2
LATENCY = 64
"""Cycles from an address to its first beat."""
OUTSTANDING = 8
"""Bursts under way on a port."""
TRANSFER_OVERHEAD = 4
COMPUTE_OVERHEAD = 4


def transfer_cycles(length: int, channel: int, jump: int) -> int:
    """Return the cycles of a LOAD or SAVE of ``length`` pixels, ``jump`` bytes apart in DDR.

    Pixels that follow each other without a gap make long bursts; a short burst costs as much as
    the latency that the bursts under way have to hide.
    """
    runs, run = (1, length * channel) if jump == channel else (length, channel)
    beats = -(-run // BEAT_BYTES)
    whole, rest = divmod(beats, BURST_BEATS)
    least = LATENCY // OUTSTANDING
    one = whole * BURST_BEATS + (max(rest, least) if rest else 0)
    return TRANSFER_OVERHEAD + runs * one // PORTS


def conv_cycles(columns: int, taps: int) -> int:
    """Return the cycles of a CONV; ``taps`` counts kernel rows, columns and channel groups."""
    return COMPUTE_OVERHEAD + columns * taps


def misc_cycles(columns: int, groups: int, steps: int) -> int:
    """Return the cycles of an ALU or ELEW with ``steps`` (kernel rows, inputs) a pixel."""
    return COMPUTE_OVERHEAD + columns * groups * steps
