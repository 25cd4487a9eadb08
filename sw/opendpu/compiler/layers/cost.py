# SPDX-License-Identifier: Apache-2.0
"""The cost model: cycles that the compiler expects of an instruction.

Only choices depend on it, never results. The figures are those of the RTL with two 128-bit ports to
DDR, 64 cycles to the first beat and 8 bursts under way on each: every port moves one bank word or
one beat a cycle.
"""

import functools

from opendpu.compiler.layers.feature import Feature, Window
from opendpu_arch.latency import REQUANTIZER_PIXELS

BEAT_BYTES = 16
PORTS = 2
LATENCY = 64
"""Cycles from an address to its first beat."""
OUTSTANDING = 8
"""Bursts under way on a port."""
MEMORY_BEATS = 3
"""Beats that the memory moves a cycle at most: reads and writes of both ports want four."""
TRANSFER_OVERHEAD = 2
COMPUTE_OVERHEAD = 4
TAPS = 3
"""Kernel rows that the misc engine takes in a step."""
TILE_OVERHEAD = 16
"""Cycles of another tile that nothing else accounts for."""


@functools.cache
def transfer_cycles(length: int, channel: int, jump: int, parallel: int) -> int:
    """Return the cycles of a LOAD or SAVE of ``length`` pixels of ``channel`` bytes.

    ``jump`` is the distance of pixels in DDR, ``parallel`` the bytes of a bank word. Pixels without
    gaps make long bursts; others a burst each, which costs at least its share of the latency.
    """
    words = length * -(-channel // parallel)
    bursts, size = length, channel
    if jump <= channel:
        bursts, size = 1, (length - 1) * jump + channel
    beats = bursts * max(-(-size // BEAT_BYTES), LATENCY // OUTSTANDING)
    return TRANSFER_OVERHEAD + max(words, beats) // PORTS


def feature_cycles(feature: Feature, parallel: int, jump: int = 0) -> int:
    """Return the cycles to load or save a feature map, a transfer a row.

    Pixels are ``jump`` bytes apart in DDR; by default they follow each other without gaps.
    """
    channels = feature.channels
    return feature.height * transfer_cycles(feature.width, channels, jump or channels, parallel)


def shared_cycles(cycles: int) -> int:
    """Return the cycles of LOADs and SAVEs that take so many in all, if they run side by side."""
    return cycles * PORTS // MEMORY_BEATS


def conv_steps(columns: int, taps: int) -> int:
    """Return the cycles of a CONV whose columns do not wait for each other."""
    return COMPUTE_OVERHEAD + columns * taps


def conv_cycles(columns: int, taps: int, stride_out: int = 1) -> int:
    """Return the cycles of a CONV; ``taps`` counts kernel rows, columns and channel groups.

    A bank takes one word a cycle, so results of rows that share a bank wait for each other; pixels
    that share a requantizer take turns.
    """
    return conv_steps(columns, max(taps, stride_out, REQUANTIZER_PIXELS))


def misc_cycles(columns: int, groups: int, steps: int) -> int:
    """Return the cycles of an ELEW of ``steps`` operands, or an ALU of so many steps a pixel."""
    return COMPUTE_OVERHEAD + columns * groups * steps


def alu_cycles(columns: int, groups: int, window: Window, stride_out: int = 1) -> int:
    """Return the cycles of an ALU; see "steps" in docs/engine/misc.md.

    Windows three wide and at most three high slide over every column, if they move by one pixel:
    each input column is read once.
    """
    height, width = window.kernel_h, window.kernel_w
    if width == 3 and height <= 3 and window.stride_h == window.stride_w == 1:
        read = columns + width - 1
    elif width == height == 3 and window.stride_h == window.stride_w == 2:
        read = 4 * columns + 2  # every other input column is shared by two windows
    else:
        read = columns * width * _column_steps(height, window.stride_h)
    return misc_cycles(1, groups, max(read, columns * stride_out))


def _column_steps(height: int, stride: int) -> int:
    """Return the steps for a column of the kernel: rows ``stride`` apart are in banks in a row."""
    phases = (len(range(phase, height, stride)) for phase in range(min(stride, height)))
    return sum(-(-rows // TAPS) for rows in phases)
