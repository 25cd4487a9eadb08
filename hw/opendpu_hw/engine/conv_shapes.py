# SPDX-License-Identifier: Apache-2.0
"""What is known of a CONV that is set up: to walk, to sum, to write."""

from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension
from opendpu_hw.memory.record_ram import record_bits
from opendpu_hw.memory.table_ram import SELECT_BITS


def plan_shape(target):
    """Return the layout of what the address walk of one CONV needs (``minus_one`` fields raw).

    ``column_jump``: words from an output column's window to the next one's; ``row_offset``: from
    the first row of its bank to the first input row. Padding are columns of a window beyond
    ``right_rest`` (one ``stride_w`` less each column) and rows beyond ``bottom_limit``; the window
    of output row ``p`` begins with row ``rows[p]``.

    All words a CONV reads lie from one of its ``bases_used`` (a bit an address group) to
    ``read_span`` words after it, all it writes from ``bank_addr_out`` to ``write_span`` after it; a
    span of depth - 1 stands for any longer one.
    """
    abits = ceil_log2(target.bank_depth)
    return data.StructLayout({
        "length": 10, "channel_group": 8, "kernel_h": 4, "kernel_w": 4, "stride_h": 4,
        "stride_w": 4, "stride_out": 4, "stride_offset_in": 4, "jump_read": abits,
        "jump_read_endl": abits, "column_jump": abits, "row_offset": abits,
        "bank_in": range(target.pixel_parallel), "group_in": 2, "group_out": 2,
        "bank_addr_in": abits, "bank_addr_in_1": abits, "bank_addr_in_2": abits,
        "bank_addr_in_3": abits, "bank_addr_weights": abits,
        "pad_left": 4, "pad_top": 4, "right_rest": 16, "bottom_limit": 9,
        "rows": data.ArrayLayout(unsigned(9), target.pixel_parallel), "channel_offset": 5,
        "bank_addr_out": abits, "bases_used": 4, "read_span": abits, "write_span": abits,
        **({"tabled": 1} if Extension.TABLE in target.extensions else {}),
        **({"scaled": 1, "zero_in": signed(8)} if Extension.SCALED in target.extensions else {}),
    })


def result_shape(target):
    """Return the layout of what the write-back of one CONV needs (``minus_one`` fields raw).

    In the first turn of a column bank ``b`` gets row ``first_row[b]``, in each other one the next;
    it gets none where that is not in 0..``last_row``. Its rows are ``wrap_jump`` words further for
    each of the ``wraps[b]`` times that rows have come round to the first bank.
    """
    abits = ceil_log2(target.bank_depth)
    banks = target.pixel_parallel
    return data.StructLayout({
        "length": 10, "stride_out": 4, "group_out": 2, "last_row": 4,
        "bank_addr_out": abits, "jump_write": abits, "jump_write_endl": abits, "wrap_jump": abits,
        "first_row": data.ArrayLayout(signed(10), banks),
        "wraps": data.ArrayLayout(unsigned(3), banks),
        "act": 4, "shift_cut": 6, "shift_bias": 6,
        "bias": data.ArrayLayout(signed(8), target.output_channel_parallel),
        **({"table": SELECT_BITS} if Extension.TABLE in target.extensions else {}),
        **({"shifts": data.ArrayLayout(unsigned(8), target.output_channel_parallel)}
           if Extension.CHANNEL in target.extensions else {}),
        **({"scaled": 1, "record": record_bits(target)}
           if Extension.SCALED in target.extensions else {}),
    })


def split_result_shape(target):
    """Return the layouts of what is needed when sums are complete, and when they are written."""
    members = result_shape(target).members
    sums = ("length", "bank_addr_out", "jump_write", "act", "shift_cut", "shift_bias", "bias",
            "group_out", "stride_out",
            *(n for n in ("table", "shifts", "scaled", "record") if n in members))
    writes = ("stride_out", "group_out", "last_row", "jump_write_endl", "wrap_jump", "first_row",
              "wraps")
    return tuple(data.StructLayout({name: members[name] for name in names})
                 for names in (sums, writes))
