# SPDX-License-Identifier: Apache-2.0
"""The ports of ``opendpu_top``, flat: widths in bits, and which of them come in."""

from typing import Any

from amaranth.lib.wiring import In, Out

_READ = {
    "arid": (1, 0),
    "araddr": (40, 0),
    "arlen": (8, 0),
    "arsize": (3, 0),
    "arburst": (2, 0),
    "arlock": (1, 0),
    "arcache": (4, 0),
    "arprot": (3, 0),
    "arvalid": (1, 0),
    "arready": (1, 1),
    "rid": (1, 1),
    "rdata": (0, 1),
    "rresp": (2, 1),
    "rlast": (1, 1),
    "rvalid": (1, 1),
    "rready": (1, 0),
}
_WRITE = {
    "awid": (1, 0),
    "awaddr": (40, 0),
    "awlen": (8, 0),
    "awsize": (3, 0),
    "awburst": (2, 0),
    "awlock": (1, 0),
    "awcache": (4, 0),
    "awprot": (3, 0),
    "awvalid": (1, 0),
    "awready": (1, 1),
    "wdata": (0, 0),
    "wstrb": (-8, 0),
    "wlast": (1, 0),
    "wvalid": (1, 0),
    "wready": (1, 1),
    "bid": (1, 1),
    "bresp": (2, 1),
    "bvalid": (1, 1),
    "bready": (1, 0),
}
_LITE = {
    "awaddr": (12, 1),
    "awprot": (3, 1),
    "awvalid": (1, 1),
    "awready": (1, 0),
    "wdata": (32, 1),
    "wstrb": (4, 1),
    "wvalid": (1, 1),
    "wready": (1, 0),
    "bresp": (2, 0),
    "bvalid": (1, 0),
    "bready": (1, 1),
    "araddr": (12, 1),
    "arprot": (3, 1),
    "arvalid": (1, 1),
    "arready": (1, 0),
    "rdata": (32, 0),
    "rresp": (2, 0),
    "rvalid": (1, 0),
    "rready": (1, 1),
}


def _members(prefix: str, signals: dict[str, tuple[int, int]], width: int = 0) -> dict[str, Any]:
    sizes = {0: width, -8: width // 8}
    return {
        f"{prefix}_{name}": (In if inward else Out)(sizes.get(bits, bits))
        for name, (bits, inward) in signals.items()
    }


def dpu_members() -> dict[str, Any]:
    """Return the members of ``opendpu_top``, every port flat."""
    members = {"aclk": In(1), "aresetn": In(1), "interrupt": Out(1), "events": Out(9)}
    members |= _members("s_axi_control", _LITE)
    members |= _members("m_axi_instr", _READ, 32)
    for i in range(2):
        members |= _members(f"m_axi_data{i}", _READ | _WRITE, 128)
    return members
