# SPDX-License-Identifier: Apache-2.0
"""What the parts of the MISC engine are told about a job."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.memory.table_ram import SELECT_BITS

#: Inputs an ELEW can have.
INPUTS = 4


class Op(enum.Enum, shape=2):
    """What a step does with its operands."""

    #: Multiply by weights and sum: depthwise, average, PRELU, LEAKYRELU, HSIGMOID.
    MAC = 0
    #: Maximum.
    MAX = 1
    #: Sum of ELEW inputs.
    ADD = 2
    #: Product of ELEW inputs.
    MULT = 3


class Weights(enum.Enum, shape=2):
    """Where the second operand of a MAC comes from."""

    #: One constant for every tap and lane.
    FACTOR = 0
    #: One byte a lane.
    BYTES = 1
    #: One 16-bit number for all lanes of a group, in the first two bytes.
    HALVES = 2


def address_bits(target):
    """Return the width of a word address."""
    return ceil_log2(target.bank_depth)


def bank_bits(target):
    """Return the width of a bank's number within its group."""
    return ceil_log2(target.pixel_parallel)


def effective_taps(target, taps_per_cycle):
    """Return how many taps of a kernel column a step can take.

    The rows of a step must lie in different banks: PP_alu output rows and one more for each
    further tap.
    """
    return max(1, min(taps_per_cycle, target.pixel_parallel - target.alu_pixel_parallel + 1))


def _input_shape(target):
    return data.StructLayout({
        "group": 2,
        "low": bank_bits(target),        # bank of row 0
        "here": address_bits(target),    # its base address
        "next": address_bits(target),    # base address after the wrap over the banks
        "jump": address_bits(target),    # words between output columns
        "step": 4,                       # banks between rows; 0: one row for all
        "shift": 4,
        **({"term": 1} if Extension.SCALED in target.extensions else {}),
    })


def walk_shape(target):
    """Return the layout of what the walk over the inputs needs; ``_1`` means less one.

    ``wide`` jobs have operands or factors of more than a byte, and steps of one tap. The next step
    of a kernel column is ``stride_step`` rows further.
    """
    a = address_bits(target)
    return data.StructLayout({
        "op": Op, "weights": Weights, "factor": signed(13), "prelu": 1, "wide": 1,
        "bias": 1, "cached": 1, "paired": 1, "sliding": 1,
        "eltwise": 1, "inputs_1": 2, "inputs": data.ArrayLayout(_input_shape(target), INPUTS),
        "rows_1": 3, "length_1": 11, "groups_1": 8,
        "kernel_h_1": 8, "kernel_w_1": 8, "phases_1": 8, "stride_h": 9, "stride_w": 9,
        "stride_step": 11,
        "jump": a, "jump_endl": a, "row_offset": a, "in_bank": 8,
        "low": bank_bits(target), "wrap": 2, "bases": data.ArrayLayout(unsigned(a), 4),
        "group": 2, "invalid": 5,
        "pad_left": 4, "pad_top": 4, "right_limit": 20, "bottom_limit": 13, "row_base": 13,
        "reads": target.image_banks, "writes": target.image_banks, "checked": 1,
        **({"tabled": 1} if Extension.TABLE in target.extensions else {}),
        **({"scaled": 1, "zero_in": signed(8)} if Extension.SCALED in target.extensions else {}),
    })


def finish_shape(target):
    """Return the layout of what the last stages need.

    ``right_p`` shifts results whose operand is positive, ``right_n`` the others, both 8 more than
    meant, so that 0..7 shift left. ``bias``: add DWCV's; ``sigmoid``: add 3 · 2731 · 2^shift_bias.
    Results are clamped to 0 (``relu``) or -128 and to ``limit``. ``table``, ``channel_shift``
    and ``scaled`` are the instruction's.
    """
    return data.StructLayout({
        "prelu": 1, "bias": 1, "sigmoid": 1, "shift_bias": 5,
        "right_p": 6, "right_n": 6, "relu": 1, "limit": 7, "leaky": 1,
        **({"table": SELECT_BITS} if Extension.TABLE in target.extensions else {}),
        **({"channel_shift": 1} if Extension.CHANNEL in target.extensions else {}),
        **({"scaled": 1} if Extension.SCALED in target.extensions else {}),
    })


def job_shape(target):
    """Return the layout of a job as the walk gets it."""
    return data.StructLayout({"walk": walk_shape(target), "finish": finish_shape(target)})


def fetch_shape(target):
    """Return the layout of what the fetch of weights and bias needs."""
    a = address_bits(target)
    return data.StructLayout({
        "weights": 1, "bias": 1, "cached": 1, "wide": 1,
        "groups_1": 8, "length_1": 11, "kernel_h_1": 8, "kernel_w_1": 8, "phases_1": 8,
        "stride_h": 9,
        "addr": a, "group_step": 2, "tap_w": a, "tap_h": a, "tap_stride": a, "bias_addr": a,
    })


def write_shape(target):
    """Return the layout of what the writer needs; rows are those of one pass."""
    rows = target.alu_pixel_parallel
    return data.StructLayout({
        "rows_1": 3, "turns_1": 3, "length_1": 11, "groups_1": 8, "jump": address_bits(target),
        "group": 2, "final": 1,
        "bank": data.ArrayLayout(unsigned(bank_bits(target)), rows),
        "addr": data.ArrayLayout(unsigned(address_bits(target)), rows),
        "turn": data.ArrayLayout(unsigned(3), rows),
    })
