# SPDX-License-Identifier: Apache-2.0
"""Synthesize, place and route parts of the DPU for ECP5, and say how fast they can be clocked.

    python scripts/synth/ecp5.py B64
    python scripts/synth/ecp5.py B64 --part decode --part load --limits scripts/synth/limits.json

Each part is an engine, the decoder, the banks or the like, alone, between registers at all its
ports, on an LFE5U-85F of speed 6. ``--estimate`` leaves out place and route and prints the longest
paths as :mod:`paths` estimates them, which takes a minute. ``--part top`` is the whole DPU.
Figures go to ``build/synth/B64_ecp5.json``. With ``--measured`` those that a file has of this very
design are taken for measured. See docs/fpga.md for what they mean.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any

import measured
import rich.console
from paths import ECP5, Netlist
from synthesize import of_version, yosys_version

from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, ToolError
from opendpu_arch.target import Target
from opendpu_hw import tools, verilog

PARTS = ("decode", "dispatch", "fetch", "load", "save", "conv", "misc_engine", "banks")
"""Modules of the DPU without their prefix; the rest is small."""
PREFIX = "opendpu_"
DEVICE = ("--85k", "--package", "CABGA381", "--speed", "6")
_PORT = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\\?\S+) ?;$", re.M)


def nextpnr_version() -> str:
    """Return what nextpnr for ECP5 says of itself."""
    said = tools.run(pathlib.Path(), "nextpnr-ecp5", "--version")
    version = re.search(r"Version (\S+)\)", said)
    return version[1] if version else "nextpnr"


def between_registers(text: str, module: str, top: str) -> str:
    """Return a module ``top`` that has ``module`` between registers at all ports but ``clk``.

    Raises
    ------
    ToolError
        ``text`` has no such module.
    """
    found = re.search(rf"^module {module}\(.*?^endmodule", text, re.M | re.S)
    if not found:
        raise ToolError(f"the Verilog has no module {module}")
    names, lines, ports = ["clk"], ["  input clk;"], [".clk(clk)"]
    for way, msb, port in _PORT.findall(found[0]):
        if port == "clk":
            continue
        name, bits = port.lstrip("\\"), f"[{msb or 0}:0]"
        names.append(f"p_{name}")
        lines.append(f"  {way} {bits} p_{name}; reg {bits} r_{name};")
        if way == "input":
            lines.append(f"  always @(posedge clk) r_{name} <= p_{name};")
            ports.append(f".{port} (r_{name})")
        else:
            lines.append(f"  wire {bits} w_{name}; assign p_{name} = r_{name};")
            lines.append(f"  always @(posedge clk) r_{name} <= w_{name};")
            ports.append(f".{port} (w_{name})")
    body = "\n".join([*lines, f"  {module} part ({', '.join(ports)});"])
    return f"module {top}({', '.join(names)});\n{body}\nendmodule\n"


def netlist(text: str, part: str, folder: pathlib.Path) -> pathlib.Path:
    """Synthesize a part; return the file with its netlist, whose top is ``bench``."""
    source, made = folder / f"{part}.v", folder / f"{part}.json"
    whole = part == "top"
    bench = "" if whole else between_registers(text, PREFIX + part, "bench")
    outputs.write(source, text + bench)
    top = PREFIX + part if whole else "bench"
    rename = f"rename {top} bench; write_json {made.name}"
    script = f"read_verilog {source.name}; synth_ecp5 -top {top}; {rename}"
    tools.run(folder, "yosys", "-q", "-p", script)
    return made


def route(made: pathlib.Path, seed: int = 1) -> float:
    """Place and route a netlist, beginning from a seed; return the highest clock in MHz."""
    report = made.with_suffix(".report.json")
    # Without pins: parts have more than the device.
    tools.run(
        made.parent, "nextpnr-ecp5", *DEVICE, "--out-of-context", "--router", "router2",
        "--freq", "100", "--timing-allow-fail", "--seed", str(seed), "--json", made.name,
        "--report", report.name, "-q",
    )  # fmt: skip
    clocks = json.loads(report.read_text(encoding="utf-8"))["fmax"]
    return min(float(clock["achieved"]) for clock in clocks.values())


def below(fmax: Mapping[str, float], limits: Mapping[str, float]) -> list[str]:
    """Return, a line each, the parts that are slower than the limits say."""
    return [
        f"{part} reaches {fmax[part]:.1f} MHz, but {least:g} at least were agreed"
        for part, least in limits.items()
        if part in fmax and fmax[part] < least
    ]


def limits_of(limits: Mapping[str, Any], target: str) -> dict[str, float]:
    """Return the least clock of each part of a target with the tools that there are.

    Raises
    ------
    ToolError
        There are no limits for these versions, or for this target.
    """
    least = of_version(of_version(limits["fmax"], yosys_version()), nextpnr_version())
    if target not in least:
        raise ToolError(f"{target} has no limits; there are some for {', '.join(sorted(least))}")
    return dict(least[target])


def fastest(made: pathlib.Path, seeds: int, least: float) -> tuple[float, int]:
    """Return the highest clock of up to ``seeds`` placements, and its seed; the first that does.

    What a placement reaches differs by a tenth for reasons that are not the design's.
    """
    best = (0.0, 0)
    for seed in range(1, seeds + 1):
        best = max(best, (route(made, seed), seed))
        if best[0] >= least:
            break
    return best


def measure(
    target: Target,
    parts: Iterable[str],
    folder: pathlib.Path,
    *,
    estimate: int,
    seeds: int = 1,
    least: Mapping[str, float] | None = None,
    jobs: int = 1,
    record: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Place and route parts, or with ``estimate`` find so many of their longest paths.

    ``jobs`` at a time; up to ``seeds`` placements of a part that is slower than ``least`` says.
    What ``record`` has of a part of this design is not measured again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = verilog.elaborate(target, vendor="ecp5")
    result: dict[str, Any] = {"target": target.name, "yosys": yosys_version(), "parts": {}}
    if not estimate:
        result["nextpnr"] = nextpnr_version()

    name, made_by = target.name.split("_")[-1], [str(seeds), *DEVICE]
    if record:
        made_by += [measured.tool_version("yosys"), measured.tool_version("nextpnr-ecp5")]
    kept = {
        part: measured.digest(text, part, str((least or {}).get(part)), *made_by) for part in parts
    }
    known = {
        part: None if estimate else measured.find(record, f"{name} {part}", design)
        for part, design in kept.items()
    }

    def one(part: str) -> tuple[str, dict[str, Any]]:
        if found := known[part]:
            print(f"{part}: {found['fmax']:.1f} MHz, as measured of this design", flush=True)
            return part, found
        start = time.monotonic()
        made = netlist(text, part, folder)
        if estimate:
            design = json.loads(made.read_text(encoding="utf-8"))
            worst = Netlist(design, "bench", ECP5).longest(estimate)
            figures: dict[str, Any] = {"paths": [str(path) for path in worst]}
            print(f"{part}:", *(f"  {path}" for path in worst), sep="\n", flush=True)
        else:
            fmax, seed = fastest(made, seeds, (least or {}).get(part, float("inf")))
            figures = {"fmax": fmax, "seed": seed}
            print(f"{part}: {fmax:.1f} MHz (seed {seed})", flush=True)
        return part, figures | {"seconds": round(time.monotonic() - start)}

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        result["parts"] |= dict(pool.map(one, kept))
    if not estimate:
        measured.keep(record, {
            f"{name} {part}": (kept[part], {"fmax": figures["fmax"], "seed": figures["seed"]})
            for part, figures in result["parts"].items()
            if not known[part]
        })  # fmt: skip
    return result


def main() -> int:
    """Measure, print, write; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", help="a name (B64) or fingerprint (0x…)")
    parser.add_argument("--part", action="append", choices=[*PARTS, "top"], help="only this one")
    parser.add_argument("--output", type=measured.path, default=pathlib.Path("build/synth"))
    parser.add_argument(
        "--estimate", type=measured.count, default=0, metavar="COUNT", help="the worst paths"
    )
    parser.add_argument("--seeds", type=int, default=1, help="most placements of a part (1)")
    parser.add_argument("--jobs", type=int, default=1, help="parts at a time (1)")
    parser.add_argument(
        "--limits", type=measured.path, metavar="FILE",
        help="a JSON file: the least clock of each part; without --part only those are measured",
    )  # fmt: skip
    measured.add_option(parser)
    given = parser.parse_args()
    console = rich.console.Console(stderr=True)
    try:
        target = Target.from_name(given.target)
        measured.check_outputs(given.output, given.measured)
        parts, least = given.part or PARTS, {}
        if given.limits:
            limits = measured.read(given.limits, "fmax")
            least = limits_of(limits, target.name.split("_")[-1])
            parts = given.part or tuple(least)
        with console.status(f"measuring {target.name} on ECP5"):
            result = measure(
                target, parts, given.output / "ecp5",
                estimate=given.estimate, seeds=given.seeds, least=least, jobs=given.jobs,
                record=given.measured,
            )  # fmt: skip
        path = given.output / f"{given.target}_ecp5.json"
        outputs.write(path, json.dumps(result, indent=1) + "\n")
    except DPUError as error:
        print(f"ecp5: {error}", file=sys.stderr)
        return 1
    faults = below({p: f["fmax"] for p, f in result["parts"].items() if "fmax" in f}, least)
    for fault in faults:
        print(f"ecp5: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
