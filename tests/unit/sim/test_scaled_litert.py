# SPDX-License-Identifier: Apache-2.0
"""The extension ``scaled`` on the functional simulator against LiteRT's reference kernels."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (opendpu[dev])")
sys.path.append(str(Path(__file__).parents[1] / "opendpu" / "frontend" / "litert"))

from tflite_files import Network, interpreter, options

from opendpu_arch import isa, scaled
from opendpu_arch.isa import AluMode, Engine
from opendpu_arch.scaled import Rounding
from opendpu_arch.target import Target
from opendpu_sim.model.machine import plan

TARGET = Target.from_name("B512+scaled")
LANES, COLUMNS = 8, 16
SAME, VALID = 0, 1


def reference(path, feeds):
    """Return what LiteRT's reference kernels compute of a file with one output."""
    made = interpreter.Interpreter(
        str(path), experimental_op_resolver_type=interpreter.OpResolverType.BUILTIN_REF
    )
    made.allocate_tensors()
    for item in made.get_input_details():
        made.set_tensor(item["index"], feeds[item["name"]])
    made.invoke()
    return made.get_tensor(made.get_output_details()[0]["index"])


def multiplier(real):
    """Return a real number below 1 as multiplier and right shift (TFLite's QuantizeMultiplier)."""
    fraction, exponent = math.frexp(real)
    whole = math.floor(fraction * 2**31 + 0.5)
    if whole == 2**31:
        whole, exponent = whole // 2, exponent + 1
    assert exponent <= 0
    return whole, -exponent


def twice(x, multiplier, shift):
    """Return x * multiplier / 2**(31 + shift), as gemmlowp rounds it; exact integers."""
    doubled = [(int(v) * multiplier + (1 << 30)) >> 31 for v in x]
    half = (1 << shift) >> 1
    return np.array([(abs(v) + half >> shift) * (1 if v >= 0 else -1) for v in doubled])


class Machine:
    """Instructions, and the bytes that they load."""

    def __init__(self):
        self.data, self.program = bytearray(), []

    def load(self, bank, address, content, **fields):
        """LOAD a content, successive words unless fields say otherwise."""
        size = content.nbytes
        values = {"channel": size, "jump_read": size, "jump_write": -(-size // LANES)} | fields
        self.program.append(
            isa.Load(bank_id=bank, bank_addr=address, ddr_addr=len(self.data), **values)
        )
        self.data += content.tobytes()

    def records(self, made):
        """LOAD records from number 0 on."""
        size = scaled.RECORD_WORDS * LANES
        content = np.concatenate([record.reshape(-1) for record in made])
        self.load(TARGET.scale_bank, 0, content, channel=size, jump_read=size,
                  jump_write=scaled.RECORD_STRIDE, length=len(made))  # fmt: skip

    def run(self, instructions, rows, columns=COLUMNS):
        """Return the output rows, from bank 4 on, that instructions make."""
        engine = instructions[-1].ENGINE
        self.program[-1] = _with(self.program[-1], dpdby=1 << engine)
        instructions[-1] = _with(instructions[-1], dpdon=1 << Engine.LOAD, dpdby=1 << Engine.SAVE)
        size = columns * LANES
        saves = [
            isa.Save(bank_id=4 + row, channel=size, jump_write=size, length=1, reg_id=1,
                     ddr_addr=row * size, dpdon=(1 << engine) * (row == 0))
            for row in range(rows)
        ]  # fmt: skip
        code = isa.encode([*self.program, *instructions, *saves, isa.End()])
        result = np.zeros(rows * size, np.int8)
        segments = {0: np.frombuffer(bytes(self.data), np.uint8), 1: result.view(np.uint8)}
        plan(code, TARGET).run(segments, check=True)
        return result.reshape(rows, columns, LANES)


def _with(instruction, **fields):
    return type(instruction)(**{**_fields(instruction), **fields})


def _fields(instruction):
    return {f.name: getattr(instruction, f.name) for f in instruction.bit_fields()}


def record(bias, scales, *, zero, low=-128, rounding=Rounding.TWICE):
    """Return a record of real scales."""
    pairs = [multiplier(float(s)) for s in scales]
    return scaled.record(
        bias=np.asarray(bias), multiplier=np.array([m for m, _ in pairs]),
        shift=np.array([s for _, s in pairs]), zero=zero, low=low, high=127, rounding=rounding,
    )  # fmt: skip


def integers(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def scales(rng, count):
    """Return scale of the input, of each channel's weights, of the output, and two zero points."""
    own = rng.uniform(0.0005, 0.01, count).astype(np.float32)
    if rng.random() < 0.3:  # powers of two: ties
        own[:] = 2.0**-8
        return np.float32(2**-4), own, np.float32(2**-5), *(int(n) for n in rng.integers(-9, 9, 2))
    ends = (np.float32(rng.uniform(*limits)) for limits in ((0.005, 0.1), (0.02, 0.2)))
    return (next(ends), own, next(ends), *(int(n) for n in rng.integers(-128, 128, 2)))


def image(machine, x):
    """LOAD an image of up to four rows behind room for a row and a column of padding."""
    for row in range(x.shape[0]):
        machine.load((row + 1) % 4, (64 if row == 3 else 0) + 1, x[row])


@pytest.mark.parametrize("relu", [False, True])
def test_conv(relu, tmp_path, rng):
    for _ in range(4):
        si, sw, so, zi, zo = scales(rng, LANES)
        x, w = integers(rng, 4, COLUMNS, LANES), integers(rng, LANES, 3, 3, LANES)
        bias = rng.integers(-30000, 30000, LANES).astype(np.int32)
        net, none = Network(), np.zeros(LANES, int)
        net.data("x", (1, *x.shape), np.int8, si, zi)
        net.const("w", w, sw, none)
        net.const("b", bias, si * sw, none)
        made = options("Conv2D", padding=SAME, strideH=1, strideW=1,
                       fusedActivationFunction=int(relu))  # fmt: skip
        net.op("CONV_2D", ["x", "w", "b"], ["y"], made, dtype=np.int8, scale=so, zero=zo,
               shape=(1, *x.shape))  # fmt: skip
        expected = reference(net.write(tmp_path / "c.tflite", ["y"]), {"x": x[None]})[0]
        machine = Machine()
        image(machine, x)
        for lane in range(LANES):
            machine.load(TARGET.convw_base + lane, 0, w[lane])
        folded = bias - zi * w.astype(np.int64).sum((1, 2, 3))
        each = float(si) * sw.astype(np.float64) / float(so)
        machine.records([record(folded, each, zero=zo, low=zo if relu else -128)])
        found = machine.run([
            isa.ConvInit(kernel_h=3, kernel_w=3, valid_pixel_parallel=4, zero_in=zi & 0xFF),
            isa.Conv(pad_left=1, pad_top=1, pad_right=1, pad_bottom=1, length=COLUMNS,
                     bank_id_out=4, bank_addr_in_1=64, scaled=1),
        ], 4)  # fmt: skip
        np.testing.assert_array_equal(found, expected)


def test_fully_connected_rounds_once(tmp_path, rng):
    differs = 0
    for _ in range(6):
        si, sw, so, zi, zo = scales(rng, LANES)
        x, w = integers(rng, 4 * COLUMNS, LANES), integers(rng, LANES, LANES)
        bias = rng.integers(-3000, 3000, LANES).astype(np.int32)
        net = Network()
        net.data("x", x.shape, np.int8, si, zi)
        net.const("w", w, sw[0])
        net.const("b", bias, si * sw[0])
        net.op("FULLY_CONNECTED", ["x", "w", "b"], ["y"], options("FullyConnected"),
               dtype=np.int8, scale=so, zero=zo, shape=x.shape)  # fmt: skip
        expected = reference(net.write(tmp_path / "f.tflite", ["y"]), {"x": x})
        results = []
        for rounding in (Rounding.ONCE, Rounding.TWICE):
            machine = Machine()
            for row in range(4):
                machine.load(row, 0, x.reshape(4, COLUMNS, LANES)[row])
            for lane in range(LANES):
                machine.load(TARGET.convw_base + lane, 0, w[lane])
            folded = bias - zi * w.astype(np.int64).sum(1)
            each = [float(si) * float(sw[0]) / float(so)] * LANES
            machine.records([record(folded, each, zero=zo, rounding=rounding)])
            results.append(machine.run([
                isa.ConvInit(valid_pixel_parallel=4),
                isa.Conv(length=COLUMNS, bank_id_out=4, scaled=1),
            ], 4).reshape(x.shape))  # fmt: skip
        np.testing.assert_array_equal(results[0], expected)
        differs += int((results[1] != expected).sum())
    assert differs  # the rounding matters


def test_depthwise(tmp_path, rng):
    for _ in range(4):
        si, sw, so, zi, zo = scales(rng, LANES)
        x, w = integers(rng, 2, COLUMNS, LANES), integers(rng, 1, 3, 3, LANES)
        bias = rng.integers(-3000, 3000, LANES).astype(np.int32)
        net, none = Network(), np.zeros(LANES, int)
        net.data("x", (1, *x.shape), np.int8, si, zi)
        net.const("w", w, sw, none, axis=3)
        net.const("b", bias, si * sw, none)
        made = options("DepthwiseConv2D", padding=SAME, strideH=1, strideW=1, depthMultiplier=1)
        net.op("DEPTHWISE_CONV_2D", ["x", "w", "b"], ["y"], made, dtype=np.int8, scale=so, zero=zo,
               shape=(1, *x.shape))  # fmt: skip
        expected = reference(net.write(tmp_path / "d.tflite", ["y"]), {"x": x[None]})[0]
        machine = Machine()
        image(machine, x)
        machine.load(TARGET.dwconvw_bank, 0, w)
        folded = bias - zi * w.astype(np.int64).sum((0, 1, 2))
        machine.records([record(folded, float(si) * sw.astype(np.float64) / float(so), zero=zo)])
        found = machine.run([
            isa.AluInit(exec_mode=AluMode.DWCV, kernel_h=3, kernel_w=3, length=COLUMNS,
                        jump_read_weights=1, multi_factor=zi & 0xFF),
            isa.Alu(pad_left=1, pad_top=1, pad_right=1, pad_bottom=1, valid_pixel_parallel=2,
                    bank_id_out=4, scaled=1),
        ], 2)  # fmt: skip
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("op", ["ADD", "MUL"])
def test_two_operands(op, tmp_path, rng):
    for _ in range(6):
        s1, _, so, z1, zo = scales(rng, 1)
        s2, z2 = np.float32(rng.uniform(0.005, 0.1)), int(rng.integers(-128, 128))
        a, b = (integers(rng, 2, COLUMNS, LANES) for _ in range(2))
        net = Network()
        net.data("a", a.shape, np.int8, s1, z1)
        net.data("b", b.shape, np.int8, s2, z2)
        net.op(op, ["a", "b"], ["y"], options("Add" if op == "ADD" else "Mul"), dtype=np.int8,
               scale=so, zero=zo, shape=a.shape)  # fmt: skip
        expected = reference(net.write(tmp_path / "e.tflite", ["y"]), {"a": a, "b": b})
        x = np.concatenate((np.arange(128), np.arange(-128, 0)))
        if op == "ADD":
            both = 2 * max(float(s1), float(s2))
            terms = [
                twice((x - z) << 20, *multiplier(float(s) / both)) for s, z in ((s1, z1), (s2, z2))
            ]
            real = both / (2**20 * float(so))
        else:
            terms, real = [x - z1, x - z2], float(s1) * float(s2) / float(so)
        machine = Machine()
        for slot, term in enumerate(terms):
            machine.load(TARGET.term_bank, 256 * slot, term.astype("<i4"), channel=4, jump_read=4,
                         jump_write=1, length=256)  # fmt: skip
        for row in range(2):
            machine.load(row, 0, a[row])
            machine.load(row, 64, b[row])
        machine.records([record(np.zeros(LANES, int), [real] * LANES, zero=zo)])
        found = machine.run([
            isa.ElewInit(jump_read=1),
            isa.ElewInit(id=1, jump_read=1, bank_addr_in=64, term=1),
            isa.Elew(num=2, elew_type=op == "MUL", length=COLUMNS, valid_pixel_parallel=2,
                     bank_id_out=4, scaled=1),
        ], 2)  # fmt: skip
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("size", [2, 3])
def test_averages(mean, size, tmp_path, rng):
    """AVERAGE_POOL_2D, and MEAN of the window of an image that is no larger."""
    count = size * size
    for _ in range(6):
        si, _, so, zi, zo = scales(rng, 1)
        so = max(so, si)
        x = integers(rng, size, size, LANES)
        net = Network()
        net.data("x", (1, *x.shape), np.int8, si, zi)
        if mean:
            net.const("axes", np.array([1, 2], np.int32))
            net.op("MEAN", ["x", "axes"], ["y"], options("Reducer", keepDims=True), dtype=np.int8,
                   scale=so, zero=zo, shape=(1, 1, 1, LANES))  # fmt: skip
            whole, shift = _mean(float(si) / float(so), count)
            bias, zero, rounding = -count * zi, zo, Rounding.TWICE
        else:
            made = options("Pool2D", padding=VALID, strideH=1, strideW=1, filterHeight=size,
                           filterWidth=size)  # fmt: skip
            net.op("AVERAGE_POOL_2D", ["x"], ["y"], made, dtype=np.int8, scale=si, zero=zi,
                   shape=(1, 1, 1, LANES))  # fmt: skip
            shift = (count - 1).bit_length() - 1
            whole = -(-(1 << 31 + shift) // count)
            bias, zero, rounding = 0, 0, Rounding.ONCE
        expected = reference(net.write(tmp_path / "p.tflite", ["y"]), {"x": x[None]})[0, 0, 0]
        machine = Machine()
        for row in range(size):
            machine.load(row, 0, x[row])
        ones = np.ones(LANES, np.int64)
        machine.records([scaled.record(
            bias=bias * ones, multiplier=whole * ones, shift=shift * ones, zero=zero, low=-128,
            high=127, rounding=rounding)])  # fmt: skip
        found = machine.run([
            isa.AluInit(exec_mode=AluMode.AVEPOOL, kernel_h=size, kernel_w=size, multi_factor=1,
                        length=1),
            isa.Alu(bank_id_out=4, pad_right=size - 1, pad_bottom=size - 1, scaled=1),
        ], 1, 1)  # fmt: skip
        np.testing.assert_array_equal(found[0, 0], expected)


def _mean(real, count):
    """Return multiplier and right shift of MEAN: those of the scale, over the elements."""
    fraction, exponent = math.frexp(real)
    whole = math.floor(fraction * 2**31 + 0.5)
    left = min(count.bit_length() - 1, 32, 31 + exponent)
    return (whole << left) // count, left - exponent
