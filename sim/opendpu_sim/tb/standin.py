# SPDX-License-Identifier: Apache-2.0
"""A toy with the ports of the DPU: it copies beats, so that the harness can be tested by itself."""

from typing import Any

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Elaboratable, Module, ResetSignal, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component, In, Out

from opendpu_arch.regs import OFFSET, Fault

COPY, LOOP, END = 0x0, 0x3, 0x7
"""Opcodes, bits [31:28]: COPY beats source destination (three words), LOOP for ever, END."""

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


class StandIn(Component):
    """Reads words over the instruction port, copies data0 to data1, and raises the interrupt.

    Parameters
    ----------
    drop_valid, cross_page, wrong_last
        Break one bus rule each, so that the harness can show that it looks.
    """

    def __init__(
        self, *, drop_valid: bool = False, cross_page: bool = False, wrong_last: bool = False
    ) -> None:
        self._drop_valid = drop_valid
        self._cross_page = cross_page
        self._wrong_last = wrong_last
        super().__init__(dpu_members())

    def elaborate(self, platform: object) -> Elaboratable:
        """Return registers and the copying state machine."""
        m = Module()
        m.domains.sync = ClockDomain()
        m.d.comb += [ClockSignal().eq(self.aclk), ResetSignal().eq(~self.aresetn)]
        regs = {n: Signal(32, name=n.lower()) for n in _KEPT}
        state = {n: Signal(w, name=n) for n, w in _STATE.items()}
        self._control(m, regs, state)
        self._machine(m, regs, state)
        return m

    def _control(self, m: Module, regs: dict[str, Signal], state: dict[str, Signal]) -> None:
        p = "s_axi_control_"
        awaddr, wdata = getattr(self, p + "awaddr"), getattr(self, p + "wdata")
        awvalid, wvalid = getattr(self, p + "awvalid"), getattr(self, p + "wvalid")
        awready, wready = getattr(self, p + "awready"), getattr(self, p + "wready")
        bvalid, bready = getattr(self, p + "bvalid"), getattr(self, p + "bready")
        arvalid, arready = getattr(self, p + "arvalid"), getattr(self, p + "arready")
        rvalid, rdata = getattr(self, p + "rvalid"), getattr(self, p + "rdata")
        have_aw, have_w = Signal(), Signal()
        address, value = Signal(12), Signal(32)
        m.d.comb += [awready.eq(~have_aw & ~bvalid), wready.eq(~have_w & ~bvalid)]
        with m.If(awvalid & awready):
            m.d.sync += [have_aw.eq(1), address.eq(awaddr)]
        with m.If(wvalid & wready):
            m.d.sync += [have_w.eq(1), value.eq(wdata)]
        m.d.sync += state["start"].eq(0)
        with m.If(have_aw & have_w):
            m.d.sync += [have_aw.eq(0), have_w.eq(0), bvalid.eq(1)]
            with m.Switch(address):
                for name, register in regs.items():
                    with m.Case(OFFSET[name]):
                        m.d.sync += register.eq(value)
                with m.Case(OFFSET["AP_CTRL"]):
                    m.d.sync += state["start"].eq(value[0])
                with m.Case(OFFSET["ISR"], OFFSET["IRQ_CLEAR"]), m.If(value[0]):
                    m.d.sync += state["isr"].eq(0)
        with m.If(bvalid & bready):
            m.d.sync += bvalid.eq(0)
        m.d.comb += arready.eq(~rvalid)
        with m.If(arvalid & arready):
            m.d.sync += [rvalid.eq(1), rdata.eq(0)]
            with m.Switch(getattr(self, p + "araddr")):
                for name, register in regs.items():
                    with m.Case(OFFSET[name]):
                        m.d.sync += rdata.eq(register)
                for name, source in {
                    "AP_CTRL": Cat(state["start"], state["done"], ~state["running"]),
                    "STATUS": Cat(state["cause"], Signal(4), state["cause"] != 0),
                    "FAULT_INSTRUCTION": state["number"],
                    "FAULT_ADDR_L": state["address"][:32],
                    "FAULT_ADDR_H": state["address"][32:],
                    "CYCLE_L": state["cycle"],
                    "LOAD_END": state["number"],
                    "SAVE_END": state["done"] & (state["cause"] == 0),
                }.items():
                    with m.Case(OFFSET[name]):
                        m.d.sync += rdata.eq(source)
        with m.If(rvalid & getattr(self, p + "rready")):
            m.d.sync += rvalid.eq(0)
        m.d.comb += [
            self.interrupt.eq(state["isr"] & regs["GIE"][0] & regs["IER"][0]),
            self.events.eq(state["running"] << 8),
        ]

    def _machine(self, m: Module, regs: dict[str, Signal], state: dict[str, Signal]) -> None:
        m.submodules.buffer = buffer = Memory(shape=128, depth=16, init=[])
        write, read = buffer.write_port(), buffer.read_port(domain="comb")
        pc, words = Signal(40), [Signal(32, name=f"word{i}") for i in range(4)]
        count, beat, left, chunk = Signal(2), Signal(4), Signal(16), Signal(4)
        source, sink = Signal(40), Signal(40)
        room = Signal(12)
        bases = [Cat(regs[f"ADDR_{i}_L"], regs[f"ADDR_{i}_H"][:8]) for i in range(2)]
        a, b = "m_axi_data0_", "m_axi_data1_"
        i_, r0, w1 = self._bus("m_axi_instr_"), self._bus(a), self._bus(b)
        m.d.comb += [
            i_["arsize"].eq(2),
            i_["arburst"].eq(1),
            i_["araddr"].eq(pc),
            r0["arsize"].eq(4),
            r0["arburst"].eq(1),
            r0["arlen"].eq(chunk),
            r0["araddr"].eq(source),
            w1["awsize"].eq(4),
            w1["awburst"].eq(1),
            w1["awlen"].eq(chunk),
            w1["awaddr"].eq(sink),
            w1["wstrb"].eq(0xFFFF),
            w1["wdata"].eq(read.data),
            w1["wlast"].eq(beat == (chunk if not self._wrong_last else 0)),
            read.addr.eq(beat),
            write.addr.eq(beat),
            write.data.eq(r0["rdata"]),
            write.en.eq(r0["rvalid"] & r0["rready"]),
            room.eq(0x100 - (source[4:12] | sink[4:12])),
        ]

        def stop(cause: Fault | Signal, address: Signal) -> None:
            m.d.sync += [
                state["cause"].eq(cause),
                state["address"].eq(address),
                state["isr"].eq(1),
                state["done"].eq(1),
                state["running"].eq(0),
            ]
            m.next = "Idle"

        with m.If(state["running"]):
            m.d.sync += state["cycle"].eq(state["cycle"] + 1)
        with m.FSM():
            with m.State("Idle"), m.If(state["start"]):
                m.d.sync += [
                    state["running"].eq(1),
                    state["done"].eq(0),
                    state["cause"].eq(0),
                    state["cycle"].eq(0),
                    state["number"].eq(0),
                    pc.eq(Cat(regs["INSTR_ADDR_L"], regs["INSTR_ADDR_H"][:8])),
                    count.eq(0),
                ]
                m.next = "Fetch"
            with m.State("Fetch"):
                m.d.comb += i_["arvalid"].eq(1)
                with m.If(i_["arready"]):
                    m.next = "Word"
            with m.State("Word"):
                m.d.comb += i_["rready"].eq(1)
                with m.If(i_["rvalid"]):
                    m.d.sync += [pc.eq(pc + 4), count.eq(count + 1)]
                    m.next = "Fetch"
                    for k, word in enumerate(words):
                        with m.If(count == k):
                            m.d.sync += word.eq(i_["rdata"])
                    with m.If(i_["rresp"].any()):
                        stop(Fault.FETCH_ERROR, pc)
                    with m.Elif(count == 0), m.Switch(i_["rdata"][28:]):
                        with m.Case(COPY):
                            pass
                        with m.Case(LOOP):
                            m.next = "Loop"
                        with m.Case(END):
                            stop(Fault.NONE, pc)
                        with m.Default():
                            stop(Fault.UNKNOWN_OPCODE, pc)
                    with m.Elif(count == 2):
                        m.d.sync += [
                            left.eq(words[0]),
                            source.eq(bases[0] + words[1]),
                            sink.eq(bases[1] + i_["rdata"]),
                            count.eq(0),
                        ]
                        m.next = "Split"
            with m.State("Loop"):
                pass
            with m.State("Split"):
                if self._cross_page:
                    m.d.sync += chunk.eq(15)
                else:
                    with m.If((left > 16) & (room > 16)):
                        m.d.sync += chunk.eq(15)
                    with m.Elif(left < room):
                        m.d.sync += chunk.eq(left - 1)
                    with m.Else():
                        m.d.sync += chunk.eq(room - 1)
                m.d.sync += beat.eq(0)
                m.next = "Read"
                with m.If(left == 0):
                    m.d.sync += state["number"].eq(state["number"] + 1)
                    m.next = "Fetch"
            with m.State("Read"):
                if self._drop_valid:
                    seen = Signal()
                    m.d.sync += seen.eq(~seen)
                    m.d.comb += r0["arvalid"].eq(seen)
                else:
                    m.d.comb += r0["arvalid"].eq(1)
                with m.If(r0["arvalid"] & r0["arready"]):
                    m.next = "Beats"
            with m.State("Beats"):
                m.d.comb += r0["rready"].eq(1)
                with m.If(r0["rvalid"]):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(r0["rresp"].any()):
                        m.d.sync += [
                            state["cause"].eq(Fault.LOAD_BUS_ERROR),
                            state["address"].eq(source + (beat << 4)),
                        ]
                    with m.If(r0["rlast"]):
                        m.d.sync += beat.eq(0)
                        m.next = "Write"
                        with m.If(r0["rresp"].any() | state["cause"].any()):
                            stop(Fault.LOAD_BUS_ERROR, source)
            with m.State("Write"):
                m.d.comb += w1["awvalid"].eq(1)
                with m.If(w1["awready"]):
                    m.next = "Data"
            with m.State("Data"):
                m.d.comb += w1["wvalid"].eq(1)
                with m.If(w1["wready"]):
                    m.d.sync += beat.eq(beat + 1)
                    with m.If(beat == chunk):
                        m.next = "Answer"
            with m.State("Answer"):
                m.d.comb += w1["bready"].eq(1)
                with m.If(w1["bvalid"]):
                    m.d.sync += [
                        left.eq(left - chunk - 1),
                        source.eq(source + ((chunk + 1) << 4)),
                        sink.eq(sink + ((chunk + 1) << 4)),
                    ]
                    m.next = "Split"
                    with m.If(w1["bresp"].any()):
                        stop(Fault.SAVE_BUS_ERROR, sink)

    def _bus(self, prefix: str) -> dict[str, Signal]:
        return {
            name.removeprefix(prefix): getattr(self, name)
            for name in dpu_members()
            if name.startswith(prefix)
        }


_KEPT = [
    "GIE",
    "IER",
    "INSTR_ADDR_L",
    "INSTR_ADDR_H",
    *(f"ADDR_{i}_{half}" for i in range(8) for half in "LH"),
    *(f"SEGMENT_SIZE_{i}" for i in range(8)),
]
_STATE = {
    "start": 1,
    "running": 1,
    "done": 1,
    "isr": 1,
    "cause": 8,
    "number": 32,
    "address": 40,
    "cycle": 32,
}
