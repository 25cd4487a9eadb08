# SPDX-License-Identifier: Apache-2.0
"""Synthesize the DPU for UltraScale+ with Yosys and say what it takes, module by module.

    python scripts/synth/synthesize.py B512
    python scripts/synth/synthesize.py B64 --limits scripts/synth/limits.json

write ``build/synth/B512.json`` and print a table next to AMD's figures. Hierarchy is kept, so a
module is synthesized once however often it is there. ``--paths 10`` also prints the ten longest
paths between registers, across modules, in levels of LUTs. With ``--limits`` it fails where a
target takes more, or has longer paths, than the file says; with ``--measured`` figures that a file
has of this very design are taken for measured. See docs/fpga.md for what the figures mean.
"""

import argparse
import ast
import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import measured
import rich.console
from cells import Resources, total
from paths import XCUP, Netlist, Path
from published import published

from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, ToolError
from opendpu_arch.target import Target
from opendpu_hw import tools, verilog

SCRIPT = (
    "read_verilog dpu.v",
    "synth_xilinx -family xcup -noiopad -noclkbuf -nowidelut -top {top}",
    "tee -q -o stat.json stat -json -tech xilinx",
)
FLAT = ("flatten", "write_json flat.json")
"""After the count, for paths across modules."""
FIGURES = tuple(field.name for field in dataclasses.fields(Resources))


def yosys_version() -> str:
    """Return what Yosys says of itself."""
    said: str = tools.run(pathlib.Path(), "yosys", "-V")
    return said.strip()


def cells_of(report: str) -> dict[str, dict[str, int]]:
    """Return the cells of each module from what Yosys's ``stat -json`` wrote.

    Only the object of modules is read: after it, Yosys 0.23 writes the hierarchy as text.
    """
    found = report.partition('"modules":')[2].lstrip()
    modules, _ = json.JSONDecoder().raw_decode(found)
    return {
        name.lstrip("\\"): {
            kind.lstrip("\\"): int(n) for kind, n in module["num_cells_by_type"].items()
        }
        for name, module in modules.items()
    }


def by_clocks(netlist: Netlist) -> dict[str, Path]:
    """Return the longest path from each clock to each other one, and to itself."""
    found = {}
    clocks = netlist.clocks()
    for launching in clocks:
        launched = netlist.launched_by(launching)
        for capturing in clocks:
            for path in launched.longest(1, capturing):
                found[f"{launching} to {capturing}"] = path
    return found


def synthesize(
    text: str, top: str, *, paths: int = 0
) -> tuple[dict[str, dict[str, int]], list[Path], dict[str, Path]]:
    """Return the cells of each module of a Verilog text, the longest paths, and :func:`by_clocks`.

    Raises
    ------
    ToolError
        Yosys is missing or failed; the message ends with the last lines it wrote.
    """
    script = "; ".join([*SCRIPT, *(FLAT if paths else ())])
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        (folder / "dpu.v").write_text(text, encoding="utf-8")
        tools.run(folder, "yosys", "-q", "-p", script.format(top=top))
        worst, clocks = [], {}
        if paths:
            design = json.loads((folder / "flat.json").read_text(encoding="utf-8"))
            netlist = Netlist(design, top, XCUP)
            worst, clocks = netlist.longest(paths), by_clocks(netlist)
        return cells_of((folder / "stat.json").read_text(encoding="utf-8")), worst, clocks


def measure(target: Target, options: Mapping[str, Any], *, paths: int = 0) -> dict[str, Any]:
    """Synthesize a target; return what it takes and its longest ``paths``, JSON-ready."""
    start = time.monotonic()
    cells, worst, clocks = synthesize(
        verilog.elaborate(target, **options), verilog.TOP, paths=paths
    )
    instances, own, together = total(cells, verilog.TOP)
    theirs = published(target.name.split("_")[-1])
    return {
        "target": target.name,
        "options": dict(options),
        "tool": yosys_version(),
        "script": [line for line in SCRIPT if line.startswith("synth")],
        "seconds": round(time.monotonic() - start),
        **dataclasses.asdict(together),
        **({"levels": worst[0].cost, "paths": [str(path) for path in worst]} if worst else {}),
        **({"clocks": {pair: str(path) for pair, path in clocks.items()}} if clocks else {}),
        "amd": dataclasses.asdict(theirs) if theirs else None,
        "modules": {
            name: {"instances": instances[name], **dataclasses.asdict(resources)}
            for name, resources in sorted(
                own.items(), key=lambda item: -item[1].lut * instances[item[0]]
            )
        },
    }


def table(result: Mapping[str, Any]) -> str:
    """Return the figures for a person: modules by their share of LUTs, the sum, AMD's."""
    lines = [f"{'module':32}{'copies':>7}" + "".join(f"{figure:>9}" for figure in FIGURES)]

    def line(name: str, copies: int | str, values: Mapping[str, Any], count: int = 1) -> None:
        row = "".join(f"{values[figure] * count:>9g}" for figure in FIGURES)
        lines.append(f"{name:32}{copies:>7}{row}")

    for name, values in result["modules"].items():
        if any(values[figure] for figure in FIGURES):
            line(name, values["instances"], values, values["instances"])
    line("in all", "", result)
    theirs = result["amd"]
    if theirs:
        line("AMD (PG338)", "", theirs)
        ratios = (f"{result[f] / theirs[f]:>8.2f}x" if theirs[f] else f"{'':9}" for f in FIGURES)
        lines.append(f"{'ratio':39}{''.join(ratios)}")
    return "\n".join(lines)


def of_version(limits: Mapping[str, Any], version: str) -> Any:
    """Return what limits say for a tool, by what it says of itself.

    Parameters
    ----------
    limits
        By the first two numbers of versions.

    Raises
    ------
    ToolError
        They say nothing for this one: figures of different versions cannot be compared.
    """
    said = re.search(r"(\d+\.\d+)", version)
    if said and said[1] in limits:
        return limits[said[1]]
    raise ToolError(
        f"this is {version}, and there are limits for versions {', '.join(sorted(limits))} only: "
        "use one of them, or measure with this one and add its limits"
    )


def limited_name(target: Target, options: Mapping[str, Any]) -> str:
    """Return what limits call a target that is built so: ``B512``, ``B512 window=False``.

    DSP48E2 and other options that have their defaults are not named.
    """
    named = {"vendor": "none"} | dict(options)
    if named["vendor"] == "xilinx":
        del named["vendor"]
    short = target.name.rpartition("_")[2]
    return " ".join((short, *(f"{name}={named[name]}" for name in sorted(named))))


def above(result: Mapping[str, Any], limits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return, a line each, the figures that are above the limits of their target and tool.

    Raises
    ------
    ToolError
        There are no limits for this target.
    """
    name = limited_name(Target.from_name(result["target"]), result["options"])
    if name not in limits:
        raise ToolError(f"{name} has no limits; there are some for {', '.join(sorted(limits))}")
    return [
        f"{name} has {result[figure]:g} {figure} by {result['tool']}, but {most:g} at most were "
        "agreed for this version"
        for figure, most in limits[name].items()
        if result[figure] > most
    ]


def counted(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what limits are compared with."""
    names = ("target", "options", "tool", *FIGURES, "levels")
    return {name: result[name] for name in names if name in result}


def _said(result: Mapping[str, Any]) -> str:
    figures = (f"{result[name]:g} {name}" for name in (*FIGURES, "levels") if result.get(name))
    return f"{', '.join(figures)}; the design is the one that {result['tool']} measured"


def _shown(result: Mapping[str, Any], path: pathlib.Path) -> None:
    """Write a measurement and print it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    outputs.write(path, json.dumps(result, indent=1) + "\n")
    print(table(result))
    print(*(f"levels {path}" for path in result.get("paths", ())), sep="\n")
    if len(result.get("clocks", ())) > 1:
        print(*(f"{pair}: levels {path}" for pair, path in result["clocks"].items()), sep="\n")
    print(f"{result['tool']}, {result['seconds']} s; written to {path}")


def _option(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def main() -> int:
    """Synthesize, print, write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", help="a name (B512) or fingerprint (0x…)")
    parser.add_argument("--output", type=measured.path, default=pathlib.Path("build/synth"))
    parser.add_argument(
        "--vendor", choices=["xilinx", "none"], default="xilinx",
        help="whose primitives the array is made of (xilinx); none: plain multiplications",
    )  # fmt: skip
    parser.add_argument("--option", action="append", default=[], type=_option, metavar="NAME=VALUE")
    parser.add_argument(
        "--paths", type=measured.count, default=0, metavar="COUNT", help="the longest ones"
    )
    parser.add_argument(
        "--limits", type=measured.path, metavar="FILE",
        help="a JSON file: the most of each figure that a target may take",
    )  # fmt: skip
    measured.add_option(parser)
    given = parser.parse_args()
    try:
        measured.check_outputs(given.output, given.measured)
        limits = measured.read(given.limits, "resources") if given.limits else None
        if limits is not None:
            limits = of_version(limits["resources"], yosys_version())
        target = Target.from_name(given.target)
        vendor = {"vendor": given.vendor} if given.vendor != "none" else {}
        options = dict(given.option) | vendor
        name = limited_name(target, options)
        paths = given.paths or int("levels" in (limits or {}).get(name, {}))
        design = measured.digest(
            verilog.elaborate(target, **options), *SCRIPT, *FLAT, str(bool(paths)),
            measured.tool_version("yosys"),
        )  # fmt: skip
        # Figures that are kept have no paths: those that are asked for are measured.
        result = None if given.paths else measured.find(given.measured, name, design)
        if result:
            print(f"{name}: {_said(result)}")
        else:
            with rich.console.Console(stderr=True).status(f"synthesizing {target.name}"):
                result = measure(target, options, paths=paths)
            _shown(result, given.output / f"{given.target}.json")
            measured.keep(given.measured, {name: (design, counted(result))})
    except DPUError as error:
        print(f"synth: {error}", file=sys.stderr)
        return 1
    if limits is None:
        return 0
    try:
        faults = above(result, limits)
    except DPUError as error:
        faults = [str(error)]
    for fault in faults:
        print(f"synth: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
