# SPDX-License-Identifier: Apache-2.0
"""CONVs that are being written: how many a bank group, and when they have been."""

from amaranth.hdl import Cat, Const, Mux, Signal

from opendpu_arch import latency
from opendpu_arch.extensions import Extension
from opendpu_hw.bus.level import next_level


def count_in_flight(m, writer, target, summed, head):
    """Count CONVs a bank group; return when the last word of one is about to be written.

    ``writer`` has ``push``, ``payload``, ``clear``, ``pending`` and ``several``, as
    :class:`opendpu_hw.engine.conv_writer.ConvWriter` has them; ``summed``: the last column of
    the CONV in ``head`` is complete.

    Nothing delays its writes, so their end is known: the announcements, which are heeded some
    cycles later at the earliest, come before it.
    """
    readable = latency.CONV_WRITE - 1 - latency.CONV_READABLE
    last_write, longest = head.stride_out, 16
    if Extension.TABLE in target.extensions:
        last_write, longest = head.stride_out + (head.table != 0), 17
    if Extension.SCALED in target.extensions:
        more = latency.conv_scaled(target)
        last_write = last_write + Mux(head.scaled, more, 0)
        longest += more
    completed = []
    for g in range(target.bank_groups):
        count = Signal(4, name=f"count{g}")
        up, down = Signal(name=f"up{g}"), Signal(name=f"down{g}")
        closing = Signal(longest + readable, name=f"closing{g}")     # bit n: in n cycles
        here = summed & (head.group_out == g)
        two = count[1:] == 1            # or three
        m.d.comb += [up.eq(writer.push & (writer.payload.group_out == g)), down.eq(closing[0])]
        # That one starts is known late: no carry chain, nor a comparison, follows.
        m.d.sync += [
            count.eq(next_level(count, up, down)),
            writer.pending[g].eq(up | count[1:].any() | (count[0] & ~down)),
            writer.several[g].eq(
                count[2:].any() | (two & (count[0] | ~down | up)) | (count[0] & up & ~down)),
            closing.eq(closing[1:] | Cat(
                Const(0, readable), (here & (last_write == n) for n in range(longest)))),
        ]
        completed.append(closing[latency.CONV_DONE - latency.CONV_READABLE])
        with m.If(writer.clear):
            m.d.sync += [count.eq(0), closing.eq(0), writer.pending[g].eq(0),
                         writer.several[g].eq(0)]
    return Cat(completed).any()
