# SPDX-License-Identifier: Apache-2.0
"""Amaranth components as plain Verilog-2001 text."""

import contextlib
import gc
import json
import pathlib
import re

import amaranth
from amaranth._toolchain.yosys import find_yosys

from opendpu_arch import cache, outputs
from opendpu_arch.regs import registers_of
from opendpu_hw.hierarchy import to_rtlil
from opendpu_hw.options import check as check_options
from opendpu_hw.verilog_text import (
    fill_memories,
    mark_selections,
    name_interfaces,
    order_selections,
    plain_registers,
    replicate,
    widen_operands,
)

TOP = "opendpu_top"
"""Name of the top module."""

#: What turns Amaranth's netlist into Verilog. Widths are trimmed to what is used and registers get
#: their enable as ``if (en) q <= d``: both make simulation several times faster and text shorter.
#: Of the names of one net ``-purge`` leaves one.
_PASSES = (
    "proc -norom", "opt_expr", "opt_clean", "wreduce", "opt_expr", "opt_clean", "opt_dff -nosdff",
    "opt_clean -purge", "memory_collect", "delete w:$verilog_initial_trigger",
    "write_verilog -noattr")


def to_verilog(component, name=TOP):
    """Return the Verilog of a component whose members become flat ports."""
    text = to_rtlil(component, name)
    yosys = find_yosys(lambda version: version >= (0, 40))
    script = "\n".join([f"read_rtlil <<rtlil\n{text}\nrtlil", *_PASSES, ""])
    found = yosys.run(["-q", "-"], script)
    for rewrite in (fill_memories, order_selections, mark_selections, replicate, widen_operands,
                    plain_registers):
        found = rewrite(found)
    return found


def elaborate(target, **options):
    """Return the Verilog of the DPU; kept in the cache.

    Parameters
    ----------
    target : :class:`opendpu_arch.target.Target`
        What to build.
    options
        Passed to :class:`opendpu_hw.top.Top`, see :mod:`opendpu_hw.options`.

    Raises
    ------
    UnsupportedError
        The target cannot be built so.
    """
    check_options(target, **options)
    key = cache.digest(
        "verilog", amaranth.__version__, cache.source_digest("opendpu_arch", "opendpu_hw"),
        f"{target.fingerprint:#x}", json.dumps(options, sort_keys=True, default=repr))

    def make():
        from opendpu_hw.top import Top
        with _without_collections():
            return name_interfaces(to_verilog(Top(target, **options)), TOP)

    return cache.text("verilog", f"{key}.v", make)


@contextlib.contextmanager
def _without_collections():
    """Let Python look for cycles of garbage when all is made: a netlist is kept until then."""
    were_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if were_on:
            gc.enable()


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
            for r in registers_of(target.extensions)]}


def write(target, where, **options):
    """Write ``NAME.v`` and ``NAME.json`` into a folder, made if need be; return both paths.

    Raises
    ------
    OutputError
        They cannot be written; known before the Verilog is made.
    """
    outputs.check_folder(where)
    where = pathlib.Path(where)
    source, about = where / f"{target.name}.v", where / f"{target.name}.json"
    if where.exists():
        outputs.check_all((source, about))
    text = elaborate(target, **options)
    where.mkdir(parents=True, exist_ok=True)
    outputs.write(source, text)
    outputs.write(about, json.dumps(description(target, text), indent=2) + "\n")
    return source, about
