# SPDX-License-Identifier: Apache-2.0
"""The host's registers (``opendpu_arch.regs``) behind AXI4-Lite.

What the host writes is read back from a memory of LUTs, which costs less than a multiplexer of all
registers; flip-flops keep what the hardware needs.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from opendpu_arch import regs
from opendpu_arch.target import MAX_ADDRESS_REGISTERS
from opendpu_hw.bus.axi4 import ADDRESS_WIDTH
from opendpu_hw.bus.axi_lite import AxiLiteSignature, AxiLiteSlave
from opendpu_hw.datapath.multiplexer import choose
from opendpu_hw.shapes import segments_shape

ADDR_WIDTH = 12
_COUNTERS = ("BUSY_LOAD", "BUSY_SAVE", "BUSY_CONV", "BUSY_MISC", "ACTIVE_CONV", "ACTIVE_MISC")
#: Reset value of HP: 7 bursts, 16 beats, as AMD's driver writes.
_HP = 0x07070F0F
#: Lowest bits of a register's number: those that tell stored registers apart; those that choose
#: in a group of others.
_STORED_BITS, _GROUP_BITS = 6, 4


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
    busy : ``In(1).array(4)``, active_conv, active_misc : ``In(1)``
        Cycles to count; ``busy`` by :class:`opendpu_arch.isa.Engine`.
    started, ended : ``In(1).array(4)``
        Pulses to count: an instruction of an engine begins, ends.
    tokens : ``In(1)``
        What TOKENS reads.
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
        m.submodules.slave = slave = AxiLiteSlave(addr_width=ADDR_WIDTH)
        wiring.connect(m, wiring.flipped(self.bus), slave.bus)
        stored = _Stored(slave)
        readable = self._control(m, slave, stored)
        self._addresses(m, stored)
        readable |= self._counters(m) | self._state() | self._constants()
        values = {_number(name): Const(value, 32) if isinstance(value, int) else value
                  for name, value in readable.items()}
        missing = {r.offset >> 2 for r in regs.registers_of(self._target.extensions)} ^ (
            set(values) | set(stored.resets))
        if missing:
            raise RuntimeError(
                f"registers without hardware, or the reverse: {sorted(4 * n for n in missing)}")
        m.d.comb += slave.read_data.eq(_read(m, slave, values) | stored.read(m))
        return m

    def _control(self, m, slave, stored):
        """Start programs and raise the interrupt; return what its registers read."""
        done = Signal()
        isr = Signal()
        gie, ier = stored.add(m, "GIE", used=1), stored.add(m, "IER", used=1)
        write_ctrl = (slave.write & (slave.write_addr == _number("AP_CTRL"))
                      & slave.write_strobe[0])
        m.d.comb += [
            self.start.eq(write_ctrl & slave.write_data[0] & ~self.running),
            self.interrupt.eq(isr & gie[0]),
        ]
        with m.If(slave.read & (slave.read_addr == _number("AP_CTRL"))):
            m.d.sync += done.eq(0)
        for name in ("ISR", "IRQ_CLEAR"):
            with m.If(slave.write & (slave.write_addr == _number(name)) & slave.write_strobe[0]
                      & slave.write_data[0]):
                m.d.sync += isr.eq(0)
        with m.If(self.finished):
            m.d.sync += done.eq(1)
            with m.If(ier[0]):
                m.d.sync += isr.eq(1)
        with m.If(self.start):
            m.d.sync += done.eq(0)
        return {
            "AP_CTRL": Cat(self.running, done, ~self.running, ~self.running), "ISR": isr,
            "IRQ_CLEAR": 0,
        }

    def _addresses(self, m, stored):
        """Store where the program and its segments are, and what is only read back."""
        for name in ("PROF_ENA", "PROF_ADDR_L", "PROF_ADDR_H"):
            stored.add(m, name, used=0)
        stored.add(m, "HP", _HP, used=0)
        high = ADDRESS_WIDTH - 32
        m.d.comb += self.instr_addr.eq(Cat(
            stored.add(m, "INSTR_ADDR_L"), stored.add(m, "INSTR_ADDR_H", used=high)))
        for i in range(MAX_ADDRESS_REGISTERS):
            m.d.comb += [
                self.segments[i].base.eq(Cat(
                    stored.add(m, f"ADDR_{i}_L"), stored.add(m, f"ADDR_{i}_H", used=high))),
                self.segments[i].size.eq(stored.add(m, f"SEGMENT_SIZE_{i}")),
            ]

    def _counters(self, m):
        """Count cycles and instructions of a program; return what the registers read."""
        def counter(name, condition, width=32):
            register = Signal(width, name=name.lower())
            with m.If(self.start):
                m.d.sync += register.eq(0)
            with m.Elif(condition):
                m.d.sync += register.eq(register + 1)
            return register

        cycles = counter("cycle", self.running, 64)
        found = {"CYCLE_L": cycles[:32], "CYCLE_H": cycles[32:]}
        conditions = [*self.busy, self.active_conv, self.active_misc]
        for name, condition in zip(_COUNTERS, conditions, strict=True):
            found[name] = counter(name, self.running & condition)
        for number, engine in enumerate(("LOAD", "SAVE", "CONV", "MISC")):
            found[f"{engine}_START"] = counter(f"{engine}_START", self.started[number])
            found[f"{engine}_END"] = counter(f"{engine}_END", self.ended[number])
        return found

    def _state(self):
        """Return what registers read that show what others know."""
        return {
            "STATUS": self.status, "FAULT_INSTRUCTION": self.fault_instruction,
            "FAULT_ADDR_L": self.fault_addr[:32], "FAULT_ADDR_H": self.fault_addr[32:],
            "TOKENS": self.tokens,
        }

    def _constants(self):
        """Return the values of registers that never change."""
        target = self._target
        parallel = target.channel_parallel & 0xF
        return {
            "SYS": regs.IP_VERSION << 24 | 1 << 16 | 1, "TIMESTAMP": 0, "FREQ": 0,
            "GIT_COMMIT_ID": 0, "COMMIT_TIME": 0, "SUB_VERSION": 0,
            "LOAD_CONFIG": (parallel | int(target.load_mean) << 4
                            | int(target.channel_augmentation) << 8),
            "SAVE_CONFIG": parallel,
            "FINGERPRINT_L": target.fingerprint & 0xFFFFFFFF,
            "FINGERPRINT_H": target.fingerprint >> 32,
            **({"EXTENSIONS": sum(1 << e for e in target.extensions)}
               if target.extensions else {}),
        }


class _Stored:
    """Registers that the host writes and reads back, in a memory.

    Attributes
    ----------
    resets : dict of int to int
        Reset values by the registers' numbers.
    """

    def __init__(self, slave):
        self._slave = slave
        self.resets = {}

    def add(self, m, name, init=0, used=32):
        """Store a register; return flip-flops of its lowest ``used`` bits, None without any."""
        slave, number = self._slave, _number(name)
        self.resets[number] = init
        if not used:
            return None
        register = Signal(used, name=name.lower(), init=init & (1 << used) - 1)
        with m.If(slave.write & (slave.write_addr == number)):
            for low in range(0, used, 8):
                part = slice(low, min(low + 8, used))
                with m.If(slave.write_strobe[low // 8]):
                    m.d.sync += register[part].eq(slave.write_data[part])
        return register

    def read(self, m):
        """Build the memory; return what is read of its registers, of others zero."""
        slave, places = self._slave, 1 << _STORED_BITS
        resets = {n % places: value for n, value in self.resets.items() if value}
        if len({n % places for n in self.resets}) != len(self.resets):
            raise RuntimeError("two stored registers have one place")
        m.submodules.storage = storage = memory.Memory(shape=unsigned(32), depth=places, init=[])
        writer = storage.write_port(granularity=8)
        reader = storage.read_port(domain="comb")
        # After a reset all places get their value before the first access.
        reset_at = Signal(_STORED_BITS + 1)
        ready = reset_at[-1]
        with m.If(~ready):
            m.d.sync += reset_at.eq(reset_at + 1)
        here = [Signal(name=f"{way}s_stored") for way in ("read", "write")]
        for signal, number in zip(here, (slave.read_addr, slave.write_addr), strict=True):
            with m.Switch(number):
                with m.Case(*self.resets):
                    m.d.comb += signal.eq(1)
        stores = slave.write & here[1]
        value = 0
        for number, reset in resets.items():
            value = value | Mux(reset_at[:-1] == number, reset, 0)
        m.d.comb += [
            slave.open.eq(ready),
            writer.addr.eq(Mux(ready, slave.write_addr[:_STORED_BITS], reset_at[:-1])),
            writer.data.eq(Mux(ready, slave.write_data, value)),
            writer.en.eq(Mux(ready, slave.write_strobe & stores.replicate(4), 0xF)),
            reader.addr.eq(slave.read_addr[:_STORED_BITS]),
        ]
        return Mux(here[0], reader.data, 0)


def _number(name):
    """Return the number of a register: its offset in words."""
    return regs.OFFSET[name] >> 2


def _read(m, slave, values):
    """Return what is read of registers that are not stored, of others zero."""
    group = slave.read_addr[_GROUP_BITS:]
    result = 0
    for number in sorted({n >> _GROUP_BITS for n in values}):
        chosen = Signal(32, name=f"group_{number}")
        m.d.comb += chosen.eq(choose(slave.read_addr[:_GROUP_BITS], [
            values.get((number << _GROUP_BITS) + n, Const(0))
            for n in range(1 << _GROUP_BITS)]))
        result = result | Mux(group == number, chosen, 0)
    return result
