# SPDX-License-Identifier: Apache-2.0
"""A memory behind an AXI4 port, a clock cycle a step."""

import collections
import dataclasses

PAGE = 4096


@dataclasses.dataclass
class Burst:
    """An address transfer: first byte, beats, and what has happened to it."""

    addr: int
    beats: int
    due: int
    data: list = dataclasses.field(default_factory=list)


class AxiPort:
    """One port of a memory: answers in order, stalls at random, checks the protocol.

    ``latency`` cycles pass from address to first beat, or from last beat to response. Bursts at an
    address in ``errors`` and read beats at an address in ``bad_beats`` get an error response.
    ``write_first`` accepts an address only once data are there. A burst may have ``longest`` beats,
    and ``most`` of them may be open.
    """

    def __init__(
        self,
        bus,
        memory,
        rng,
        *,
        base=0,
        latency=1,
        stall=0.0,
        errors=(),
        bad_beats=(),
        longest=16,
        most=8,
    ):
        self.bus, self.memory, self.rng, self.base = bus, memory, rng, base
        self.latency, self.stall, self.errors = latency, stall, frozenset(errors)
        self.bad_beats, self.longest, self.most = frozenset(bad_beats), longest, most
        self.reads, self.writes, self.answers = (collections.deque() for _ in range(3))
        self.loose = []
        self.held = {}
        self.beats = 0
        self.bursts = []
        self.write_first = False
        self.has_read, self.has_write = hasattr(bus, "arvalid"), hasattr(bus, "awvalid")
        self.beat = len(bus.rdata if self.has_read else bus.wdata) // 8

    def signals(self):
        b = self.bus
        names = []
        if self.has_read:
            names += [
                "arvalid",
                "arready",
                "araddr",
                "arlen",
                "arsize",
                "arburst",
                "rvalid",
                "rready",
            ]
        if self.has_write:
            names += [
                "awvalid",
                "awready",
                "awaddr",
                "awlen",
                "awsize",
                "awburst",
                "wvalid",
                "wready",
                "wdata",
                "wstrb",
                "wlast",
                "bvalid",
                "bready",
            ]
        return {n: getattr(b, n) for n in names}

    def quiet(self):
        """Whether every transaction is complete."""
        return not (self.reads or self.writes or self.answers or self.loose)

    def _stable(self, s, valid, ready, fields):
        now = tuple(s[f] for f in fields)
        if valid in self.held:
            assert s[valid], f"{valid} fell before {ready}"
            assert now == self.held[valid], f"{valid}: payload changed before {ready}"
        self.held.pop(valid, None)
        if s[valid] and not s[ready]:
            self.held[valid] = now

    def _address(self, s, prefix, cycle):
        addr, beats = s[prefix + "addr"], s[prefix + "len"] + 1
        assert 1 << s[prefix + "size"] == self.beat and s[prefix + "burst"] == 1
        assert beats <= self.longest, f"burst of {beats} beats"
        assert addr % self.beat == 0, f"burst at {addr:#x}"
        assert addr // PAGE == (addr + beats * self.beat - 1) // PAGE, (
            f"burst at {addr:#x} leaves page"
        )
        self.bursts.append((addr, beats))
        return Burst(addr, beats, cycle + self.latency)

    def step(self, s, cycle, drive):
        """Take what was transferred in this cycle, drive the next one."""
        if self.has_read:
            self._step_read(s, cycle, drive)
        if self.has_write:
            self._step_write(s, cycle, drive)

    def _step_read(self, s, cycle, drive):
        b = self.bus
        self._stable(s, "arvalid", "arready", ("araddr", "arlen"))
        if s["arvalid"] and s["arready"]:
            self.reads.append(self._address(s, "ar", cycle))
            assert len(self.reads) <= self.most, "too many reads outstanding"
        if s["rvalid"] and s["rready"]:
            self.beats += 1
            head = self.reads[0]
            head.data.append(None)
            if len(head.data) == head.beats:
                self.reads.popleft()
        drive(b.arready, self.rng.random() >= self.stall)
        waiting = s["rvalid"] and not s["rready"]
        if waiting:
            return
        if self.reads and cycle + 1 >= self.reads[0].due and self.rng.random() >= self.stall:
            head = self.reads[0]
            at = head.addr + self.beat * len(head.data)
            chunk = bytes(
                self.memory[i] if 0 <= i < len(self.memory) else 0xEE
                for i in range(at - self.base, at - self.base + self.beat)
            )
            drive(b.rvalid, 1)
            drive(b.rdata, int.from_bytes(chunk, "little"))
            drive(b.rlast, len(head.data) + 1 == head.beats)
            drive(b.rresp, 2 if head.addr in self.errors or at in self.bad_beats else 0)
        else:
            drive(b.rvalid, 0)
            drive(b.rdata, self.rng.getrandbits(8 * self.beat))

    def _step_write(self, s, cycle, drive):
        b = self.bus
        self._stable(s, "awvalid", "awready", ("awaddr", "awlen"))
        self._stable(s, "wvalid", "wready", ("wdata", "wstrb", "wlast"))
        if s["awvalid"] and s["awready"]:
            self.writes.append(self._address(s, "aw", cycle))
            assert len(self.writes) + len(self.answers) <= self.most, "too many writes outstanding"
        if s["wvalid"] and s["wready"]:
            self.beats += 1
            self.loose.append((s["wdata"], s["wstrb"], s["wlast"]))
        while self.writes and len(self.loose) >= self.writes[0].beats:
            burst = self.writes.popleft()
            burst.data, self.loose = self.loose[: burst.beats], self.loose[burst.beats :]
            lasts = [last for _, _, last in burst.data]
            assert lasts == [0] * (burst.beats - 1) + [1], f"wlast of {burst.addr:#x}: {lasts}"
            burst.due = cycle + self.latency
            self.answers.append(burst)
            if self.rng.random() < 0.5:
                self._apply_all()
        if s["bvalid"] and s["bready"]:
            self.answers.popleft()
        drive(
            b.awready,
            self.rng.random() >= self.stall
            and (
                not self.write_first
                or s["wvalid"]
                or len(self.loose) > sum(w.beats for w in self.writes)
            ),
        )
        drive(b.wready, self.rng.random() >= self.stall)
        if s["bvalid"] and not s["bready"]:
            return
        ready = self.answers and cycle + 1 >= self.answers[0].due
        if ready and self.rng.random() >= self.stall:
            burst = self.answers[0]
            self._apply_all()
            drive(b.bvalid, 1)
            drive(b.bresp, 3 if burst.addr in self.errors else 0)
        else:
            drive(b.bvalid, 0)

    def _apply_all(self):
        """Write what was answered or may be, in order."""
        for burst in self.answers:
            self._apply(burst)
            burst.data = []

    def _apply(self, burst):
        for i, (word, strobe, _) in enumerate(burst.data):
            for k in range(self.beat):
                if strobe >> k & 1:
                    at = burst.addr + self.beat * i + k - self.base
                    assert 0 <= at < len(self.memory), f"write at {at:#x} is outside of memory"
                    self.memory[at] = word >> 8 * k & 0xFF
