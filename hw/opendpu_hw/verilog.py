# SPDX-License-Identifier: Apache-2.0
"""Amaranth components as plain Verilog-2001 text."""

import json
import pathlib
import re

import amaranth
from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.hdl import Value
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring

from opendpu_arch import outputs
from opendpu_arch.regs import REGISTERS
from opendpu_hw import cache

TOP = "opendpu_top"
"""Name of the top module."""

_BLOCK = re.compile(
    r"^  initial begin\n((?:    \S+ ?\[\d+\] = \d+'[bhd][0-9a-fA-F]+;\n)+)  end\n", re.M)
_WORD = re.compile(r"^    (\S+ ?)\[(\d+)\] = (\d+)'([bhd])([0-9a-fA-F]+);$", re.M)


def ports_of(component):
    """Return the ports of a component, nested members joined by ``_``.

    Returns
    -------
    dict of str to (value, direction)
        As :func:`amaranth.back.verilog.convert` takes it, in the order of the signature.
    """
    ports = {}
    for path, member, value in component.signature.flatten(component):
        direction = PortDirection.Input if member.flow == wiring.In else PortDirection.Output
        ports["_".join(map(str, path))] = (Value.cast(value), direction)
    return ports


def fill_memories(text):
    """Write the zeros of initial blocks as loops.

    Yosys gives every word of a memory a line; a C++ compiler then needs minutes for what a loop
    says in three. Words that are not zero keep their line, after the loop. A block that does
    not set words 0, 1, 2 … of one memory is left alone.
    """
    count = 0

    def rewrite(block):
        nonlocal count
        words = _WORD.findall(block[1])
        names = {name for name, *_ in words}
        if len(names) != 1 or [int(at) for _, at, *_ in words] != list(range(len(words))):
            return block[0]
        rest = [
            f"    {name}[{at}] = {width}'{base}{digits};\n"
            for name, at, width, base, digits in words if digits.strip("0")]
        if 2 * len(rest) > len(words) or len(words) < 4:
            return block[0]
        name, _, width, *_ = words[0]
        count += 1
        return (
            f"  initial begin : opendpu_fill_{count}\n"
            "    integer i;\n"
            f"    for (i = 0; i < {len(words)}; i = i + 1)\n"
            f"      {name}[i] = {{{width}{{1'b0}}}};\n"
            f"{''.join(rest)}  end\n")

    return _BLOCK.sub(rewrite, text)


#: What turns Amaranth's netlist into Verilog. Widths are trimmed to what is used and registers get
#: their enable as ``if (en) q <= d``: both make simulation several times faster and text shorter.
_PASSES = (
    "proc -norom", "opt_expr", "opt_clean", "wreduce", "opt_expr", "opt_clean", "opt_dff -nosdff",
    "opt_clean", "memory_collect", "delete w:$verilog_initial_trigger",
    "write_verilog -norename -noattr")


def to_verilog(component, name=TOP):
    """Return the Verilog of a component whose members become flat ports."""
    text = rtlil.convert(component, name=name, ports=ports_of(component), emit_src=False)
    yosys = find_yosys(lambda version: version >= (0, 40))
    script = "\n".join([f"read_rtlil <<rtlil\n{text}\nrtlil", *_PASSES, ""])
    return fill_memories(yosys.run(["-q", "-"], script))


def elaborate(target, **options):
    """Return the Verilog of the DPU; kept in the cache.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        What to build.
    options
        Passed to :class:`opendpu_hw.top.Top`.
    """
    key = cache.digest(
        "verilog", amaranth.__version__, cache.source_digest("opendpu_arch", "opendpu_hw"),
        f"{target.fingerprint:#x}", json.dumps(options, sort_keys=True, default=repr))

    def make():
        from opendpu_hw.top import Top
        return to_verilog(Top(target, **options))

    return cache.text("verilog", f"{key}.v", make)


def description(target, text):
    """Return what software and integrators want to know of a DPU, JSON-ready.

    ``text`` is its Verilog, from which the ports are read.
    """
    module = text[text.index(f"module {TOP}("):]
    module = module[:module.index("endmodule")]
    ports = re.findall(r"^  (input|output) (?:\[(\d+):0\] )?(\w+)\s*;", module, re.M)
    return {
        "target": target.name,
        "fingerprint": f"{target.fingerprint:#018x}",
        "module": TOP,
        "ports": [
            {"name": name, "direction": direction, "width": int(msb or 0) + 1}
            for direction, msb, name in ports],
        "registers": [
            {"name": r.name, "offset": r.offset, "access": r.access, "doc": r.doc}
            for r in REGISTERS]}


def write(target, where, **options):
    """Write ``NAME.v`` and ``NAME.json`` into a folder, made if need be; return both paths.

    Raises
    ------
    OutputError
        They cannot be written; known before the Verilog is made.
    """
    where = pathlib.Path(where)
    source, about = where / f"{target.name}.v", where / f"{target.name}.json"
    outputs.check_folder(where)
    if where.exists():
        outputs.check_all((source, about))
    text = elaborate(target, **options)
    where.mkdir(parents=True, exist_ok=True)
    outputs.write(source, text)
    outputs.write(about, json.dumps(description(target, text), indent=2) + "\n")
    return source, about
