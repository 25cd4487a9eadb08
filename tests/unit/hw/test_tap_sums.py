# SPDX-License-Identifier: Apache-2.0
"""Depthwise sums in DSP48E2 against those in plain multiplications, in Icarus Verilog."""

import random

import pytest
from amaranth.back import verilog
from blocks import FILLED, compare, ports_of

from opendpu_arch.extensions import Extension
from opendpu_arch.target import Target
from opendpu_hw.datapath.dwconv import Depthwise

CYCLES = 300
IDLE = 0, 0, "idle", 0, 0, 0


def steps(rng, window, terms, count):
    """Return ``count`` cycles of (step, wide, kind, sliding, first, slot), 0 where idle.

    ``first`` starts a sum; sliding steps come in runs, of which the first two complete nothing. It
    begins with one, after which all registers have values.
    """
    made = [  # halves of a cycle are told apart from the fourth one on, after the reset
        (1, 0, "taps", int(window), int(n == 0), min(max(n - 3, 0), 2)) for n in range(FILLED // 2)
    ]
    kinds = ["idle", "taps", "wide", "prelu", "add", "multiply", *["slide"] * 2 * window]
    kinds += ["terms"] * 2 * terms
    while len(made) < count:
        kind = rng.choice(kinds)
        if kind == "idle":
            made.append(IDLE)
        elif kind == "slide":
            for n in range(rng.randint(3, 8)):
                made += [IDLE] * rng.choice([0, 0, 1, 2])
                made.append((1, 0, kind, 1, int(n == 0), min(n, 2)))
        else:
            wide = kind != "taps"
            for n in range(rng.randint(1, 4)):
                first = int(n == 0 or kind == "multiply")
                made.append((1, int(wide), kind, 0, first, rng.randrange(3)))
    return made[:count]


def draw(rng, ports, made):
    """Return what each cycle has on the inputs; data are often the extremes."""
    drawn, before_is = [], {}
    for n, now in enumerate(made):
        before, earlier = ([IDLE, IDLE, *made])[n + 1], ([IDLE, IDLE, *made])[n]
        step, wide, kind, sliding, _, slot = now
        values = {
            "early": int(step and sliding and slot < 2), "slot": slot & 1,
            "step": step, "wide": wide, "sliding": sliding,
            "prelu": int(kind == "prelu"),
            "eltwise": int(kind in ("add", "multiply")), "multiply": int(kind == "multiply"),
            "add": before[0], "apart": before[1], "slide": before[3],
            "termed": int(before[2] == "terms"),
            "join": earlier[0], "first": earlier[4], "slid": earlier[3],
            "clear": int(not earlier[0] and rng.random() < 0.2), "rst": int(n < 2),
        }  # fmt: skip
        for name, (way, width) in ports.items():
            if way == "input" and name not in values and name != "clk":
                value = rng.choice([1 << width - 1, (1 << width - 1) - 1, rng.getrandbits(width)])
                if name.startswith("w__") and not wide:
                    value = rng.choice([-128, 127, rng.randint(-128, 127)])
                values[name] = value & (1 << width) - 1
        bytes_only = kind not in ("add", "multiply", "terms")
        for name in (name for name in values if name.startswith("left__") and bytes_only):
            operand = values[name.replace("left__", "x__0__")]
            values[name] = operand | (operand & 0x80) * 6  # ten bits
        if step and sliding and slot < 2:  # the kernel's columns come one after the other
            for name in (name for name in values if name.startswith("w__")):
                tap, channel = name.split("__")[1:]
                before_is[f"before__{slot}__{tap}__{channel}"] = values[name] & 0xFF
        values |= before_is
        drawn.append({name: value for name, value in values.items() if name in ports})
    return drawn


def unknown(made):
    """Return the cycles with a sum that nobody wants: it has products of two kernels.

    It is that of the second sliding step of a run, which is there until the third one's.
    """
    found, inside = set(), False
    for n, (step, _, _, sliding, _, slot) in enumerate(made):
        if step and sliding:
            inside = slot == 1
        if inside:
            found.add(n + 2)
    return found


@pytest.mark.parametrize(
    ("name", "taps", "window", "double_rate"),
    [
        ("B64+scaled", 2, False, False), ("B128", 3, False, False),
        ("B128+scaled", 3, True, False), ("B128+scaled", 3, True, True),
        ("B64+scaled", 8, False, False),
        pytest.param("B4096", 5, False, False, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_blocks_sum_what_plain_multiplications_do(name, taps, window, double_rate, tmp_path):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    target, texts = Target.from_name(name), {}
    for form, options in (
        ("plain", {}),
        ("blocks", {"vendor": "xilinx", "double_rate": double_rate}),
    ):
        dut = Depthwise(target, taps=taps, window=window, **options)
        texts[form] = verilog.convert(dut, name=form, emit_src=False, strip_internal_attrs=True)
    ports = ports_of(texts["plain"], "plain")
    more = {"dpu_2x_clk", "dpu_2x_rst"} if double_rate else set()
    assert ports_of(texts["blocks"], "blocks").keys() - more == ports.keys()
    made = steps(rng, window, Extension.SCALED in target.extensions, CYCLES)
    drawn = draw(rng, ports, made)
    left_out = unknown(made) if double_rate else ()
    assert compare(texts, ports, drawn, tmp_path, f"seed {seed}", left_out) > CYCLES
