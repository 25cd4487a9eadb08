# SPDX-License-Identifier: Apache-2.0
"""Depthwise sums in DSP48E2 against those in plain multiplications, in Icarus Verilog."""

import pathlib
import random
import shutil
import subprocess

import pytest
from amaranth.back import verilog

from opendpu_arch.target import Target
from opendpu_hw.datapath.dwconv import Depthwise

DSP48E2 = pathlib.Path(__file__).parents[2] / "cosim" / "dsp48e2.v"
CYCLES = 300
FILLED = 16
IDLE = 0, 0, "idle", 0, 0


def steps(rng, taps, window, count):
    """Return ``count`` cycles of (step, wide, kind, sliding, first), 0 where idle.

    ``first`` starts a sum; sliding steps come in runs, of which the first two complete nothing. It
    begins with one, after which all registers have values.
    """
    made = [(1, 0, "taps", int(window), int(n == 0)) for n in range(FILLED // 2)]
    kinds = ["idle", "taps", "wide", "prelu", "add", "multiply", *["slide"] * 2 * window]
    while len(made) < count:
        kind = rng.choice(kinds)
        if kind == "idle":
            made.append(IDLE)
        elif kind == "slide":
            for n in range(rng.randint(3, 8)):
                made += [IDLE] * rng.choice([0, 0, 1, 2])
                made.append((1, 0, kind, 1, int(n == 0)))
        else:
            wide = kind != "taps"
            for n in range(rng.randint(1, 4)):
                made.append((1, int(wide), kind, 0, int(n == 0 or kind == "multiply")))
    return made[:count]


def bench(ports, drawn, watched):
    """Return a test bench that gives both forms the same inputs and prints what differs."""
    inputs = {name: width for name, (way, width) in ports.items() if way == "input"}
    del inputs["clk"]
    lines = ["module bench; reg clk = 0; integer cycle = 0, wrong = 0, seen = 0;"]
    lines += [f"reg [{width - 1}:0] \\{name} ;" for name, width in inputs.items()]
    for form in ("plain", "blocks"):
        outs = [f"wire [{ports[name][1] - 1}:0] {form}_{n};" for n, name in enumerate(watched)]
        joined = ", ".join(
            [".clk(clk)", *(f".\\{name} (\\{name} )" for name in inputs),
             *(f".\\{name} ({form}_{n})" for n, name in enumerate(watched))]
        )  # fmt: skip
        lines += [*outs, f"{form} {form}({joined});"]
    lines.append("initial begin")
    for values in drawn:
        lines += [f"\\{name} = {inputs[name]}'d{value};" for name, value in values.items()]
        lines.append("#1 clk = 1; #1 clk = 0; cycle = cycle + 1;")
        lines += [
            f"if (cycle > {FILLED} && plain_{n} !== blocks_{n}) begin wrong = wrong + 1;"
            " if (wrong < 9) "
            f'$display("cycle %0d {name}: %h plain, %h in blocks", cycle, plain_{n}, blocks_{n});'
            f" end if (plain_{n} !== 0) seen = seen + 1;"
            for n, name in enumerate(watched)
        ]
    lines.append('$display("%0d wrong, %0d seen", wrong, seen); $finish; end endmodule')
    return "\n".join(lines)


def ports_of(text, module):
    """Return the ports of a module of Verilog as Amaranth writes it: name to (way, width)."""
    inside = text[text.index(f"module {module}(") :]
    found = {}
    for line in inside[: inside.index("endmodule")].splitlines():
        words = line.strip().rstrip(";").split()
        if words[:1] in (["input"], ["output"]):
            width = int(words[1][1:].split(":")[0]) + 1 if words[1].startswith("[") else 1
            found[words[-1].lstrip("\\")] = words[0], width
    return found


def draw(rng, ports, made):
    """Return what each cycle has on the inputs; data are often the extremes."""
    drawn = []
    for n, now in enumerate(made):
        before, earlier = ([IDLE, IDLE, *made])[n + 1], ([IDLE, IDLE, *made])[n]
        step, wide, kind, sliding, _ = now
        values = {
            "step": step, "wide": wide, "sliding": sliding, "prelu": int(kind == "prelu"),
            "eltwise": int(kind in ("add", "multiply")), "multiply": int(kind == "multiply"),
            "add": before[0], "apart": before[1], "slide": before[3],
            "join": earlier[0], "first": earlier[4], "slid": earlier[3],
            "clear": int(not earlier[0] and rng.random() < 0.2), "rst": int(n < 2),
        }  # fmt: skip
        for name, (way, width) in ports.items():
            if way == "input" and name not in values and name != "clk":
                value = rng.choice([1 << width - 1, rng.getrandbits(width)])
                if name.startswith("w__") and not wide:
                    value = rng.choice([-128, 127, rng.randint(-128, 127)])
                values[name] = value & (1 << width) - 1
        drawn.append({name: value for name, value in values.items() if name in ports})
    return drawn


@pytest.mark.parametrize(
    ("name", "taps", "window"),
    [("B64", 2, False), ("B128", 3, False), ("B128", 3, True), ("B4096", 5, False)],
)
def test_blocks_sum_what_plain_multiplications_do(name, taps, window, tmp_path):
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt install iverilog)")
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    target, texts = Target.from_name(name), {}
    for form, vendor in (("plain", None), ("blocks", "xilinx")):
        dut = Depthwise(target, taps=taps, window=window, vendor=vendor)
        texts[form] = verilog.convert(dut, name=form, emit_src=False, strip_internal_attrs=True)
    ports = ports_of(texts["plain"], "plain")
    assert ports.keys() == ports_of(texts["blocks"], "blocks").keys()
    watched = [name for name, (way, _) in ports.items() if way == "output"]
    text = bench(ports, draw(rng, ports, steps(rng, taps, window, CYCLES)), watched)
    source, binary = tmp_path / "bench.v", tmp_path / "bench"
    source.write_text("\n".join([text, *texts.values(), DSP48E2.read_text(encoding="utf-8")]))
    for command in (
        ["iverilog", "-g2005-sv", "-s", "bench", "-o", binary, source],
        ["vvp", binary],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
    wrong, seen = (int(part.split()[0]) for part in done.stdout.splitlines()[-1].split(","))
    assert not wrong, f"seed {seed}: {done.stdout}"
    assert seen > CYCLES
