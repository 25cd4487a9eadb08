# SPDX-License-Identifier: Apache-2.0
"""Depths of the machine's pipelines, on which gateware and cycle model must agree."""

from opendpu_arch.target import Target

JUDGEMENT = 3
"""Cycles that the decoder takes to judge an instruction."""
CONV_PLAN = 5
"""Cycles from the read of a CONV's bias to its offer to the walk."""
CASCADE_PRODUCTS = 8
"""Most products of two packed pixels that one cascade of DSP blocks adds without ambiguity."""
REQUANTIZER_PIXELS = 2
"""Pixels that take turns at a requantizer of CONV: columns end at least as many cycles apart."""
CONV_QUEUE = 4
"""CONVs under way whose first column is not complete, beside the one whose columns come."""
BANK_READ = 2
"""Cycles from a read of an image bank to its word: block RAM answers late, and has a register."""
CONV_OPERANDS = 2 + BANK_READ
"""Cycles from a step's address to its operands in their registers."""
CONV_WRITE = 8
"""Cycles from a complete sum of CONV to the write of its column."""
CONV_DONE = 4
"""Cycles from CONV's ``done`` to its last write: no other engine reads a bank sooner after it."""
CONV_READABLE = 2
"""Cycles before its last write in which a CONV no longer holds back CONVs that read its results."""
ENGINE_READ = CONV_DONE
"""Least cycles from the cycle in which MISC or SAVE takes an instruction to a read of a bank."""
MISC_SUM = 4
"""Cycles from the image banks' answer to MISC to a complete sum, maximum or product."""
MISC_RESULT = 8
"""Cycles from that answer to the result in its queue."""
TERM_PRODUCT = 1
"""Cycles that a product of terms is later than other steps: a register behind the terms' RAM."""
FIXED_POINT = 10
"""Cycles from a sum to its result by a fixed-point multiplier, bias included."""
RECORD_READ = 2
"""Cycles from the read of a record of SCALE to its bias in a register."""
SCALED_DISTANCE = 2
"""Least cycles between columns with multipliers, whatever their pixels: records follow them."""
_BEFORE_CASCADE = 4
"""Registers of a DSP block up to the first sum: operand, pre-adder, product, sum."""
_AFTER_CASCADE = 2
"""Unpacking, accumulation."""


def cascades(target: Target) -> int:
    """Return how many cascades the dot product of a step is split into."""
    return -(-target.input_channel_parallel // CASCADE_PRODUCTS)


def cascade_length(target: Target) -> int:
    """Return the products of a cascade; one is added a cycle."""
    return -(-target.input_channel_parallel // cascades(target))


def conv_sum(target: Target) -> int:
    """Return the cycles from operands in their registers to the sum with their products."""
    return _BEFORE_CASCADE + cascade_length(target) - 1 + _AFTER_CASCADE


def conv_scaled(target: Target) -> int:
    """Return how much later than others a column with multipliers is written.

    The pixels of a column take turns at a lane's multiplier.
    """
    return RECORD_READ + FIXED_POINT + target.pixel_parallel - CONV_WRITE


def conv(target: Target) -> int:
    """Return the cycles from the address of a column's last step to the column's write."""
    return CONV_OPERANDS + conv_sum(target) + CONV_WRITE
