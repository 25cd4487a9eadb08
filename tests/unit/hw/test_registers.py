# SPDX-License-Identifier: Apache-2.0
"""Every register as the contract documents it, over AXI4-Lite with a master that dawdles."""

import random

import pytest
from amaranth_bench import simulate, tick

from opendpu_arch import regs
from opendpu_arch.regs import OFFSET, registers_of
from opendpu_arch.target import Target
from opendpu_hw.control.registers import Registers

TARGET = Target.from_name("B512")
ENGINES = ("LOAD", "SAVE", "CONV", "MISC")
#: Registers in which a write does something else than store the value.
ACTIONS = ("AP_CTRL", "ISR", "IRQ_CLEAR")
REGISTERS = registers_of(())
STORED = [r.name for r in REGISTERS if r.access == "rw" and r.name not in ACTIONS]
FIXED = {
    "SYS": regs.IP_VERSION << 24 | 1 << 16 | 1,
    "LOAD_CONFIG": TARGET.channel_parallel
    | TARGET.load_mean << 4
    | TARGET.channel_augmentation << 8,
    "SAVE_CONFIG": TARGET.channel_parallel,
    "FINGERPRINT_L": TARGET.fingerprint & 0xFFFFFFFF,
    "FINGERPRINT_H": TARGET.fingerprint >> 32,
    "HP": 0x07070F0F,
    "AP_CTRL": 0b1100,  # idle, ready
}


class Bench:
    """A master that accesses registers with random delays on every channel."""

    def __init__(self, ctx, dut, seed, *, stall=0.4):
        self.ctx, self.dut, self.bus, self.stall = ctx, dut, dut.bus, stall
        self.rng = random.Random(f"registers {seed}")
        self.starts = 0
        names = ("awready", "wready", "bvalid", "bresp", "arready", "rvalid", "rdata", "rresp")
        self.signals = {n: getattr(dut.bus, n) for n in names} | {"start": dut.start}

    async def step(self, count=1):
        for _ in range(count):
            s = await tick(self.ctx, self.signals)
            self.starts += s["start"]
        return s

    def late(self):
        return self.rng.random() < self.stall

    def set(self, **values):
        for name, value in values.items():
            self.ctx.set(getattr(self.dut, name), value)

    async def write(self, where, value, strobe=0xF):
        """Write register ``where``, a name or an offset."""
        bus, ctx = self.bus, self.ctx
        todo = {"aw", "w"}
        offered = set()
        for _ in range(100):
            for channel in sorted(todo - offered):
                if not self.late():
                    offered.add(channel)
                    if channel == "aw":
                        ctx.set(bus.awaddr, OFFSET.get(where, where))
                    else:
                        ctx.set(bus.wdata, value)
                        ctx.set(bus.wstrb, strobe)
                    ctx.set(getattr(bus, channel + "valid"), 1)
            s = await self.step()
            for channel in sorted(offered & todo):
                if s[channel + "ready"]:
                    ctx.set(getattr(bus, channel + "valid"), 0)
                    todo.remove(channel)
            if not todo:
                break
            assert not s["bvalid"], "a response before address and data"
        assert not todo, f"no room for {todo}"
        await self._answer("b")

    async def read(self, where):
        """Return the value of register ``where``, a name or an offset."""
        bus, ctx = self.bus, self.ctx
        while self.late():
            await self.step()
        ctx.set(bus.araddr, OFFSET.get(where, where))
        ctx.set(bus.arvalid, 1)
        for _ in range(100):
            if (await self.step())["arready"]:
                break
        else:
            raise AssertionError("no room for a read address")
        ctx.set(bus.arvalid, 0)
        return (await self._answer("r"))["rdata"]

    async def _answer(self, channel):
        """Take the one answer of an access; it must wait, unchanged, until it is taken."""
        first = None
        ready = getattr(self.bus, channel + "ready")
        for _ in range(100):
            take = not self.late()
            self.ctx.set(ready, take)
            s = await self.step()
            if s[channel + "valid"]:
                assert s[channel + "resp"] == 0
                assert first is None or s.get(channel + "data") == first.get(channel + "data")
                first = s
                if take:
                    self.ctx.set(ready, 0)
                    assert not self.ctx.get(getattr(self.bus, channel + "valid"))
                    return s
            else:
                assert first is None, f"{channel}valid fell before it was taken"
        raise AssertionError(f"no answer on {channel}")


def run(bench, seed, *, target=TARGET, **options):
    dut = Registers(target)

    async def testbench(ctx):
        b = Bench(ctx, dut, seed, **options)
        while not (await b.step())["arready"]:  # what is stored gets its reset values
            pass
        await bench(b)

    simulate(dut, testbench)


def test_accesses_right_after_reset_wait():
    dut = Registers(TARGET)

    async def testbench(ctx):
        b = Bench(ctx, dut, "early", stall=0.0)
        await b.write("HP", 0x12345678, 0b0101)
        assert await b.read("HP") == 0x07340F78
        assert await b.read("SEGMENT_SIZE_7") == 0

    simulate(dut, testbench)


@pytest.mark.parametrize(
    ("labels", "bits"), [("", 0), ("+table", 1), ("+channel", 2), ("+table+channel", 3)]
)
def test_the_host_sees_the_extensions(labels, bits):
    target = Target.from_name(f"B64{labels}")

    async def bench(b):
        assert await b.read("EXTENSIONS") == bits
        assert await b.read("FINGERPRINT_H") == target.fingerprint >> 32

    run(bench, f"extensions {labels}", target=target)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_reset_values_and_read_only(stall):
    async def bench(b):
        for r in REGISTERS:
            assert await b.read(r.name) == FIXED.get(r.name, 0), r.name
        for r in REGISTERS:
            if r.access == "ro":
                await b.write(r.name, b.rng.getrandbits(32) | 1)
        for r in REGISTERS:
            assert await b.read(r.name) == FIXED.get(r.name, 0), r.name
        assert not b.starts

    run(bench, f"reset {stall}", stall=stall)


def test_stored_registers_are_independent():
    async def bench(b):
        values = {name: b.rng.getrandbits(32) for name in STORED}
        for name in b.rng.sample(STORED, len(STORED)):
            await b.write(name, values[name])
        for name in STORED:
            assert await b.read(name) == values[name], name
        instr = values["INSTR_ADDR_L"] | (values["INSTR_ADDR_H"] & 0xFF) << 32
        assert b.ctx.get(b.dut.instr_addr) == instr
        for i in range(8):
            base = values[f"ADDR_{i}_L"] | (values[f"ADDR_{i}_H"] & 0xFF) << 32
            assert b.ctx.get(b.dut.segments[i].base) == base
            assert b.ctx.get(b.dut.segments[i].size) == values[f"SEGMENT_SIZE_{i}"]
        assert not b.starts

    run(bench, "stored", stall=0.2)


def test_byte_strobes():
    async def bench(b):
        for strobe in range(16):
            mask = sum(0xFF << 8 * i for i in range(4) if strobe >> i & 1)
            for name in (b.rng.choice(STORED), "SEGMENT_SIZE_5"):
                old, new = b.rng.getrandbits(32), b.rng.getrandbits(32)
                await b.write(name, old)
                await b.write(name, new, strobe)
                expected = old & ~mask | new & mask
                assert await b.read(name) == expected, (name, strobe)
            assert b.ctx.get(b.dut.segments[5].size) == expected
        await b.write("AP_CTRL", 1, 0b1110)  # the byte with the bit is not written
        assert not b.starts

    run(bench, "strobes", stall=0.2)


def test_nothing_between_the_registers():
    async def bench(b):
        known = {r.offset for r in REGISTERS}
        empty = [o for o in range(0, 0x1000, 4) if o not in known]
        before = [await b.read(r.name) for r in REGISTERS]
        for offset in [0x10, 0x1C, 0xA0, 0x1F8, 0x25C, 0x260, 0x800, 0xFFC]:
            assert offset in empty
            await b.write(offset, 0xFFFFFFFF)
            assert await b.read(offset) == 0
        for offset in b.rng.sample(empty, 20):
            await b.write(offset, 0xFFFFFFFF)
            assert await b.read(offset) == 0, hex(offset)
        assert [await b.read(r.name) for r in REGISTERS] == before
        assert not b.starts

    run(bench, "between", stall=0.0)


def test_start_and_done():
    async def bench(b):
        await b.write("AP_CTRL", 0x80)  # auto restart alone does nothing
        assert b.starts == 0
        await b.write("AP_CTRL", 1)
        assert b.starts == 1
        b.set(running=1)
        assert await b.read("AP_CTRL") == 0b0001  # running, not idle
        await b.write("AP_CTRL", 1)  # while running: ignored
        await b.write("AP_CTRL", 0)
        assert b.starts == 1
        b.set(finished=1)
        await b.step()
        b.set(finished=0, running=0)
        assert await b.read("AP_CTRL") == 0b1110  # done, idle, ready
        assert await b.read("AP_CTRL") == 0b1100  # reading has cleared done
        await b.write("AP_CTRL", 0x81)
        assert b.starts == 2
        b.set(running=1)
        await b.step()
        b.set(finished=1)
        await b.step()
        b.set(finished=0, running=0)
        await b.write("AP_CTRL", 1)  # a start forgets that the last program was done
        assert await b.read("AP_CTRL") == 0b1100

    run(bench, "start")


@pytest.mark.parametrize("delay", range(5))
def test_done_is_never_lost_to_a_read(delay):
    """``finished`` at any cycle of a read of AP_CTRL: this read or the next one shows it."""

    async def bench(b):
        b.ctx.set(b.bus.araddr, OFFSET["AP_CTRL"])
        b.ctx.set(b.bus.arvalid, 1)
        b.ctx.set(b.bus.rready, 1)
        seen = 0
        for cycle in range(12):
            b.set(finished=cycle == delay + 2)
            s = await b.step()
            seen += s["rvalid"] and s["rdata"] >> 1 & 1
        b.ctx.set(b.bus.arvalid, 0)
        assert seen == 1

    run(bench, "race")


@pytest.mark.parametrize("gie", [0, 1])
@pytest.mark.parametrize("ier", [0, 1])
@pytest.mark.parametrize("clear", ["ISR", "IRQ_CLEAR"])
def test_interrupt(gie, ier, clear):
    async def bench(b):
        async def finish():
            b.set(finished=1)
            await b.step()
            b.set(finished=0)
            await b.step()

        line = b.dut.interrupt
        await b.write("GIE", gie)
        await b.write("IER", ier)
        await finish()
        assert b.ctx.get(line) == (gie & ier)
        assert await b.read("ISR") == ier
        await b.read("AP_CTRL")  # done has nothing to do with it
        await b.write(clear, 0)
        await b.write(clear, 2)
        await b.write(clear, 1, 0b1110)
        assert await b.read("ISR") == ier
        await b.write("GIE", 1 - gie)  # the mask works on what is pending
        assert b.ctx.get(line) == ((1 - gie) & ier)
        await b.write(clear, 1)
        assert await b.read("ISR") == 0 and not b.ctx.get(line)
        assert await b.read("IRQ_CLEAR") == 0
        await b.write(clear, 1)  # clears, does not set
        assert await b.read("ISR") == 0
        await finish()
        assert await b.read("ISR") == ier  # and the next one comes

    run(bench, f"interrupt {gie} {ier} {clear}")


def test_an_interrupt_in_the_cycle_it_is_cleared_stays():
    async def bench(b):
        await b.write("IER", 1)
        b.set(finished=1)  # every cycle, the clearing one too
        await b.write("ISR", 1)
        b.set(finished=0)
        assert await b.read("ISR") == 1

    run(bench, "clear race")


def test_status_of_a_fault():
    async def bench(b):
        for _ in range(4):
            status, number, addr = (b.rng.getrandbits(n) for n in (32, 32, 40))
            b.set(status=status, fault_instruction=number, fault_addr=addr, tokens=1)
            assert await b.read("STATUS") == status
            assert await b.read("FAULT_INSTRUCTION") == number
            assert await b.read("FAULT_ADDR_L") == addr & 0xFFFFFFFF
            assert await b.read("FAULT_ADDR_H") == addr >> 32
            assert await b.read("TOKENS") == 1

    run(bench, "status")


def test_counters():
    """Two programs: every counter counts its own cycles of the second one only."""

    async def bench(b):
        async def program():
            counts = dict.fromkeys([n for n in (r.name for r in REGISTERS) if counts_up(n)], 0)
            await b.write("AP_CTRL", 1)
            b.set(running=1)
            for _ in range(200):
                drawn = {name: b.rng.random() < 0.1 + 0.04 * k for k, name in enumerate(counts)}
                drawn |= {"CYCLE_L": True, "CYCLE_H": False}
                for k, e in enumerate(ENGINES):
                    b.ctx.set(b.dut.busy[k], drawn[f"BUSY_{e}"])
                    b.ctx.set(b.dut.started[k], drawn[f"{e}_START"])
                    b.ctx.set(b.dut.ended[k], drawn[f"{e}_END"])
                b.set(active_conv=drawn["ACTIVE_CONV"], active_misc=drawn["ACTIVE_MISC"])
                await b.step()
                for name, yes in drawn.items():
                    counts[name] += yes
            b.set(running=0, active_conv=1, active_misc=1)  # not counted any more
            for k in range(4):
                b.ctx.set(b.dut.busy[k], 1)
                b.ctx.set(b.dut.started[k], 0)
                b.ctx.set(b.dut.ended[k], 0)
            await b.step(5)
            assert {name: await b.read(name) for name in counts} == counts
            assert len(set(counts.values())) > 8

        def counts_up(name):
            return name.startswith(("CYCLE", "BUSY", "ACTIVE")) or name.endswith(("_START", "_END"))

        await program()
        await program()

    # without delays nothing runs between the start and the first counted cycle
    run(bench, "counters", stall=0.0)


def test_reads_and_writes_at_once():
    """Both halves of the bus work independently."""

    async def bench(b):
        b.ctx.set(b.bus.araddr, OFFSET["SYS"])
        b.ctx.set(b.bus.arvalid, 1)
        b.ctx.set(b.bus.rready, 1)
        before = b.signals
        reads = 0
        b.signals = before | {"rready": b.bus.rready}
        step = b.step

        async def counted(count=1):
            nonlocal reads
            for _ in range(count):
                s = await step()
                if s["rvalid"]:
                    assert s["rdata"] == FIXED["SYS"]
                    reads += 1
            return s

        b.step = counted
        for i in range(8):
            await b.write(f"SEGMENT_SIZE_{i}", 1000 + i)
        b.ctx.set(b.bus.arvalid, 0)
        await b.step(4)
        assert reads >= 8
        for i in range(8):
            assert b.ctx.get(b.dut.segments[i].size) == 1000 + i

    run(bench, "at once")
