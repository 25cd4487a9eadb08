# SPDX-License-Identifier: Apache-2.0
"""The host's registers (``opendpu_arch.regs``) behind AXI4-Lite."""

from amaranth.hdl import Cat, Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import regs
from opendpu_arch.target import MAX_ADDRESS_REGISTERS
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH
from opendpu_hw.bus.axi_lite import AxiLiteSignature, AxiLiteSlave
from opendpu_hw.shapes import segments_shape

ADDR_WIDTH = 12
_COUNTERS = ("BUSY_LOAD", "BUSY_SAVE", "BUSY_CONV", "BUSY_MISC", "ACTIVE_CONV", "ACTIVE_MISC")
#: Reset value of HP: 7 bursts, 16 beats, as AMD's driver writes.
_HP = 0x07070F0F


class Registers(wiring.Component):
    """Register file, interrupt and counters.

    Members
    -------
    bus : ``In(AxiLiteSignature)``
        S_AXI_CONTROL.
    interrupt : ``Out(1)``
        High while the interrupt is pending and enabled.
    start, instr_addr, segments : ``Out``
        Begin a program: one-cycle pulse, its address, its memory.
    running, finished : ``In(1)``
        A program runs; pulse at its end.
    status : ``In(32)``, fault_instruction : ``In(32)``, fault_addr : ``In(40)``
        What STATUS and FAULT_* read.
    busy : ``In(1).array(4)``, active_conv, active_misc, tokens : ``In(1)``
        What the counters count; by :class:`opendpu_arch.isa.Engine`.
    started, ended : ``In(1).array(4)``
        Instructions of the engines.
    """

    def __init__(self, target):
        self._target = target
        super().__init__({
            "bus": In(AxiLiteSignature(addr_width=ADDR_WIDTH)), "interrupt": Out(1),
            "start": Out(1), "instr_addr": Out(ADDRESS_WIDTH), "segments": Out(segments_shape),
            "running": In(1), "finished": In(1), "status": In(32),
            "fault_instruction": In(32), "fault_addr": In(ADDRESS_WIDTH),
            "busy": In(1).array(4), "active_conv": In(1), "active_misc": In(1), "tokens": In(1),
            "started": In(1).array(4), "ended": In(1).array(4),
        })

    def elaborate(self, platform):
        m = Module()
        target = self._target
        m.submodules.slave = slave = AxiLiteSlave(addr_width=ADDR_WIDTH)
        wiring.connect(m, wiring.flipped(self.bus), slave.bus)

        storage, readable = {}, {}

        def at(name):
            return regs.OFFSET[name] >> 2

        def writable(name, init=0):
            register = Signal(32, name=name.lower(), init=init)
            storage[name] = readable[name] = register
            with m.If(slave.write & (slave.write_addr == at(name))):
                for byte in range(4):
                    part = slice(8 * byte, 8 * byte + 8)
                    with m.If(slave.write_strobe[byte]):
                        m.d.sync += register[part].eq(slave.write_data[part])
            return register

        # -- start, done, interrupt ---------------------------------------------------------------
        done = Signal()
        isr = Signal()
        gie, ier = writable("GIE"), writable("IER")
        write_ctrl = slave.write & (slave.write_addr == at("AP_CTRL")) & slave.write_strobe[0]
        m.d.comb += [
            self.start.eq(write_ctrl & slave.write_data[0] & ~self.running),
            self.interrupt.eq(isr & gie[0]),
        ]
        with m.If(slave.read & (slave.read_addr == at("AP_CTRL"))):
            m.d.sync += done.eq(0)
        for name in ("ISR", "IRQ_CLEAR"):
            with m.If(slave.write & (slave.write_addr == at(name)) & slave.write_strobe[0]
                      & slave.write_data[0]):
                m.d.sync += isr.eq(0)
        with m.If(self.finished):
            m.d.sync += done.eq(1)
            with m.If(ier[0]):
                m.d.sync += isr.eq(1)
        with m.If(self.start):
            m.d.sync += done.eq(0)
        readable["AP_CTRL"] = Cat(self.running, done, ~self.running, ~self.running)
        readable["ISR"] = isr
        readable["IRQ_CLEAR"] = 0

        # -- addresses ----------------------------------------------------------------------------
        for name in ("PROF_ENA", "PROF_ADDR_L", "PROF_ADDR_H"):
            writable(name)
        writable("HP", _HP)
        high = ADDRESS_WIDTH - 32
        m.d.comb += self.instr_addr.eq(Cat(writable("INSTR_ADDR_L"),
                                           writable("INSTR_ADDR_H")[:high]))
        for i in range(MAX_ADDRESS_REGISTERS):
            m.d.comb += [
                self.segments[i].base.eq(Cat(writable(f"ADDR_{i}_L"),
                                             writable(f"ADDR_{i}_H")[:high])),
                self.segments[i].size.eq(writable(f"SEGMENT_SIZE_{i}")),
            ]

        # -- counters -----------------------------------------------------------------------------
        def counter(name, condition, width=32):
            register = Signal(width, name=name.lower())
            with m.If(self.start):
                m.d.sync += register.eq(0)
            with m.Elif(condition):
                m.d.sync += register.eq(register + 1)
            return register

        cycles = counter("cycle", self.running, 64)
        readable["CYCLE_L"], readable["CYCLE_H"] = cycles[:32], cycles[32:]
        conditions = [*self.busy, self.active_conv, self.active_misc]
        for name, condition in zip(_COUNTERS, conditions, strict=True):
            readable[name] = counter(name, self.running & condition)
        for number, engine in enumerate(("LOAD", "SAVE", "CONV", "MISC")):
            readable[f"{engine}_START"] = counter(f"{engine}_START", self.started[number])
            readable[f"{engine}_END"] = counter(f"{engine}_END", self.ended[number])
        readable["STATUS"] = self.status
        readable["FAULT_INSTRUCTION"] = self.fault_instruction
        readable["FAULT_ADDR_L"] = self.fault_addr[:32]
        readable["FAULT_ADDR_H"] = self.fault_addr[32:]
        readable["TOKENS"] = self.tokens

        # -- constants ----------------------------------------------------------------------------
        parallel = target.channel_parallel & 0xF
        readable |= {
            "SYS": regs.IP_VERSION << 24 | 1 << 16 | 1, "TIMESTAMP": 0, "FREQ": 0,
            "GIT_COMMIT_ID": 0, "COMMIT_TIME": 0, "SUB_VERSION": 0,
            "LOAD_CONFIG": (parallel | int(target.load_mean) << 4
                            | int(target.channel_augmentation) << 8),
            "SAVE_CONFIG": parallel,
            "FINGERPRINT_L": target.fingerprint & 0xFFFFFFFF,
            "FINGERPRINT_H": target.fingerprint >> 32,
        }
        if target.extensions:
            readable["EXTENSIONS"] = sum(1 << e for e in target.extensions)
        missing = {r.name for r in regs.registers_of(target.extensions)} ^ set(readable)
        if missing:
            raise RuntimeError(f"registers without hardware, or the reverse: {sorted(missing)}")
        value = Signal(unsigned(32))
        with m.Switch(slave.read_addr):
            for name, register in readable.items():
                with m.Case(at(name)):
                    m.d.comb += value.eq(register)
        m.d.comb += slave.read_data.eq(value)
        return m
