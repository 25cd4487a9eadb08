# SPDX-License-Identifier: Apache-2.0
"""Components made of a vendor's primitives beside the same in plain registers, in Icarus."""

import pathlib
import shutil
import subprocess

import pytest

PRIMITIVES = [
    pathlib.Path(__file__).parents[2] / "cosim" / name for name in ("dsp48e2.v", "uram288.v")
]
DOUBLED = "dpu_2x_clk"
FILLED = 16
"""Cycles until registers without reset have a value."""


def compare(texts, ports, drawn, folder, where, unknown=()):
    """Compare all outputs of the modules ``plain`` and ``blocks``; return how many were not zero.

    Parameters
    ----------
    texts : dict of str to str
        Verilog of both.
    drawn : list of dict
        Values of the inputs in each cycle.
    where : str
        Said where they differ.
    unknown : container of int
        Cycles, by their place in ``drawn``, whose outputs are not compared.
    """
    if shutil.which("iverilog") is None:
        pytest.skip("Icarus Verilog is not installed (apt install iverilog)")
    watched = [name for name, (way, _) in ports.items() if way == "output"]
    doubled = [form for form, text in texts.items() if DOUBLED in ports_of(text, form)]
    text = bench(ports, drawn, watched, doubled, unknown)
    source, binary = folder / "bench.v", folder / "bench"
    models = [path.read_text(encoding="utf-8") for path in PRIMITIVES]
    source.write_text("\n".join([text, *texts.values(), *models]))
    for command in (
        ["iverilog", "-g2005-sv", "-s", "bench", "-o", binary, source],
        ["vvp", binary],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stdout + done.stderr
    wrong, seen = (int(part.split()[0]) for part in done.stdout.splitlines()[-1].split(","))
    assert not wrong, f"{where}: {done.stdout}"
    return seen


def bench(ports, drawn, watched, with_doubled=(), unknown=()):
    """Return a test bench that gives both forms the same inputs and prints what differs.

    ``ports`` are those of both; a form with a doubled clock gets one.
    """
    inputs = {name: width for name, (way, width) in ports.items() if way == "input"}
    del inputs["clk"]
    lines = ["module bench; reg clk = 0, doubled = 0; integer cycle = 0, wrong = 0, seen = 0;"]
    lines += [f"reg [{width - 1}:0] \\{name} ;" for name, width in inputs.items()]
    for form in ("plain", "blocks"):
        outs = [f"wire [{ports[name][1] - 1}:0] {form}_{n};" for n, name in enumerate(watched)]
        joined = ", ".join(
            [".clk(clk)", *([f".{DOUBLED}(doubled)"] if form in with_doubled else []),
             *(f".\\{name} (\\{name} )" for name in inputs),
             *(f".\\{name} ({form}_{n})" for n, name in enumerate(watched))]
        )  # fmt: skip
        lines += [*outs, f"{form} {form}({joined});"]
    lines.append("initial begin")
    for number, values in enumerate(drawn):
        lines += [f"\\{name} = {inputs[name]}'d{value};" for name, value in values.items()]
        # Outputs are compared in the first half of a cycle, registers of the doubled clock too.
        lines.append("#1 doubled = 1; #1 doubled = 0;")
        lines.append("#1 clk = 1; doubled = 1; #1 clk = 0; doubled = 0; cycle = cycle + 1;")
        lines += [
            f"if ({int(number not in unknown)} && cycle > {FILLED} && plain_{n} !== blocks_{n}) "
            "begin wrong = wrong + 1; if (wrong < 9) "
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
