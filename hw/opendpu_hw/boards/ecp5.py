# SPDX-License-Identifier: Apache-2.0
"""From a LiteX project to a bitstream for ECP5: Yosys, nextpnr, ecppack.

    python -m opendpu_hw.boards.ecp5 build/ulx3s

writes ``NAME.bit``, ``NAME.svf`` and ``implementation.json`` beside what
``python -m opendpu_hw --board`` has written there, and prints what the design takes.
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile
from typing import Any

from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, ModelFormatError
from opendpu_hw import tools
from opendpu_hw.boards.catalog import LitexBoard, find_board
from opendpu_hw.boards.litex_project import DESCRIPTION

REPORT = "implementation.json"

#: nextpnr's names of what is counted; a block RAM is a DP16KD of 18 Kbit.
CELLS = {"lut": "TRELLIS_COMB", "ff": "TRELLIS_FF", "dsp": "MULT18X18D", "block_ram": "DP16KD"}


def implement(where: pathlib.Path, *, seed: int = 1) -> dict[str, Any]:
    """Synthesize, place, route and pack the project in a folder.

    Parameters
    ----------
    where
        What ``python -m opendpu_hw --board`` wrote.
    seed
        Of nextpnr's placement.

    Returns
    -------
    dict
        What is in ``implementation.json``: cells used and there are, and for each clock what is
        asked for and what was reached, in MHz.

    Raises
    ------
    ModelFormatError
        The folder holds no project.
    ToolError
        A tool is missing or failed.
    """
    name, files, device = _project(where)
    for program in ("yosys", "nextpnr-ecp5", "ecppack"):
        tools.find(program)
    results = [where / f"{name}.{kind}" for kind in ("bit", "svf")] + [where / REPORT]
    outputs.check_all(results)
    sources = " ".join(file for file in files if file.endswith(".v"))
    with tempfile.TemporaryDirectory(dir=where, prefix=".ecp5-") as made:
        folder = pathlib.Path(made)
        for file in files:
            shutil.copy(where / file, folder)
        tools.run(folder, "yosys", "-q", "-p",
             f"read_verilog {sources}; synth_ecp5 -top {name} -json {name}.json")
        # The second router takes minutes where the first takes hours.
        tools.run(folder, "nextpnr-ecp5", f"--{device['size']}", "--package",
             device["package"], "--speed", device["speed"], "--json", f"{name}.json", "--lpf",
             f"{name}.lpf", "--textcfg", f"{name}.config", "--report", "report.json",
             "--router", "router2", "--timing-allow-fail", "--seed", str(seed))
        tools.run(folder, "ecppack", "--compress", f"{name}.config", "--bit", f"{name}.bit",
             "--svf", f"{name}.svf")
        found = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        contents = [(folder / path.name).read_bytes() for path in results[:2]]
    report = summary(found) | {"board": name, "seed": seed, "bitstream_bytes": len(contents[0])}
    for path, content in zip(results, [*contents, json.dumps(report, indent=2) + "\n"],
                             strict=True):
        outputs.write(path, content)
    return report


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Return what matters of nextpnr's report."""
    used = report["utilization"]
    return {
        **{figure: {"used": used.get(cell, {}).get("used", 0),
                    "there": used.get(cell, {}).get("available", 0)}
           for figure, cell in CELLS.items()},
        "clocks": {
            clock: {"wanted_mhz": round(value["constraint"], 2),
                    "reached_mhz": round(value["achieved"], 2)}
            for clock, value in report["fmax"].items()}}


def table(report: dict[str, Any]) -> str:
    """Return a report for a person."""
    lines = [f"{figure:10}{report[figure]['used']:>8} of {report[figure]['there']}"
             for figure in CELLS]
    for clock, value in report["clocks"].items():
        verdict = "met" if value["reached_mhz"] >= value["wanted_mhz"] else "MISSED"
        lines.append(f"{clock}: {value['reached_mhz']:g} MHz reached, "
                     f"{value['wanted_mhz']:g} asked for: {verdict}")
    return "\n".join(lines)


def _project(where: pathlib.Path) -> tuple[str, list[str], dict[str, str]]:
    """Return the name of the project in a folder, its files and its device as nextpnr takes it.

    Another project that was in the folder before has left files that are not this one's.
    """
    try:
        description = json.loads((where / DESCRIPTION).read_text(encoding="utf-8"))
        name, files = description["board"], description["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFormatError(
            f"{where} holds no LiteX project ({error!r}); write one with "
            "python -m opendpu_hw --board") from error
    board = find_board(name)
    if not isinstance(board, LitexBoard):
        raise ModelFormatError(f"{where} is for {board.title}, which has no ECP5")
    _, kind, package = board.part.split("-")
    balls = "".join(c for c in package[1:] if c.isdigit())
    return name, files, {"size": f"{kind[:-1]}k", "package": f"CABGA{balls}", "speed": package[0]}


def main(arguments: list[str] | None = None) -> int:
    """Implement a project; return the exit status: 2 where a clock is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m opendpu_hw.boards.ecp5", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="what --board has written")
    parser.add_argument("--seed", type=int, default=1, help="of the placement (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        report = implement(given.folder, seed=given.seed)
    except (DPUError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{table(report)}\n")
    missed = any(v["reached_mhz"] < v["wanted_mhz"] for v in report["clocks"].values())
    return 2 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
