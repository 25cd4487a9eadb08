# SPDX-License-Identifier: Apache-2.0
"""A toy with the ports of the DPU: it copies beats, so that the harness can be tested by itself."""

from amaranth.hdl import (
    Cat,
    ClockDomain,
    ClockSignal,
    Elaboratable,
    Module,
    Mux,
    ResetSignal,
    Signal,
)
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import Component

from opendpu_arch.regs import OFFSET, Fault
from opendpu_sim.tb.standin_ports import dpu_members

COPY, LOOP, END = 0x0, 0x3, 0x7
"""Opcodes, bits [31:28]: COPY beats source destination (three words), LOOP for ever, END."""
DROP_VALID, CROSS_PAGE, WRONG_LAST = 1 << 24, 1 << 25, 1 << 26
"""Bits of COPY's first word that break one bus rule each, so that a harness can show it looks."""


class _Copy:
    """What the copying state machine remembers of a copy, and how it stops."""

    def __init__(self, m: Module, state: dict[str, Signal]) -> None:
        self.m, self.state = m, state
        self.pc, self.count = Signal(40, name="pc"), Signal(2, name="count")
        self.source, self.sink = Signal(40, name="source"), Signal(40, name="sink")
        self.left, self.chunk = Signal(16, name="left"), Signal(4, name="chunk")
        self.beat = Signal(4, name="beat")
        self.drop_valid, self.cross_page, self.wrong_last = (
            Signal(name=name) for name in ("drop_valid", "cross_page", "wrong_last")
        )

    def stop(self, cause: Fault, address: Signal) -> None:
        """End the program; the state after this is ``Idle``."""
        m, state = self.m, self.state
        m.d.sync += [
            state["cause"].eq(cause),
            state["address"].eq(address),
            state["isr"].eq(1),
            state["done"].eq(1),
            state["running"].eq(0),
        ]
        m.next = "Idle"


class StandIn(Component):
    """Reads words over the instruction port, copies data0 to data1, and raises the interrupt."""

    def __init__(self) -> None:
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
        copy = _Copy(m, state)
        instr, read, write = (self._bus(f"m_axi_{name}_") for name in ("instr", "data0", "data1"))
        self._drive(m, copy, instr, read, write)
        with m.If(state["running"]):
            m.d.sync += state["cycle"].eq(state["cycle"] + 1)
        with m.FSM():
            with m.State("Idle"), m.If(state["start"]):
                m.d.sync += [
                    *(state[name].eq(0) for name in ("done", "cause", "cycle", "number")),
                    state["running"].eq(1),
                    copy.pc.eq(Cat(regs["INSTR_ADDR_L"], regs["INSTR_ADDR_H"][:8])),
                    copy.count.eq(0),
                ]
                m.next = "Fetch"
            bases = [Cat(regs[f"ADDR_{i}_L"], regs[f"ADDR_{i}_H"][:8]) for i in range(2)]
            self._fetch(copy, instr, bases)
            self._split(copy)
            self._read(copy, read)
            self._write(copy, write)

    def _drive(
        self, m: Module, copy: _Copy,
        instr: dict[str, Signal], read: dict[str, Signal], write: dict[str, Signal],
    ) -> None:  # fmt: skip
        """Drive what does not depend on the state."""
        m.submodules.buffer = buffer = Memory(shape=128, depth=16, init=[])
        into, out_of = buffer.write_port(), buffer.read_port(domain="comb")
        m.d.comb += [
            instr["arsize"].eq(2),
            instr["arburst"].eq(1),
            instr["araddr"].eq(copy.pc),
            read["arsize"].eq(4),
            read["arburst"].eq(1),
            read["arlen"].eq(copy.chunk),
            read["araddr"].eq(copy.source),
            write["awsize"].eq(4),
            write["awburst"].eq(1),
            write["awlen"].eq(copy.chunk),
            write["awaddr"].eq(copy.sink),
            write["wstrb"].eq(0xFFFF),
            write["wdata"].eq(out_of.data),
            write["wlast"].eq(copy.beat == Mux(copy.wrong_last, 0, copy.chunk)),
            out_of.addr.eq(copy.beat),
            into.addr.eq(copy.beat),
            into.data.eq(read["rdata"]),
            into.en.eq(read["rvalid"] & read["rready"]),
        ]

    def _fetch(self, copy: _Copy, instr: dict[str, Signal], bases: list[Cat]) -> None:
        m = copy.m
        words = [Signal(32, name=f"word{i}") for i in range(4)]
        with m.State("Fetch"):
            m.d.comb += instr["arvalid"].eq(1)
            with m.If(instr["arready"]):
                m.next = "Word"
        with m.State("Word"):
            m.d.comb += instr["rready"].eq(1)
            with m.If(instr["rvalid"]):
                m.d.sync += [copy.pc.eq(copy.pc + 4), copy.count.eq(copy.count + 1)]
                m.next = "Fetch"
                for k, word in enumerate(words):
                    with m.If(copy.count == k):
                        m.d.sync += word.eq(instr["rdata"])
                with m.If(instr["rresp"].any()):
                    copy.stop(Fault.FETCH_ERROR, copy.pc)
                with m.Elif(copy.count == 0), m.Switch(instr["rdata"][28:]):
                    with m.Case(COPY):
                        pass
                    with m.Case(LOOP):
                        m.next = "Loop"
                    with m.Case(END):
                        copy.stop(Fault.NONE, copy.pc)
                    with m.Default():
                        copy.stop(Fault.UNKNOWN_OPCODE, copy.pc)
                with m.Elif(copy.count == 2):
                    m.d.sync += [
                        copy.left.eq(words[0]),
                        Cat(copy.drop_valid, copy.cross_page, copy.wrong_last).eq(words[0][24:27]),
                        copy.source.eq(bases[0] + words[1]),
                        copy.sink.eq(bases[1] + instr["rdata"]),
                        copy.count.eq(0),
                    ]
                    m.next = "Split"
        with m.State("Loop"):
            pass

    def _split(self, copy: _Copy) -> None:
        """Cut what is left into bursts of 16 beats that cross no page."""
        m, left, chunk = copy.m, copy.left, copy.chunk
        room = Signal(12)
        m.d.comb += room.eq(0x100 - (copy.source[4:12] | copy.sink[4:12]))
        with m.State("Split"):
            with m.If(copy.cross_page | ((left > 16) & (room > 16))):
                m.d.sync += chunk.eq(15)
            with m.Elif(left < room):
                m.d.sync += chunk.eq(left - 1)
            with m.Else():
                m.d.sync += chunk.eq(room - 1)
            m.d.sync += copy.beat.eq(0)
            m.next = "Read"
            with m.If(left == 0):
                m.d.sync += copy.state["number"].eq(copy.state["number"] + 1)
                m.next = "Fetch"

    def _read(self, copy: _Copy, read: dict[str, Signal]) -> None:
        m, state = copy.m, copy.state
        with m.State("Read"):
            seen = Signal()
            m.d.sync += seen.eq(~seen)
            m.d.comb += read["arvalid"].eq(seen | ~copy.drop_valid)
            with m.If(read["arvalid"] & read["arready"]):
                m.next = "Beats"
        with m.State("Beats"):
            m.d.comb += read["rready"].eq(1)
            with m.If(read["rvalid"]):
                m.d.sync += copy.beat.eq(copy.beat + 1)
                with m.If(read["rresp"].any()):
                    m.d.sync += [
                        state["cause"].eq(Fault.LOAD_BUS_ERROR),
                        state["address"].eq(copy.source + (copy.beat << 4)),
                    ]
                with m.If(read["rlast"]):
                    m.d.sync += copy.beat.eq(0)
                    m.next = "Write"
                    with m.If(read["rresp"].any() | state["cause"].any()):
                        copy.stop(Fault.LOAD_BUS_ERROR, copy.source)

    def _write(self, copy: _Copy, write: dict[str, Signal]) -> None:
        m, chunk = copy.m, copy.chunk
        with m.State("Write"):
            m.d.comb += write["awvalid"].eq(1)
            with m.If(write["awready"]):
                m.next = "Data"
        with m.State("Data"):
            m.d.comb += write["wvalid"].eq(1)
            with m.If(write["wready"]):
                m.d.sync += copy.beat.eq(copy.beat + 1)
                with m.If(copy.beat == chunk):
                    m.next = "Answer"
        with m.State("Answer"):
            m.d.comb += write["bready"].eq(1)
            with m.If(write["bvalid"]):
                m.d.sync += [
                    copy.left.eq(copy.left - chunk - 1),
                    copy.source.eq(copy.source + ((chunk + 1) << 4)),
                    copy.sink.eq(copy.sink + ((chunk + 1) << 4)),
                ]
                m.next = "Split"
                with m.If(write["bresp"].any()):
                    copy.stop(Fault.SAVE_BUS_ERROR, copy.sink)

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
