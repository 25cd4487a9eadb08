# SPDX-License-Identifier: Apache-2.0
"""The memories of the extension ``scaled``: what they hold, for gateware, simulators and compiler.

For LOAD they are two banks. SCALE (:attr:`opendpu_arch.target.Target.scale_bank`) holds a *record*
for each group of output channels, which is :data:`RECORD_STRIDE` words apart from the next one;
word ``n`` of it has byte ``n`` of what belongs to a channel, a byte a lane. TERM
(:attr:`opendpu_arch.target.Target.term_bank`) has :data:`TERM_WORDS` words, of which only the first
four bytes exist, whatever the target's channel parallel: 32-bit integers in place of input bytes.
"""

import enum
from typing import Any

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.integer[Any]]


class Rounding(enum.IntEnum):
    """How a record's results are rounded."""

    TWICE = 0
    """As TFLite's reference kernels but FULLY_CONNECTED: to 31 fraction bits less, then by the
    shift."""
    ONCE = 1
    """Half away from zero, on the exact product, as FULLY_CONNECTED of TFLite's does."""


RECORD_STRIDE = 16
"""Words from a record to the next."""
BIAS_WORD, MULTIPLIER_WORD, SHIFT_WORD, COMMON_WORD = 0, 4, 8, 9
"""Words of a record: bias and multiplier are 32 bits, low byte first; the shift is one word. The
bytes of the last one belong to all channels: zero point, least result, largest result, rounding."""
RECORD_WORDS = 10
"""Words of a record that are there."""
COMMON_BYTES = 4
"""Bytes of the last word that count."""
MULTIPLIER_BITS = 31
"""Bits of a multiplier, which is not negative."""
MAX_SHIFT = 31
"""Most that a product is shifted right beyond its 31 fraction bits."""
SUM_BITS = 29
"""Bits that a sum and its bias saturate to."""
TERM_BYTES = 4
"""Bytes of a term."""
TERM_WORDS = 512
"""Words of TERM; addresses wrap here."""
SLOT_TERMS = 256
"""Terms of an input: one for each byte."""
TERM_SLOTS = TERM_WORDS // SLOT_TERMS
"""Tables of terms that fit; ``term`` of an ELEWINIT picks one."""
FACTOR_BITS = 10
"""Low bits of a term that ELEW MULT takes, as a signed integer."""


def records(bank_depth: int) -> int:
    """Return how many records fit; addresses of records wrap there."""
    return bank_depth // RECORD_STRIDE


def record(
    *,
    bias: IntArray,
    multiplier: IntArray,
    shift: IntArray,
    zero: int,
    low: int,
    high: int,
    rounding: Rounding,
) -> npt.NDArray[np.uint8]:
    """Return a record as LOAD wants it, shape (:data:`RECORD_WORDS`, channel parallel).

    ``bias`` (signed 32 bits), ``multiplier`` (31 bits) and ``shift`` (0..31) have shape
    (channel parallel,); ``zero``, ``low`` and ``high`` are in -128..127.

    Raises
    ------
    ValueError
        A value does not fit.
    """
    values = {"bias": bias, "multiplier": multiplier, "shift": shift}
    limits = {
        "bias": (-(1 << 31), (1 << 31) - 1),
        "multiplier": (0, (1 << MULTIPLIER_BITS) - 1),
        "shift": (0, MAX_SHIFT),
        "zero": (-128, 127),
        "low": (-128, 127),
        "high": (-128, 127),
    }
    common = {"zero": zero, "low": low, "high": high}
    for name, value in (values | {n: np.asarray(v) for n, v in common.items()}).items():
        least, most = limits[name]
        if value.size and (value.min() < least or value.max() > most):
            raise ValueError(f"{name} has {value.min()}..{value.max()}, not in {least}..{most}")
    made = np.zeros((RECORD_WORDS, bias.shape[0]), np.uint8)
    for name, first in (("bias", BIAS_WORD), ("multiplier", MULTIPLIER_WORD)):
        wide = values[name].astype(np.int64)
        for byte in range(4):
            made[first + byte] = wide >> 8 * byte & 0xFF
    made[SHIFT_WORD] = shift
    made[COMMON_WORD, :COMMON_BYTES] = [value & 0xFF for value in (zero, low, high, rounding)]
    return made
