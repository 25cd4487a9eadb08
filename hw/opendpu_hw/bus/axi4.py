# SPDX-License-Identifier: Apache-2.0
"""AXI4: what a master port has, and the constants all of ours share."""

from amaranth.lib.wiring import In, Out, Signature

#: Width of every address.
ADDRESS_WIDTH = 40
#: Bytes an INCR burst must not cross.
PAGE_BYTES = 4096
#: ``axburst`` of an incrementing burst.
INCR = 1
#: ``axcache`` of ordinary memory: modifiable, bufferable.
CACHE = 0b0011


def _address_channel(prefix, addr_width):
    return {
        f"{prefix}id": Out(1), f"{prefix}addr": Out(addr_width), f"{prefix}len": Out(8),
        f"{prefix}size": Out(3), f"{prefix}burst": Out(2), f"{prefix}lock": Out(1),
        f"{prefix}cache": Out(4), f"{prefix}prot": Out(3), f"{prefix}valid": Out(1),
        f"{prefix}ready": In(1)}


class Axi4Signature(Signature):
    """An AXI4 port seen from the master.

    Parameters
    ----------
    data_width : :class:`int`
        Bits of a beat, a power of two from 8 to 1024.
    addr_width : :class:`int`
        Bits of an address.
    read, write : :class:`bool`
        Which halves there are.
    """

    def __init__(self, *, data_width, addr_width=ADDRESS_WIDTH, read=True, write=True):
        if data_width not in (8, 16, 32, 64, 128, 256, 512, 1024):
            raise ValueError(f"AXI4 data width is {data_width}, but must be 8, 16, … 1024")
        if not (read or write):
            raise ValueError("an AXI4 port has neither read nor write, but must have one of them")
        self.data_width = data_width
        self.addr_width = addr_width
        members = {}
        if write:
            members |= _address_channel("aw", addr_width)
            members |= {
                "wdata": Out(data_width), "wstrb": Out(data_width // 8), "wlast": Out(1),
                "wvalid": Out(1), "wready": In(1),
                "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1)}
        if read:
            members |= _address_channel("ar", addr_width)
            members |= {
                "rid": In(1), "rdata": In(data_width), "rresp": In(2), "rlast": In(1),
                "rvalid": In(1), "rready": Out(1)}
        super().__init__(members)


def read_signature(data_width, addr_width=ADDRESS_WIDTH):
    """Return the signature of a master that only reads."""
    return Axi4Signature(data_width=data_width, addr_width=addr_width, write=False)


def write_signature(data_width, addr_width=ADDRESS_WIDTH):
    """Return the signature of a master that only writes."""
    return Axi4Signature(data_width=data_width, addr_width=addr_width, read=False)


def constant_fields(bus, prefix):
    """Return the assignments of the address fields that never change: ID 0, INCR, full beats."""
    beat = len(bus.rdata if prefix == "ar" else bus.wdata) // 8
    return [
        getattr(bus, f"{prefix}id").eq(0),
        getattr(bus, f"{prefix}size").eq(beat.bit_length() - 1),
        getattr(bus, f"{prefix}burst").eq(INCR),
        getattr(bus, f"{prefix}lock").eq(0),
        getattr(bus, f"{prefix}cache").eq(CACHE),
        getattr(bus, f"{prefix}prot").eq(0),
    ]
