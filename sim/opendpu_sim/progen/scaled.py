# SPDX-License-Identifier: Apache-2.0
"""Random records of SCALE and terms of TERM."""

import numpy as np
import numpy.typing as npt

from opendpu_arch import isa, scaled
from opendpu_arch.extensions import Extension
from opendpu_arch.scaled import Rounding
from opendpu_sim.progen.builder import DATA, Builder


def fill(b: Builder) -> None:
    """LOAD some records and both tables of terms, where the target has them."""
    if Extension.SCALED not in b.target.extensions:
        return
    there = scaled.records(b.depth)
    b.records = b.rng.randrange(8, 20)
    b.first_record = b.rng.choice((0, b.rng.randrange(there), there - b.rng.randrange(1, 8)))
    load_records(b, 0, b.records)
    for slot in range(scaled.TERM_SLOTS):
        load_terms(b, slot)


def reload(b: Builder) -> None:
    """Append LOADs of other records, and other terms, over some of those that are there."""
    if b.rng.random() < 0.6:
        count = b.rng.randrange(1, b.records + 1)
        load_records(b, b.rng.randrange(b.records - count + 1), count)
    if b.rng.random() < 0.3:
        load_terms(b, b.rng.randrange(scaled.TERM_SLOTS))


def load_records(b: Builder, first: int, count: int) -> None:
    """LOAD ``count`` records from the ``first`` one of the window on."""
    there = scaled.records(b.depth)
    while count:
        at = (b.first_record + first) % there
        length = min(count, there - at, b.rng.randrange(1, count + 1))
        size = scaled.RECORD_WORDS * b.lanes
        content = np.concatenate([_record(b) for _ in range(length)])
        assert b.add(
            isa.Load(
                bank_id=b.target.scale_bank,
                bank_addr=b.alias(at * scaled.RECORD_STRIDE, 12),
                channel=size,
                jump_read=size,
                jump_write=scaled.RECORD_STRIDE,
                length=length,
                reg_id=DATA,
                ddr_addr=b.content(content.reshape(-1)),
            )
        )
        first, count = first + length, count - length


def _record(b: Builder) -> npt.NDArray[np.uint8]:
    """Return a record whose results are mostly in range; or any."""
    lanes, noise = b.lanes, np.random.default_rng(b.rng.getrandbits(32))
    if b.rng.random() < 0.1:
        return noise.integers(0, 256, (scaled.RECORD_WORDS, lanes), np.uint8)
    shift = noise.integers(4, 13, lanes) + b.rng.choice((0, 0, 0, 12, -4))
    bias_bits = b.rng.choice((4, 10, 14, 28, 31))
    limits = sorted(b.rng.randrange(-128, 128) for _ in range(2))
    low, high = b.rng.choice(((-128, 127), (-128, 127), (0, 127), tuple(limits)))
    return scaled.record(
        bias=noise.integers(-(1 << bias_bits), 1 << bias_bits, lanes),
        multiplier=b.rng.choice((noise.integers(1 << 30, 1 << 31, lanes), np.full(lanes, 1 << 30))),
        shift=shift,
        zero=b.rng.choice((0, b.rng.randrange(-128, 128))),
        low=low,
        high=high,
        rounding=b.rng.choice(tuple(Rounding)),
    )


def load_terms(b: Builder, slot: int) -> None:
    """LOAD a table of terms: lines of several slopes, small numbers for products, noise."""
    noise = np.random.default_rng(b.rng.getrandbits(32))
    x = np.concatenate((np.arange(128), np.arange(-128, 0)))
    slope = b.rng.choice((1, 1 << 19, b.rng.randrange(1 << 19), 37))
    terms = (x - b.rng.randrange(-128, 128)) * slope
    if b.rng.random() < 0.2:
        terms = noise.integers(-(1 << 31), 1 << 31, scaled.SLOT_TERMS)
    content = terms.astype("<i4").view(np.uint8)
    address = scaled.SLOT_TERMS * slot + scaled.TERM_WORDS * b.rng.randrange(4)
    assert b.add(
        isa.Load(
            bank_id=b.target.term_bank,
            bank_addr=address,
            channel=scaled.TERM_BYTES,
            jump_read=scaled.TERM_BYTES,
            length=scaled.SLOT_TERMS,
            reg_id=DATA,
            ddr_addr=b.content(content),
        )
    )
