# SPDX-License-Identifier: Apache-2.0
"""Bench of the MISC engine: memories with stalls, the meaning of its instructions, scoreboard."""

import collections
import random

import numpy as np
from amaranth.hdl import Value
from amaranth_bench import simulated

from opendpu_arch import isa, latency, legal, numerics
from opendpu_arch.isa import AluMode, ElewType, PoolType
from opendpu_hw.engine.misc import MiscEngine

INITS = (isa.AluInit, isa.PoolInit, isa.DwInit, isa.ElewInit)


class Memories:
    """Image groups, DWCONVW and BIAS of a target, filled with random bytes."""

    def __init__(self, target, rng):
        self.target = target
        shape = (target.bank_depth, target.channel_parallel)
        draw = np.random.default_rng(rng.getrandbits(32))

        def fill(*lead):
            return draw.integers(-128, 128, (*lead, *shape), dtype=np.int8)

        self.image = fill(target.bank_groups, target.pixel_parallel)
        self.weights, self.bias = fill(), fill()

    def copy(self):
        other = object.__new__(Memories)
        other.target = self.target
        other.image = self.image.copy()
        other.weights, other.bias = self.weights, self.bias
        return other


class Overlapping(Exception):
    """An instruction reads what it writes, or writes a word twice."""


class Reference:
    """Executes MISC instructions one after another, a pixel at a time."""

    def __init__(self, memories):
        self.mem = memories
        self.init = {}
        self.entries = []

    def execute(self, i):
        """Execute ``i``; raises :exc:`Overlapping` before anything is written."""
        if isinstance(i, (isa.AluInit, isa.PoolInit, isa.DwInit)):
            self.init[type(i)] = i
            return
        if isinstance(i, isa.ElewInit):
            self.entries.append(i)
            return
        self.reads, self.writes = set(), {}
        if isinstance(i, isa.Elew):
            self._elew(i)
            self.entries = []
        elif isinstance(i, isa.Alu):
            self._alu(i, self.init[isa.AluInit])
        elif isinstance(i, isa.Pool):
            self._pool(i, self.init[isa.PoolInit])
        else:
            self._dptwise(i, self.init[isa.DwInit])
        if self.reads & set(self.writes):
            raise Overlapping
        for (group, bank, word), value in self.writes.items():
            self.mem.image[group, bank, word] = value

    def _read(self, first, step, word):
        """Return a word; ``first`` is a bank id, ``step`` banks on, wrapping in the group."""
        pp, depth = self.mem.target.pixel_parallel, self.mem.target.bank_depth
        at = first // pp, (first % pp + step) % pp, word % depth
        self.reads.add(at)
        return self.mem.image[at].astype(np.int64)

    def _write(self, first, step, word, value):
        pp, depth = self.mem.target.pixel_parallel, self.mem.target.bank_depth
        at = first // pp, (first % pp + step) % pp, word % depth
        if at in self.writes:
            raise Overlapping
        self.writes[at] = value

    def _windows(
        self, f, s, *, vpp, length, groups, jre, jwe, kh, kw, sh, sw, pad, invalid, pads, compute
    ):
        """Walk; ``compute(window, group)`` gives a word of lanes from ``window[kh, kw, lane]``."""
        pp, lanes = self.mem.target.pixel_parallel, self.mem.target.channel_parallel
        left, top, right, bottom = pads
        bases = (f.bank_addr_in, f.bank_addr_in_1, f.bank_addr_in_2, f.bank_addr_in_3)
        rows, cols = (vpp - 1) * sh + kh, (length - 1) * sw + kw
        image = np.zeros((groups, rows, cols, lanes), np.int64)
        for r in range(rows):
            k = s.stride_offset_in + r
            step = k // sh
            base = bases[(f.bank_id_in % pp + step) // pp]
            for c in range(cols):
                for g in range(groups):
                    word = base + k % sh * jre + c * s.jump_read + g
                    value = self._read(f.bank_id_in, step, word)
                    if (
                        c < left
                        or r < top
                        or c >= cols - kw + right + 1
                        or r >= rows - kh + bottom + 1
                    ):
                        value = np.full(lanes, pad)
                    elif g == groups - 1 and invalid:
                        value[lanes - invalid :] = pad
                    image[g, r, c] = value
        for h in range(vpp):
            q, rest = divmod(h + s.stride_offset_out, s.stride_out)
            wraps = (f.bank_id_out % pp + q) // pp
            for w in range(length):
                for g in range(groups):
                    window = image[g, h * sh : h * sh + kh, w * sw : w * sw + kw]
                    word = (
                        f.bank_addr_out
                        + wraps * s.stride_out * jwe
                        + rest * jwe
                        + w * s.jump_write
                        + g
                    )
                    self._write(f.bank_id_out, q, word, compute(window, g))

    def _weights(self, base, jump, kh, kw, g):
        depth = self.mem.target.bank_depth
        words = [(base + t * jump + g) % depth for t in range(kh * kw)]
        return self.mem.weights[words].astype(np.int64).reshape(kh, kw, -1)

    def _bias(self, base, g):
        return self.mem.bias[(base + g) % self.mem.target.bank_depth]

    def _alu(self, f, s):
        mode, kh, kw = s.exec_mode, s.kernel_h, s.kernel_w
        depth = self.mem.target.bank_depth

        def compute(window, g):
            total, high = window.sum((0, 1)), window.max((0, 1))
            weights = self._weights(f.bank_addr_weights, s.jump_read_weights, kh, kw, g)
            cut = {"shift_cut": s.shift_cut}
            shifts = {"shift_prelu_p": s.shift_prelu_p, "shift_prelu_n": s.shift_prelu_n}
            if mode == AluMode.DWCV:
                return numerics.requantize(
                    (window * weights).sum((0, 1)),
                    self._bias(f.bank_addr_bias, g),
                    shift_bias=s.shift_bias,
                    act_type=s.act_type,
                    **cut,
                )
            if mode == AluMode.DWCVB0:
                return numerics.requantize_without_bias(
                    (window * weights).sum((0, 1)), act_type=s.act_type, **cut
                )
            if mode == AluMode.DWCVW16B0:
                words = [
                    (f.bank_addr_weights + t * s.jump_read_weights + 2 * g) % depth
                    for t in range(kh * kw)
                ]
                wide = numerics.weights_16(self.mem.weights[words]).astype(np.int64)
                return numerics.requantize_without_bias(
                    (window * wide.reshape(kh, kw, 1)).sum((0, 1)), act_type=s.act_type, **cut
                )
            if mode == AluMode.AVEPOOL:
                return numerics.average_pool(total, multi_factor=s.multi_factor, **cut)
            if mode in (AluMode.MAXPOOL, AluMode.MAXREDUCE):
                return numerics.max_pool(high, **cut)
            x = window[0, 0]
            if mode == AluMode.HSIGMOID:
                return numerics.hard_sigmoid(x, shift_bias=s.shift_bias, **cut)
            if mode == AluMode.PRELU:
                factor = self.mem.weights[(f.bank_addr_weights + g) % depth]
                return numerics.prelu(x, factor, **shifts)
            return numerics.leaky_relu(x, multi_factor=s.multi_factor, **shifts)

        reduce = mode == AluMode.MAXREDUCE
        self._windows(
            f,
            s,
            vpp=f.valid_pixel_parallel,
            length=s.length,
            groups=s.channel_group,
            jre=s.jump_read_endl,
            jwe=s.jump_write_endl,
            kh=kh,
            kw=kw,
            sh=s.stride_h,
            sw=s.stride_w,
            pad=-128 if mode == AluMode.MAXPOOL else 0,
            invalid=0 if reduce else s.channel_offset,
            pads=(0, 0, 1 << 30, 1 << 30)
            if reduce
            else (f.pad_left, f.pad_top, f.pad_right, f.pad_bottom),
            compute=compute,
        )

    def _dptwise(self, f, s):
        kh, kw = s.kernel_h, s.kernel_w

        def compute(window, g):
            weights = self._weights(f.bank_addr_weights, f.channel_group, kh, kw, g)
            return numerics.requantize(
                (window * weights).sum((0, 1)),
                self._bias(f.bank_addr_bias, g),
                shift_bias=s.shift_bias,
                shift_cut=s.shift_cut,
                act_type=f.act_type,
            )

        self._windows(
            f,
            s,
            vpp=s.valid_pixel_parallel,
            length=f.length,
            groups=f.channel_group,
            jre=s.jump_read_endl,
            jwe=s.jump_write_endl,
            kh=kh,
            kw=kw,
            sh=s.stride_h,
            sw=s.stride_w,
            pad=0,
            invalid=f.channel_offset,
            pads=(f.pad_left, f.pad_top, f.pad_right, f.pad_bottom),
            compute=compute,
        )

    def _pool(self, f, s):
        kh, kw, sh, sw = s.kernel_h, s.kernel_w, s.stride_h, s.stride_w
        pads = f.pad_left, f.pad_top, f.pad_right, f.pad_bottom
        if s.pool_type == PoolType.MAX_REDUCE:
            kh = sh = f.downsample_kernel_h
            kw = sw = f.downsample_kernel_w
            pads = 0, 0, 1 << 30, 1 << 30

        def compute(window, g):
            if s.pool_type == PoolType.AVERAGE:
                return numerics.pool_average(
                    window.sum((0, 1)), kernel_h=kh, kernel_w=kw, shift_cut=s.shift_cut
                )
            return numerics.max_pool(window.max((0, 1)), shift_cut=s.shift_cut)

        self._windows(
            f,
            s,
            vpp=s.valid_pixel_parallel,
            length=f.length,
            groups=f.channel_group,
            jre=f.jump_read_endl,
            jwe=f.jump_write_endl,
            kh=kh,
            kw=kw,
            sh=sh,
            sw=sw,
            pad=-128 if s.pool_type == PoolType.MAX else 0,
            invalid=0,
            pads=pads,
            compute=compute,
        )

    def _elew(self, f):
        pp = self.mem.target.pixel_parallel
        function = numerics.eltwise_add if f.elew_type == ElewType.ADD else numerics.eltwise_mult
        shifts = [e.shift_read for e in self.entries]
        for k in range(f.valid_pixel_parallel):
            for w in range(f.length):
                for g in range(f.channel_group):
                    inputs = []
                    for e in self.entries:
                        step = 0 if e.share_pp else k * e.jump_bank
                        wraps = 0 if e.share_pp else (e.bank_id_in % pp + step) // pp
                        inputs.append(
                            self._read(
                                e.bank_id_in,
                                step,
                                e.bank_addr_in + wraps * e.jump_read_endl + w * e.jump_read + g,
                            )
                        )
                    wraps = (f.bank_id_out % pp + k) // pp
                    word = f.bank_addr_out + wraps * f.jump_write_endl + w * f.jump_write + g
                    self._write(
                        f.bank_id_out,
                        k,
                        word,
                        function(
                            inputs,
                            shift_read=shifts,
                            shift_write=f.shift_write,
                            relu=bool(f.act_type),
                        ),
                    )


def legal_program(draw, target, memories, rng, count):
    """Return ``count`` drawn sequences that are legal, and the memories after them.

    ``draw(target, rng)`` gives a list of instructions: INITs and one that uses them.
    """
    after = memories.copy()
    reference = Reference(after)
    program = []
    while count:
        sequence = draw(target, rng)
        inits, last = sequence[:-1], sequence[-1]
        init = inits if isinstance(last, isa.Elew) else inits[0]
        broken = [
            v
            for n, i in enumerate(inits)
            for v in legal.violations(
                i, target, init=inits[:n] if isinstance(i, isa.ElewInit) else None
            )
        ]
        if broken or legal.violations(last, target, init=init):
            continue
        try:
            for i in sequence:
                reference.execute(i)
        except Overlapping:
            reference.entries = []
            continue
        program += sequence
        count -= 1
    return program, after


def run(
    target, program, memories, *, seed=0, stall=0.0, closed=(), abort_at=(), deadline=200_000,
    **options,
):  # fmt: skip
    """Run ``program`` on the engine against ``memories``, in place.

    ``stall`` is the chance that a port is not ready in a cycle; in those of ``closed`` nothing is
    written. In the cycles of ``abort_at`` the engine is aborted, and everything starts again from
    the beginning. Returns the cycle numbers of the ``done`` pulses and the number of active cycles.
    """
    rng = random.Random(seed)
    simulator = simulated(MiscEngine, target, **options)
    dut = simulator.dut
    pp, width = target.pixel_parallel, target.channel_parallel
    address = (target.bank_depth - 1).bit_length()
    image = memories.image.view(np.uint8)
    done, active = [], 0
    earliest = 0  # cycle in which what is idle may read
    initial = image.copy()

    def split(value, bits):
        return [value >> bits * b & (1 << bits) - 1 for b in range(pp)]

    def encoded():
        return [sum(w << 32 * n for n, w in enumerate(i.encode())) for i in program]

    async def bench(ctx):
        nonlocal active, earliest
        waiting = encoded()
        offered = False
        coming = collections.deque([0] * (latency.BANK_READ - 1))  # what the banks answer
        for cycle in range(deadline):
            if cycle in abort_at:
                ctx.set(dut.abort, 1)
                ctx.set(dut.insn.valid, 0)
                await ctx.tick()
                assert not ctx.get(dut.insn.ready) and not ctx.get(dut.read.valid)
                await ctx.tick()
                assert ctx.get(dut.idle) and not ctx.get(dut.busy)
                ctx.set(dut.abort, 0)
                image[:] = initial
                waiting = encoded()
                offered = False
                done.clear()
            for port in (dut.read, dut.write, dut.weights, dut.bias):
                ctx.set(port.ready, rng.random() >= stall)
            if cycle in closed:
                ctx.set(dut.write.ready, 0)
            if waiting and not offered and rng.random() >= stall:
                ctx.set(Value.cast(dut.insn.payload), waiting[0])
                ctx.set(dut.insn.valid, 1)
                offered = True
            sampled = await ctx.tick().sample(
                dut.insn.valid & dut.insn.ready,
                dut.done,
                dut.active,
                dut.busy,
                dut.read.valid & dut.read.ready,
                dut.read.group,
                dut.read.mask,
                Value.cast(dut.read.addr),
                dut.write.valid & dut.write.ready,
                dut.write.group,
                dut.write.mask,
                Value.cast(dut.write.addr),
                Value.cast(dut.write.data),
                dut.weights.valid & dut.weights.ready,
                dut.weights.addr,
                dut.bias.valid & dut.bias.ready,
                dut.bias.addr,
            )
            (
                took,
                finished,
                step,
                busy,
                reads,
                rgroup,
                rmask,
                raddr,
                writes,
                wgroup,
                wmask,
                waddr,
                wdata,
                weight,
                weight_at,
                bias,
                bias_at,
            ) = sampled[2:]
            active += step
            assert not reads or cycle >= earliest, "reads sooner than CONV's results are written"
            if took:
                waiting.pop(0)
                here = len(program) - len(waiting) - 1  # `waiting` has just lost it
                computing = [type(i) not in INITS for i in program[len(done) : here]]
                if not any(computing) and type(program[here]) not in INITS:
                    earliest = cycle + latency.ENGINE_READ
                offered = False
                ctx.set(dut.insn.valid, 0)
            if finished:
                assert busy
                done.append(cycle)
                if len(done) == len(program):
                    break
            answer = [rng.getrandbits(8 * width) for _ in range(pp)]
            if reads:
                for b, at in enumerate(split(raddr, address)):
                    if rmask >> b & 1:
                        answer[b] = int.from_bytes(image[rgroup, b, at].tobytes(), "little")
            coming.append(sum(v << 8 * width * b for b, v in enumerate(answer)))
            ctx.set(Value.cast(dut.read.data), coming.popleft())
            if writes:
                values = split(wdata, 8 * width)
                for b, at in enumerate(split(waddr, address)):
                    if wmask >> b & 1:
                        image[wgroup, b, at] = np.frombuffer(
                            values[b].to_bytes(width, "little"), np.uint8
                        )
            for port, there, at, words in (
                (dut.weights, weight, weight_at, memories.weights),
                (dut.bias, bias, bias_at, memories.bias),
            ):
                ctx.set(
                    port.data,
                    int.from_bytes(words[at].tobytes(), "little")
                    if there
                    else rng.getrandbits(8 * width),
                )
        else:
            raise AssertionError(
                f"{len(done)} of {len(program)} instructions done after {deadline} cycles"
            )
        for _ in range(20):
            _, _, busy, extra, writes = await ctx.tick().sample(dut.busy, dut.done, dut.write.valid)
            assert not (busy or extra or writes), "something is left after the last instruction"

    simulator.run(bench)
    return done, active


def check(draw, target, *, seed, count=4, **options):
    """Run ``count`` drawn sequences and compare all image banks with the reference."""
    options = {"stall": 0.3, **options}
    print(f"seed {seed}")
    rng = random.Random(seed)
    memories = Memories(target, rng)
    program, expected = legal_program(draw, target, memories, rng, count)
    run(target, program, memories, seed=seed, **options)
    wrong = np.argwhere((memories.image != expected.image).any(-1))
    assert not len(wrong), (
        f"seed {seed}: {len(wrong)} words differ, first (group, bank, word) {wrong[0]}: "
        f"{memories.image[tuple(wrong[0])]} instead of {expected.image[tuple(wrong[0])]}\n"
        + "\n".join(map(str, program))
    )
